"""What the matrix shows, read as `expdb status` reads it; called in worker threads only.

Invariant: configs are composed by one thread at a time, as Hydra has one state for a process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from expdb.errors import NotFound
from expdb.index.newest import folders
from expdb.index.reader import Reader
from expdb.model import RunAt
from expdb.query.declared_cache import declaration
from expdb.query.declared_results import Declaration
from expdb.query.entry import find_entry
from expdb.query.matrix import matrix_of, metrics_of
from expdb.query.matrix_results import Matrix
from expdb.query.status import store_status

Tick = Callable[[int, int], None]
_COMPOSING = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRead:
    """What was read."""

    matrix: Matrix
    declared: Declaration
    places: tuple[Path, ...]
    """The folders in which a script is looked for."""
    metrics: tuple[str, ...] = ()
    """What can be shown, the objective first."""


def read_matrix(
    reader: Reader,
    *,
    directory: Path,
    top: Path | None,
    head: RunAt | None,
    tick: Tick,
    metric: str | None = None,
) -> MatrixRead | None:
    """Return what is declared around a folder and how it stands; None where nothing is.

    `top` is the work tree of the folder; `tick` is told (done, all) while configs are composed;
    `metric` is another one than the objective.

    Raises:
        Corrupt: the config of a run that has to be compared is damaged.
    """
    places = tuple(dict.fromkeys([directory, top or directory]))
    try:
        entry = find_entry(places, reader.store)
    except NotFound:
        return None
    with _COMPOSING:
        declared = declaration(entry, next(iter(folders(reader.store)), None), tick=tick)
    if not declared.experiments:
        return None
    status = store_status(reader, cwd=directory, head=head, declared=declared)
    return MatrixRead(
        matrix=matrix_of(reader, status, head=head, metric=metric),
        declared=declared,
        places=places,
        metrics=metrics_of(reader, status, head=head),
    )
