"""How messages name a run: `k3f9 baseline`, with as many characters as make every id unique."""

from __future__ import annotations

from pathlib import Path

from expdb import text
from expdb.model import Run
from expdb.store.layout import RunLayout


def named(run: Run, id_cells: int) -> str:
    """Return `k3f9 baseline`, with `id_cells` characters of the id (a reader knows how many)."""
    return text.plain(f"{text.short_id(run.id, id_cells)} {run.name}")


def at_step(name: str, step: int | None) -> str:
    """Return `baseline@300`, or the name alone where no step was named."""
    return name if step is None else f"{name}@{step}"


def checkpoint_path(run: Run, step: int) -> str:
    """Return the folder of a checkpoint relative to the store."""
    return RunLayout(Path(run.path)).checkpoint(step).as_posix()
