"""Where a Hydra job's run goes: called by Hydra's resolver before the job, and by `start()` in it.

Standard library and `expdb.store` paths only: it runs at every start of a script.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from expdb.store.ids import is_id, new_id
from expdb.store.layout import StoreLayout
from expdb.store.locate import store_for_script

ADHOC = "adhoc"


def entry_script() -> Path:
    """Return the script that this process was started with; the current folder's `main` without one."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(file).absolute() if file else Path.cwd() / "main"


def experiment_of(overrides: Sequence[str], key: str = "exp") -> str:
    """Return the experiment that overrides name: `+exp=a` is `a`, `+exp=[a,b]` is `a+b`, none is `adhoc`."""
    for text in overrides:
        name, _, value = text.partition("=")
        if name.lstrip("+") == key:
            names = [part.strip(" '\"") for part in value.strip("[] ").split(",")]
            return "+".join(part for part in names if part) or ADHOC
    return ADHOC


def store_of(given: str | None) -> Path:
    """Return the store of a new run; `given` is the config's `expdb.store`."""
    return store_for_script(entry_script(), os.environ.get("EXPDB_STORE") or given)


def new_run_dir(overrides: Sequence[str], given: str | None) -> Path:
    """Return the folder of a new run for a job's task overrides; nothing is made."""
    return StoreLayout(store_of(given)).run_dir(experiment_of(overrides), new_id())


def store_of_run_dir(path: Path) -> Path | None:
    """Return the store of a folder that has the form of a run's, else None."""
    if path.name.startswith("run=") and is_id(path.name.removeprefix("run=")):
        if path.parent.name.startswith("exp="):
            return path.parent.parent
    return None
