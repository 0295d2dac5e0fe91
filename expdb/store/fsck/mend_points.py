"""Mends the points of a run that is over: lists, parts, and what journals still hold of them.

Invariant: whatever could be read before can be read afterwards, and is the same; a kill at any
moment leaves what the next repair goes on from. The holder of the run's lock calls this.

Before a recovery lists and parts must be in order, since sealing takes away what no list names; the
journals that it sets beside are looked through behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from expdb.errors import Corrupt
from expdb.store import points, series
from expdb.store.fsck.journals import KEPT, all_journals, frames
from expdb.store.fsck.points import (
    GLOB,
    PART,
    RankPoints,
    inspect,
    is_orphan,
    ranks,
    read_seqs,
    salvaged,
    writer_lives,
)
from expdb.store.fsck.trash import Trash
from expdb.store.journal import Values
from expdb.store.layout import RunLayout
from expdb.store.parts import PartEntry, build_table, read_part, write_list, write_part
from expdb.store.status import Status


def mend_parts(
    layout: RunLayout, numbers: Sequence[int], status: Status | None, trash: Trash
) -> None:
    """Put lists and parts in order."""
    for attempt, rank in ranks(layout, numbers):
        if writer_lives(layout, attempt, rank):
            continue
        _mend_summary(layout, attempt, rank, trash)
        found = inspect(layout, attempt, rank)
        if found.list_problem:
            _rebuild_list(layout, found, trash)
            found = inspect(layout, attempt, rank)
        if found.bad:
            _mend_bad(layout, found, trash)
            found = inspect(layout, attempt, rank)
        for path in found.loose:
            why = is_orphan(layout, path, found, status)
            if why:
                trash.move(path)
            elif why == "":
                _add(layout, found, [_entry(path)])
                found = inspect(layout, attempt, rank)
    for path in _others(layout, numbers):
        trash.move(path)


def mend_journals(layout: RunLayout, numbers: Sequence[int], trash: Trash) -> None:
    """Seal what the journals hold that a recovery has set beside and could not read, then set aside
    the damaged ones of which every whole frame stands in a part.
    """
    for attempt, rank in ranks(layout, numbers):
        if writer_lives(layout, attempt, rank) or points.journals(layout, attempt).get(rank):
            continue
        found = inspect(layout, attempt, rank)
        if found.list_problem:
            continue
        listed = set(found.listed().tolist())
        kept = all_journals(layout, attempt, rank)
        every: dict[int, list[Values]] = {}
        for path in kept:
            every.update(frames(layout, path, attempt, rank))
        rest = {seq: every[seq] for seq in sorted(every) if seq not in listed}
        if rest and _seal_rest(layout, found, rest):
            listed |= rest.keys()
        for path in kept:
            match = KEPT.fullmatch(path.name)
            if match is None or match[2] != "damaged":
                continue
            if frames(layout, path, attempt, rank).keys() <= listed:
                trash.move(path.with_name(f"{path.name}.json"))
                trash.move(path)


def _mend_summary(layout: RunLayout, attempt: int, rank: int, trash: Trash) -> None:
    """Set aside a rank's own summary that cannot be read: its points are counted with the run's."""
    try:
        series.load(layout.rank_series(attempt, rank))
    except Corrupt:
        if rank:
            trash.move(layout.rank_series(attempt, rank))


def _rebuild_list(layout: RunLayout, found: RankPoints, trash: Trash) -> None:
    """Write the list of a rank from the parts that are there."""
    entries: list[PartEntry] = []
    for path in sorted(found.loose, key=lambda path: (_range(path)[0], -_range(path)[1])):
        first, last = _range(path)
        if any(one.first_seq <= first and last <= one.last_seq for one in entries):
            continue
        try:
            entries.append(_entry(path))
        except Corrupt:
            num_points = _num_in_footer(path)
            if num_points is not None:  # its loss is to be named for as long as it is not there
                entries.append(PartEntry(path.name, first, last, num_points, path.stat().st_size))
    listed = layout.parts_list(found.attempt, found.rank)
    trash.copy(listed)
    write_list(listed, sorted(entries, key=_by_last))


def _mend_bad(layout: RunLayout, found: RankPoints, trash: Trash) -> None:
    """Write unreadable parts again where journals hold all their points; set the others aside."""
    copies = salvaged(layout, found)
    entries = list(found.entries)
    for at, entry in enumerate(entries):
        path = layout.points / Path(entry.file).name
        if entry.file not in found.bad:
            continue
        trash.move(path)
        if entry.file not in copies or path.exists():
            continue
        size = _write(layout, found, path, copies[entry.file])
        entries[at] = PartEntry(path.name, entry.first_seq, entry.last_seq, entry.num_points, size)
    if tuple(entries) != found.entries:
        write_list(layout.parts_list(found.attempt, found.rank), entries)


def _seal_rest(layout: RunLayout, found: RankPoints, rest: dict[int, list[Values]]) -> bool:
    """Write frames that stand in no part as one more part; False where its name is taken."""
    first, last = min(rest), max(rest)
    path = layout.part(found.attempt, found.rank, first, last)
    if path.exists() or any(entry.file == path.name for entry in found.entries):
        return False
    values = [item for items in rest.values() for item in items]
    size = _write(layout, found, path, values)
    num_points = sum(len(item.keys) for item in values)
    _add(layout, found, [PartEntry(path.name, first, last, num_points, size)])
    return True


def _write(layout: RunLayout, found: RankPoints, path: Path, values: Iterable[Values]) -> int:
    columns = points.as_columns(values)
    return write_part(path, build_table(columns, attempt=found.attempt, rank=found.rank))


def _add(layout: RunLayout, found: RankPoints, more: Iterable[PartEntry]) -> None:
    # Readers skip journal frames up to the last seq of the last entry.
    entries = sorted([*found.entries, *more], key=_by_last)
    write_list(layout.parts_list(found.attempt, found.rank), entries)


def _by_last(entry: PartEntry) -> tuple[int, int]:
    return entry.last_seq, entry.first_seq


def _entry(path: Path) -> PartEntry:
    """Return the line of a part in its list.

    Raises:
        Corrupt: it does not read whole.
    """
    read_seqs(path)
    return PartEntry(path.name, *_range(path), read_part(path).num_rows, path.stat().st_size)


def _range(path: Path) -> tuple[int, int]:
    match = PART.fullmatch(path.name)
    return (int(match[3]), int(match[4])) if match else (0, 0)


def _num_in_footer(path: Path) -> int | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowException, OSError):
        return None


def _others(layout: RunLayout, numbers: Sequence[int]) -> list[Path]:
    """Return what other engines take for a part, and what is of no attempt of this run."""
    try:
        there = sorted(layout.points.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    out = []
    for path in there:
        match = PART.fullmatch(path.name)
        if GLOB.fullmatch(path.name) and (match is None or int(match[1]) not in numbers):
            out.append(path)
    return out
