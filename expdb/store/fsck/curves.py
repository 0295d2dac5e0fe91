"""Checks and mends curves.parquet, which is derived: one that is not right is made again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from expdb.errors import Corrupt, ExpdbError, Unsupported
from expdb.model import RunState
from expdb.store import points, series
from expdb.store.buckets import Buckets
from expdb.store.curve_keeper import keep_curves
from expdb.store.curves import LARGEST, Curves, read_curves
from expdb.store.fsck.mend_files import refresh_status
from expdb.store.fsck.report import Notes
from expdb.store.fsck.trash import Trash
from expdb.store.layout import RunLayout
from expdb.store.recover import left_journals, run_lock
from expdb.store.runs import ENDED, state_now
from expdb.store.series import SeriesBook


def check_curves(layout: RunLayout, numbers: Sequence[int], notes: Notes, *, is_live: bool) -> None:
    """Note a curves.parquet that does not read whole, or has other points than series.json.

    A missing one, or one to which points are to be added, is no problem: readers do without it.
    """
    name = layout.curves.name
    try:
        curves = read_curves(layout.curves)
    except FileNotFoundError:
        return
    except Corrupt as error:
        notes.say("damaged", name, error.message, can_mend=not is_live)
        return
    except Unsupported as error:
        notes.say("newer", name, error.message)
        return
    wrong = [] if is_live else wrong_keys(layout, numbers, curves)
    if wrong:
        more = f" and {len(wrong) - 1:,} more series" if len(wrong) > 1 else ""
        what = f"{name}: {wrong[0]} has other values than series.json{more}"
        notes.say("damaged", name, what, can_mend=True)


def wrong_keys(layout: RunLayout, numbers: Sequence[int], curves: Curves) -> list[str]:
    """Return the keys of curves whose count, least or greatest is not that of series.json; none
    where the two speak of different points.
    """
    try:
        book = series.load(layout.series_json)
        resumed = points.resumed_from(layout)
    except Corrupt:
        return []  # they are named themselves
    if any(left_journals(layout, number) for number in numbers):
        return []
    source, sealed = curves.source, points.sealed_frames(layout)
    if source.covered != sealed or source.holds_to(sealed, resumed) != LARGEST:
        return []
    last = max(numbers, default=0)
    ranks = {rank for attempt, rank in sealed if attempt == last}
    if book.unordered or not ranks <= {0, *book.through_seq}:
        return []
    names = curves.buckets.names
    return [key for key in names if not _agrees(book, key, curves.buckets.of(key))]


def _agrees(book: SeriesBook, key: str, found: Buckets) -> bool:
    told = book.get(key)
    if told is None:
        return False
    known = found.taken(found.num_finite > 0)
    if (told.count, told.nonfinite) != (int(found.count.sum()), int(found.nonfinite.sum())):
        return False
    if not len(known) or told.min is None or told.max is None:
        return told.min is None and not len(known)
    low, high = int(known.min.argmin()), int(known.max.argmax())
    return (told.min, told.min_step, told.max, told.max_step) == (
        known.min[low],
        known.min_step[low],
        known.max[high],
        known.max_step[high],
    )


def mend_curves(layout: RunLayout, numbers: Sequence[int], trash: Trash) -> None:
    """Make the curves again where they are damaged, stale or missing; series.json is right."""
    try:
        curves = read_curves(layout.curves)
        is_wrong = bool(wrong_keys(layout, numbers, curves))
    except FileNotFoundError:
        is_wrong = False
    except Corrupt:
        is_wrong = True
    except Unsupported:
        return
    if is_wrong and trash.copy(layout.curves):
        layout.curves.unlink(missing_ok=True)
    try:
        keep_curves(layout, series.load(layout.series_json))
    except Corrupt:
        return


def redraw(root: Path, layout: RunLayout) -> None:
    """Make the curves of a run that is over anew where they are not those of its points.

    A run that is written, or that may not be written to, is left as it is.
    """
    try:
        with run_lock(root, layout):
            if state_now(layout.root, store_root=root)[0] not in (*ENDED, RunState.CRASHED):
                return
            keep_curves(layout, series.load(layout.series_json))
            refresh_status(layout)
    except (ExpdbError, OSError):
        return
