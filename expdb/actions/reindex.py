"""`reindex`: build the index from nothing.

Invariant: only derived files are written; readers of the former generation are not disturbed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from expdb.index.reader import open_reader
from expdb.store.curves import MIN_POINTS
from expdb.store.fsck.curves import redraw
from expdb.store.layout import RunLayout
from expdb.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexResult:
    """What was indexed."""

    num_runs: int
    seconds: float
    warnings: tuple[str, ...] = ()
    """Runs that were left out, and files that are damaged."""
    left_out: tuple[str, ...] = ()
    """The warnings about runs that are not in it."""


def reindex(store: Store) -> ReindexResult:
    """Build a new generation from the run folders alone, and curves that are not up to date."""
    began = time.monotonic()
    with open_reader(store, afresh=True) as reader:
        num_runs = int(reader.rows("SELECT count(*) FROM runs")[0][0])
        warnings, left_out = reader.warnings, reader.left_out
        long = reader.rows("SELECT DISTINCT run FROM series WHERE count > ?", [MIN_POINTS])
        folders = [reader.run_dir(str(run)) for (run,) in long]
    for folder in folders:
        redraw(store.root, RunLayout(folder))
    return ReindexResult(
        num_runs=num_runs,
        seconds=time.monotonic() - began,
        warnings=warnings,
        left_out=left_out,
    )
