"""How messages name a run: `k3f9 baseline`, with as many characters as make every id unique."""

from __future__ import annotations

from pathlib import Path

from expdb import text
from expdb.model import Run
from expdb.store.layout import RunLayout
from expdb.store.runs import run_dirs
from expdb.store.store import Store


def short(store: Store, run: str) -> str:
    """Return the shortest unique form of a run id, 4 characters or more."""
    ids = {name for name, _, _ in run_dirs(store.root)}
    return text.short_id(run, text.id_length(ids | {run}))


def named(store: Store, run: Run) -> str:
    """Return `k3f9 baseline`."""
    return text.plain(f"{short(store, run.id)} {run.name}")


def at_step(name: str, step: int | None) -> str:
    """Return `baseline@300`, or the name alone where no step was named."""
    return name if step is None else f"{name}@{step}"


def checkpoint_path(run: Run, step: int) -> str:
    """Return the folder of a checkpoint relative to the store."""
    return RunLayout(Path(run.path)).checkpoint(step).as_posix()
