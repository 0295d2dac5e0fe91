"""Where a Hydra job's run goes: called by Hydra's resolver before the job, and by `start()` in it.

Standard library and `expdb.store` paths only: it runs at every start of a script.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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


def store_of(root: Any) -> Path:
    """Return the store that a composed Hydra config names."""
    section = root.get("expdb") if isinstance(root, Mapping) or hasattr(root, "get") else None
    given = section.get("store") if section is not None else None
    return store_for_script(entry_script(), os.environ.get("EXPDB_STORE") or given)


def new_run_dir(root: Any) -> Path:
    """Return the folder of a new run for a composed Hydra config; nothing is made."""
    overrides = [str(item) for item in root["hydra"]["overrides"]["task"]]
    layout = StoreLayout(store_of(root))
    return layout.run_dir(experiment_of(overrides), new_id())


def store_of_run_dir(path: Path) -> Path | None:
    """Return the store of a folder that has the form of a run's, else None."""
    if path.name.startswith("run=") and is_id(path.name.removeprefix("run=")):
        if path.parent.name.startswith("exp="):
            return path.parent.parent
    return None
