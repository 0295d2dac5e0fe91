"""The writers of a run beside rank 0: other ranks of the launch, and processes that attached.

    attempts/<n>/rank-<r>.owner.json     who writes under rank r; `closed` when it is done
    attempts/<n>/rank-<r>.series.json    the summaries of its own points

Invariant: two writers never share a rank of an attempt, since its owner file is made with O_EXCL.
Nobody touches the journals of a writer that may live.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from expdb.errors import Conflict, Corrupt
from expdb.store import attempts as attempt_files
from expdb.store import owner, points, series
from expdb.store.files import create_bytes, encode_json, read_json, write_json
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.media_journal import names_in
from expdb.store.series import SeriesBook

ATTACHED = points.ATTACHED
"""The first rank of attached processes."""

FILES = re.compile(r"rank-(\d+)\.(?:owner\.json|series\.json|json|\d+\.wal)|media-(\d+)\.\d+\.wal")
PREFIXES = ("rank-", "media-")
OF_RANK_0 = ("rank-0.", "media-0.")


def claim_rank(layout: RunLayout, attempt: int, rank: int) -> None:
    """Take a rank of an attempt for this process.

    Raises:
        Conflict: another process has it, or had it.
        OSError: the store cannot be written.
    """
    try:
        create_bytes(layout.rank_owner(attempt, rank), encode_json(owner.describe()))
    except FileExistsError:
        raise Conflict(
            f"rank {rank} of attempt {attempt} of {layout.id} is another process's"
        ) from None


def claim_attached(layout: RunLayout, attempt: int) -> int:
    """Take the next rank of attached processes, and return it.

    Raises:
        OSError: the store cannot be written.
    """
    rank = max([ATTACHED - 1, *ranks(layout, attempt)]) + 1
    while True:
        try:
            claim_rank(layout, attempt, rank)
            return rank
        except Conflict:
            rank += 1


def touch(layout: RunLayout, attempt: int, rank: int) -> None:
    """Show that the writer of a rank lives."""
    layout.rank_owner(attempt, rank).touch()


def close(layout: RunLayout, attempt: int, rank: int) -> None:
    """Say that a rank writes no more, though its process may go on."""
    write_json(layout.rank_owner(attempt, rank), {**owner.describe(), "closed": True})


def ranks(layout: RunLayout, attempt: int) -> list[int]:
    """Return the ranks beside 0 that have written in an attempt, in order."""
    return sorted(_by_rank(names_in(layout.attempt(attempt))))


def _by_rank(names: Iterable[str]) -> dict[int, list[str]]:
    """Return rank -> names of its files; most runs have none, and 10,000 are looked at."""
    found: dict[int, list[str]] = {}
    for name in names:
        if name.startswith(PREFIXES) and not name.startswith(OF_RANK_0):
            match = FILES.fullmatch(name)
            if match is not None:
                found.setdefault(int(match[1] or match[2]), []).append(name)
    return found


def is_open(layout: RunLayout, attempt: int, rank: int, *, assume_dead: bool = False) -> bool:
    """Tell whether the writer of a rank may still be at work.

    On another host the file time of its owner file decides. `assume_dead`: somebody knows that the
    launch is gone; an attached process is none of it.
    """
    path = layout.rank_owner(attempt, rank)
    try:
        found = read_json(path)
    except (FileNotFoundError, NotADirectoryError, Corrupt):
        return False
    fate = owner.fate(found)
    if found.get("closed") or fate == "dead":
        return False
    if fate == "alive":
        return not (assume_dead and rank < ATTACHED)
    if assume_dead and rank < ATTACHED:
        return False
    try:
        then = path.stat().st_mtime
    except OSError:
        return False
    meta = StoreLayout(layout.root.parents[1]).meta
    return attempt_files.store_now(meta) - then <= attempt_files.LOST_AFTER_S


def others(layout: RunLayout, attempts: Iterable[int] | None = None) -> tuple[bool, bool]:
    """Return whether a writer beside rank 0 may still add to a run, and whether one that writes no
    more left a journal; of all attempts, unless their numbers are given.
    """
    is_written = is_left = False
    for number in attempt_files.numbers(layout) if attempts is None else attempts:
        for rank, names in _by_rank(names_in(layout.attempt(number))).items():
            if is_open(layout, number, rank):
                is_written = True
            else:
                is_left |= any(name.endswith(".wal") for name in names)
    return is_written, is_left


def add_ranks(
    layout: RunLayout, attempt: int, book: SeriesBook, problems: list[str], names: Iterable[str]
) -> None:
    """Count into the book of a run what the other ranks of its newest attempt have.

    `names` are those of the files of the attempt.
    Of a rank of the launch the keys that no lower rank has; of an attached process all. Where it
    logged a step that is there already, that step counts twice until the run is over and the points
    are counted again.
    """
    for rank in sorted(_by_rank(names)):
        own = _rank_book(layout, attempt, rank, problems)
        if own.through(attempt, rank) <= book.through(attempt, rank):
            continue  # all of it is in the book
        for key, item in own.series.items():
            if rank >= ATTACHED or book.get(key) is None:
                book.join(item)


def _rank_book(layout: RunLayout, attempt: int, rank: int, problems: list[str]) -> SeriesBook:
    """Return the summaries of one rank, what stands in its journals included."""
    opened = points.open_journals(layout, attempt, rank, problems=problems)
    try:
        own = series.load(layout.rank_series(attempt, rank))
    except Corrupt as error:
        problems.append(error.message)
        own = SeriesBook()
    own.attempt, last = attempt, own.through(attempt, rank)
    values = list(points.values_in(opened, after_seq=last, problems=problems))
    for key, column in points.as_columns(values).items():
        own.update(key, column.steps, column.values)
    own.through_seq = {rank: max([last, *(item.seq for item in values)])}
    return own


def sealed_through(layout: RunLayout, attempt: int, *, assume_dead: bool = False) -> dict[int, int]:
    """Return rank -> its last sealed frame, of the ranks beside 0 that write no more and have no
    journal left.
    """
    lists = points.part_lists(layout, attempt, problems=[])
    journals = points.journals(layout, attempt)
    return {
        rank: entries[-1].last_seq
        for rank, entries in lists.items()
        if rank
        and entries
        and rank not in journals
        and not is_open(layout, attempt, rank, assume_dead=assume_dead)
    }
