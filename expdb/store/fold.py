"""Counting the other writers of a run into its series.json, exactly, once the run is over.

Whoever ends later does it: rank 0 writes its last status and then looks for writers that are done,
and a writer says that it is done and then looks at the status. So one of the two sees the other.
"""

from __future__ import annotations

from pathlib import Path

from expdb.errors import Corrupt
from expdb.model import RunState
from expdb.store import attempts as attempt_files
from expdb.store import series, writers
from expdb.store.curve_keeper import keep_curves
from expdb.store.layout import RunLayout
from expdb.store.recover import recount, run_lock
from expdb.store.runs import read_run

WAIT_S = 10.0


def fold(store_root: Path, layout: RunLayout) -> bool:
    """Count what the finished other writers of the newest attempt logged; False when it is not due.

    Raises:
        Conflict: another process holds the run's lock for longer than some seconds.
        OSError, Corrupt: the store cannot be read or written; the summaries stay as they were.
    """
    if not _due(layout):
        return False
    with run_lock(store_root, layout, wait_s=WAIT_S):
        return _fold(store_root, layout)


def _due(layout: RunLayout) -> dict[int, int]:
    """Return rank -> last frame of the writers that are done and not counted."""
    attempt = max(attempt_files.numbers(layout), default=0)
    if not attempt or not writers.ranks(layout, attempt):
        return {}
    try:
        book = series.load(layout.series_json)
    except Corrupt:
        return {}  # recovery counts it again from nothing
    done = writers.sealed_through(layout, attempt)
    return {rank: seq for rank, seq in done.items() if seq > book.through(attempt, rank)}


def _fold(store_root: Path, layout: RunLayout) -> bool:
    run = read_run(layout.root, store_root=store_root)
    if run.state.is_alive or run.state is RunState.LOST:
        return False
    due = _due(layout)
    attempt = max(attempt_files.numbers(layout), default=0)
    keys: set[str] = set()
    for rank in due:
        keys.update(series.load(layout.rank_series(attempt, rank)).series)
    if due:
        saved = series.load(layout.series_json)
        known = saved.through_seq if saved.attempt == attempt else {}
        keep_curves(layout, recount(layout, keys=keys, through_seq={**known, **due}))
    return bool(due)
