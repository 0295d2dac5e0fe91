"""Where a Hydra job's run goes: called by Hydra's resolver before the job, and by `start()` in it.

Standard library and `expdb.store` paths only: it runs at every start of a script.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from expdb.conf.script import entry_script
from expdb.store.ids import is_id, new_id
from expdb.store.layout import StoreLayout
from expdb.store.locate import store_for_script

ADHOC = "adhoc"
SWEEP_FILE = "multirun.yaml"


def experiment_of(overrides: Sequence[str], key: str = "exp") -> str:
    """Return the experiment that overrides name: `+exp=a` is `a`, `+exp=[a,b]` is `a+b`, none is
    `adhoc`.
    """
    for text in overrides:
        name, _, value = text.partition("=")
        if name.lstrip("+") == key:
            names = [part.strip(" '\"") for part in value.strip("[] ").split(",")]
            return "+".join(part for part in names if part) or ADHOC
    return ADHOC


def store_of(given: str | None) -> Path:
    """Return the store of a new run; `given` is the config's `expdb.store`."""
    return store_for_script(entry_script(), os.environ.get("EXPDB_STORE") or given)


def new_run_dir(overrides: Sequence[str], given: str | None, key: str = "exp") -> Path:
    """Return the folder of a new run for a job's task overrides; nothing is made.

    Hydra will make it, also for a job that then fails or joins another run, so an empty one goes
    when the process ends. In a store that cannot be written it is a temporary folder: `start()`
    says what is wrong, Hydra would show a traceback.
    """
    path = StoreLayout(store_of(given)).run_dir(experiment_of(overrides, key), new_id())
    if not _can_make(path):
        path = Path(tempfile.mkdtemp(prefix="expdb-"))
    atexit.register(remove_empty, path)
    return path


def forget_sweep_file(given: str | None) -> Path:
    """Return the store of a sweep; Hydra's multirun.yaml there, which holds secrets, goes when the
    process ends.
    """
    store = store_of(given)
    if not _can_make(store / SWEEP_FILE):
        store = Path(tempfile.mkdtemp(prefix="expdb-"))
        atexit.register(remove_empty, store)
    atexit.register((store / SWEEP_FILE).unlink, missing_ok=True)
    return store


def remove_empty(path: Path) -> None:
    """Remove the folder of a run that holds nothing, and what was made around it for it alone."""
    around = (path, path.parent, path.parent.parent) if store_of_run_dir(path) else (path,)
    for folder in around:
        try:
            folder.rmdir()
        except OSError:
            return  # it holds something, so it is somebody's


def store_of_run_dir(path: Path) -> Path | None:
    """Return the store of a folder that has the form of a run's, else None."""
    if path.name.startswith("run=") and is_id(path.name.removeprefix("run=")):
        return path.parent.parent if path.parent.name.startswith("exp=") else None
    return None


def _can_make(path: Path) -> bool:
    there = next(folder for folder in path.parents if os.access(folder, os.F_OK))
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK, effective_ids=True)
