"""Recovery of a run that a SIGKILL left behind: its journals are sealed, its series recounted.

Invariant: a kill in the middle of a recovery loses nothing, and the next one goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from expdb.errors import Corrupt
from expdb.model import RunState
from expdb.store import attempts as attempt_files
from expdb.store import points, series
from expdb.store.files import exclusive
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.parts import read_list
from expdb.store.runs import ENDED, read_run
from expdb.store.seal import seal
from expdb.store.status import Status, read_status, write_status


def needs_recovery(layout: RunLayout) -> bool:
    """Tell whether any attempt still has a journal."""
    return any(points.journals(layout, number) for number in attempt_files.numbers(layout))


def recover(store_root: Path, layout: RunLayout, *, assume_dead: bool = False) -> RunState:
    """Seal what a dead run left, recount its series, and record that it crashed; return its state.

    A live run is left alone, but with `assume_dead`: then a scheduler or the user knows that its owner is gone. Damage
    stays in the journal that has it, for `fsck`.

    Raises:
        Conflict: another process recovers the same run.
        OSError: the store cannot be written; nothing was lost.
    """
    run = read_run(layout.root, store_root=store_root)
    if run.state in (RunState.RUNNING, RunState.LOST) and not assume_dead:
        return run.state
    if not needs_recovery(layout) and run.state in ENDED:
        return run.state
    lock = StoreLayout(store_root).locks / f"run-{layout.id}.lock"
    with exclusive(lock, what=f"run {layout.id}"):
        for number in attempt_files.numbers(layout):
            for rank, paths in points.journals(layout, number).items():
                _seal_journals(layout, number, rank, paths)
        recount(layout)
        status = _status(layout)
        if status.state == "running":
            status.state, status.reason = "crashed", "the process died without a word"
            status.last_step = run.last_step
            status.ended_at_ms = _last_sign_ms(layout)
        write_status(layout, status)
    return RunState(status.state)


def _seal_journals(layout: RunLayout, attempt: int, rank: int, paths: list[Path]) -> None:
    entries = read_list(layout.parts_list(attempt, rank))
    after = entries[-1].last_seq if entries else 0
    damaged: list[str] = []
    values = list(points.live_values(layout, attempt, rank, after_seq=after, problems=damaged))
    torn = bool(damaged)
    last = max((item.seq for item in values), default=after)
    seal(
        layout,
        attempt=attempt,
        rank=rank,
        columns=points.as_columns(values),
        first_seq=after + 1,
        last_seq=last,
        journals=() if torn else paths,
    )
    if torn:
        # A torn tail holds no whole frame, but the bytes are evidence: they are kept aside under another name.
        for path in paths:
            path.rename(path.with_name(f"{path.name}.torn"))


def recount(layout: RunLayout, *, keys: Iterable[str] | None = None) -> series.SeriesBook:
    """Count the series again from the visible points, all or the named keys, and write series.json."""
    try:
        book = series.load(layout.series_json) if keys is not None else series.SeriesBook()
    except Corrupt:
        book = series.SeriesBook()
    wanted = None if keys is None else sorted(keys)
    table = points.read_series(layout.root, wanted, problems=[])
    names = table["key"].to_numpy(zero_copy_only=False)
    steps, values = table["step"].to_numpy(), table["value"].to_numpy()
    for key in wanted if wanted is not None else sorted(set(names)):
        mask = names == key
        book.replace(key, steps[mask], values[mask])
    book.save(layout.series_json)
    return book


def _status(layout: RunLayout) -> Status:
    try:
        return read_status(layout)
    except (FileNotFoundError, Corrupt):
        return Status()


def _last_sign_ms(layout: RunLayout) -> int:
    number = max(attempt_files.numbers(layout), default=0)
    files = [path for path in layout.attempt(number).glob("*") if path.is_file()]
    latest = max((path.stat().st_mtime for path in files), default=time.time())
    return int(latest * 1000)
