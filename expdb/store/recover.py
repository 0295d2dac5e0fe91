"""Recovery of a run that a SIGKILL left behind: its journals are sealed, its series recounted.

Invariant: a kill in the middle of a recovery loses nothing, and the next one goes on: the journals
go last, when all that follows from them is written. What is damaged is kept, for `fsck`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

from expdb.errors import Conflict, Corrupt
from expdb.model import RunState, Series
from expdb.store import attempts as attempt_files
from expdb.store import checkpoints, points, series, writers
from expdb.store.curve_keeper import keep_curves
from expdb.store.files import exclusive, write_json
from expdb.store.journal import JournalReader, Values
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.media import seal_journal
from expdb.store.media_journal import media_journals
from expdb.store.parts import PartEntry, read_list
from expdb.store.runs import ENDED, GONE, read_run
from expdb.store.seal import is_covered, seal, unlisted
from expdb.store.status import Status, read_status, write_status

Journals = Mapping[tuple[int, int], list[Path]]
"""(attempt, rank) -> journals, in order."""

LOCK_POLL_S = 0.05
SIGNS = re.compile(r"rank-\d{1,6}\.\d+\.wal|live\.json|log\.txt|owner\.json")


def needs_recovery(layout: RunLayout) -> bool:
    """Tell whether a run that is over has left something to do: an attempt still has a journal, a
    checkpoint was moved aside, or its summaries are missing, damaged or outdated.
    """
    attempts = attempt_files.numbers(layout)
    return (
        any(left_journals(layout, number) or left_media(layout, number) for number in attempts)
        or bool(checkpoints.cut_off(layout))
        or _is_uncounted(layout, attempts)
    )


def left_journals(
    layout: RunLayout, attempt: int, *, assume_dead: bool = False
) -> dict[int, list[Path]]:
    """Return rank -> journals of one attempt, but those of another writer that may live."""
    return {
        rank: paths
        for rank, paths in points.journals(layout, attempt).items()
        if not rank or not writers.is_open(layout, attempt, rank, assume_dead=assume_dead)
    }


def left_media(
    layout: RunLayout, attempt: int, *, assume_dead: bool = False
) -> dict[tuple[int, int], Path]:
    """Return (rank, number) -> journal of media of one attempt, but those that may be written."""
    return {
        (rank, number): path
        for (rank, number), path in media_journals(layout, attempt).items()
        if not rank or not writers.is_open(layout, attempt, rank, assume_dead=assume_dead)
    }


def _is_uncounted(layout: RunLayout, attempts: list[int]) -> bool:
    try:
        book = series.load(layout.series_json)
    except Corrupt:
        return True
    if book.series:
        return _is_outdated(layout, book, attempts[-1] if attempts else 0)
    return not layout.series_json.exists() and points.has_parts(layout, attempts)


def _is_outdated(layout: RunLayout, book: series.SeriesBook, newest: int) -> bool:
    """Tell whether an attempt hides points that are counted: it died before it could count them."""
    if book.attempt in (0, newest):
        return False
    try:
        return attempt_files.read_pin(layout, newest).resumed_from is not None
    except Corrupt:
        return False  # what it hides is not known


@contextmanager
def run_lock(store_root: Path, layout: RunLayout, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lock of a run: for whoever changes it while no attempt of it is alive, and for
    whoever comes to write to it.

    Raises:
        Conflict: another process holds it, and does so for `wait_s` longer.
    """
    lock = StoreLayout(store_root).locks / f"run-{layout.id}.lock"
    until = time.monotonic() + wait_s
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(exclusive(lock, what=f"run {layout.id}"))
                break
            except Conflict:
                if time.monotonic() >= until:
                    raise
                time.sleep(LOCK_POLL_S)
        yield


def recover(store_root: Path, layout: RunLayout, *, assume_dead: bool = False) -> RunState:
    """Seal what a dead run left, recount its series, and record that it crashed; return its state.

    A run that ended by itself keeps its state; journals, summaries and checkpoints are mended too.

    A live run is left alone, but with `assume_dead`: then a scheduler or the user knows that its
    owner is gone.

    Raises:
        Conflict: another process recovers the same run.
        Corrupt: a list of parts is damaged; Unsupported: a newer expdb wrote a journal.
        OSError: the store cannot be written; nothing was lost.
    """
    state = read_run(layout.root, store_root=store_root).state
    if not _is_due(layout, state, assume_dead=assume_dead):
        return state
    with run_lock(store_root, layout):
        # Read again: another process may have recovered it meanwhile, or even resumed it.
        attempts = attempt_files.numbers(layout)
        run = read_run(layout.root, store_root=store_root)
        state = run.state
        if not _is_due(layout, state, assume_dead=assume_dead):
            return state
        ended_at_ms = _last_sign_ms(layout, attempts)
        journals = {
            (number, rank): paths
            for number in attempts
            for rank, paths in left_journals(layout, number, assume_dead=assume_dead).items()
        }
        through = {at: _seal_journals(layout, *at, paths) for at, paths in journals.items()}
        if attempt_files.numbers(layout) != attempts:
            return RunState.RUNNING  # resumed at this moment: what follows is the new attempt's
        checkpoints.bring_back(layout)
        for number in attempts:
            left = left_media(layout, number, assume_dead=assume_dead)
            for (rank, at), path in left.items():
                seal_journal(layout, path, attempt=number, rank=rank, number=at)
        last = attempts[-1] if attempts else 0
        counted = writers.sealed_through(layout, last, assume_dead=assume_dead)
        counted |= {rank: seq for (number, rank), seq in through.items() if number == last}
        is_short = GONE in run.problems
        book = recount(layout, through_seq=counted, known=run.series)
        lost = _num_lost(run.series, book) if is_short else 0
        keep_curves(layout, book)
        state = _record_crash(layout, state, book, last, ended_at_ms, lost)
        _remove(journals)
    return state


def _is_due(layout: RunLayout, state: RunState, *, assume_dead: bool) -> bool:
    if state.is_alive or state is RunState.LOST:
        return assume_dead
    return needs_recovery(layout) or (state not in ENDED and not _is_recorded(layout))


def _is_recorded(layout: RunLayout) -> bool:
    """Tell whether status.json has its final word, or is damaged and stays as it is."""
    try:
        return read_status(layout).state != "running"
    except FileNotFoundError:
        return False
    except Corrupt:
        return True


def _seal_journals(layout: RunLayout, attempt: int, rank: int, paths: list[Path]) -> int:
    """Seal the whole frames of a rank's journals, and return the last frame that is sealed."""
    entries = read_list(layout.parts_list(attempt, rank))
    after = entries[-1].last_seq if entries else 0
    values: list[Values] = []
    for path in paths:
        try:
            values.extend(JournalReader(path, after_seq=after))
        except Corrupt:
            continue  # no journal: it is kept under another name
    last = max((item.seq for item in values), default=after)
    _require_lists(layout, attempt, rank, entries, {item.seq for item in values})
    seal(
        layout,
        attempt=attempt,
        rank=rank,
        columns=points.as_columns(values),
        first_seq=after + 1,
        last_seq=last,
        journals=(),
    )
    return last


def _require_lists(
    layout: RunLayout,
    attempt: int,
    rank: int,
    entries: Sequence[PartEntry],
    in_journals: set[int],
) -> None:
    """Refuse to write a list that would leave out points of parts which neither it nor the journals
    have.

    Raises:
        Corrupt: such a part stands, so the list is not what it was.
    """
    for name, frames in unlisted(layout, attempt, rank, entries).items():
        # A part is made of whole journals, so its last frame says whether they still stand.
        if frames[1] not in in_journals and not is_covered(frames, entries):
            raise Corrupt(
                f"{name} of {layout.id} is on no list, and no journal has its points",
                hint=f"expdb fsck {layout.id} --repair",
            )


def _remove(journals: Journals) -> None:
    for path in (path for paths in journals.values() for path in paths):
        problem, is_damaged = _look_at(path)
        if is_damaged:
            kept = path.with_name(f"{path.name}.damaged")
            write_json(kept.with_name(f"{kept.name}.json"), {"problem": problem})
            path.rename(kept)
        elif problem:
            # What a death tears is no damage, and all whole frames are sealed.
            path.rename(path.with_name(f"{path.name}.torn"))
        else:
            path.unlink()


def _look_at(path: Path) -> tuple[str, bool]:
    """Return what is wrong with a journal, and whether that is damage."""
    try:
        reader = JournalReader(path)
    except Corrupt as error:
        return error.message, True
    for _ in reader:
        pass
    return reader.problem(), reader.is_damaged


def recount(
    layout: RunLayout,
    *,
    keys: Iterable[str] | None = None,
    through_seq: Mapping[int, int] | None = None,
    known: Mapping[str, Series] | None = None,
    problems: list[str] | None = None,
) -> series.SeriesBook:
    """Count the series again from the visible points, all or the named keys; write series.json.

    `through_seq` is what the points include of the last attempt's journals, where these still
    stand; of its ranks beside 0 only those named there are counted. Where sealed points cannot be
    read, the files are named in `problems`, and a summary that is known (of `known`, else of
    series.json) stays as it is; it is `unordered` in the book.
    """
    book = count_again(layout, keys=keys, through_seq=through_seq, known=known, problems=problems)
    if through_seq is not None:
        book.attempt, book.through_seq = max(attempt_files.numbers(layout), default=0), {}
        book.through_seq.update(through_seq)
    book.save(layout.series_json)
    return book


def count_again(
    layout: RunLayout,
    *,
    keys: Iterable[str] | None = None,
    through_seq: Mapping[int, int] | None = None,
    known: Mapping[str, Series] | None = None,
    problems: list[str] | None = None,
) -> series.SeriesBook:
    """Return what `recount` writes, without writing it; `through_seq` as in series.json if None."""
    import numpy as np

    attempts = attempt_files.numbers(layout)
    try:
        saved = series.load(layout.series_json)
    except Corrupt:
        saved, keys = series.SeriesBook(), None
    known = saved.series if known is None else known
    book, missing = series.SeriesBook() if keys is None else saved.copy(), list[str]()
    keys = None if keys is None else sorted(keys)
    table = points.read_series(layout.root, keys, problems=[], missing=missing)
    counted = saved.through_seq if through_seq is None else through_seq
    table = points.standing(points.of_ranks(table, max(attempts, default=0), {0, *counted}))
    for key in keys or ():
        book.drop(key)
    if table.num_rows:
        encoded = table["key"].combine_chunks().dictionary_encode()
        steps, values = table["step"].to_numpy(), table["value"].to_numpy()
        codes = encoded.indices.to_numpy()
        borders = np.flatnonzero(np.diff(codes, prepend=-1, append=-1))  # sorted by key
        for start, stop in pairwise(borders):
            key = encoded.dictionary[int(codes[start])].as_py()
            book.replace(key, steps[start:stop], values[start:stop])
            if missing:
                book.unordered.add(key)
    if missing:
        for key in known if keys is None else known.keys() & set(keys):
            book.keep(known[key])
    if problems is not None:
        problems.extend(missing)
    return book


def _num_lost(known: Mapping[str, Series], book: series.SeriesBook) -> int:
    """Return how many points were counted before and are not there now."""
    now = {key: item.count for key, item in book.series.items()}
    return sum(max(0, item.count - now.get(key, 0)) for key, item in known.items())


def _record_crash(
    layout: RunLayout,
    state: RunState,
    book: series.SeriesBook,
    attempt: int,
    ended_at_ms: int,
    lost: int,
) -> RunState:
    try:
        status = read_status(layout)
    except FileNotFoundError:
        status = Status()
    except Corrupt:
        return state  # overwriting it would hide the damage
    status.num_dropped += lost
    if status.state == "running":
        steps = [item.last_step for item in book.series.values()]
        steps += [] if status.last_step is None else [status.last_step]
        status.state, status.reason = "crashed", "the process died without a word"
        status.attempt = max(attempt, 1)
        status.last_step = max(steps, default=None)
        status.ended_at_ms = ended_at_ms
    write_status(layout, status)
    return RunState(status.state)


def _last_sign_ms(layout: RunLayout, attempts: list[int]) -> int:
    """Return when the last attempt last wrote a file."""
    folder = layout.attempt(attempts[-1]) if attempts else layout.root
    times = [
        path.stat().st_mtime
        for path in folder.iterdir()
        if SIGNS.fullmatch(path.name.removesuffix(".torn").removesuffix(".damaged"))
    ]
    return int(max(times, default=folder.stat().st_mtime) * 1000)
