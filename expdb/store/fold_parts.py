"""Folding: the many parts of a run that is over become few. Only `gc` and `push` ask for it.

    new part (written, read again) -> list of the rank: the new part, `folded`: the old ones
                                   -> 10 minutes later the old files go

Invariant: at every moment the list names each point once, and every file it named within the last
10 minutes is there: who reads meanwhile needs no lock. A kill anywhere leaves the old list with all
its files, or the new one. Only parts that follow each other without a gap become one, since a list
says of a part that it has all frames from its first to its last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from expdb.errors import Corrupt
from expdb.store import attempts as attempt_files
from expdb.store import points, writers
from expdb.store.files import fsync_dir
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.parts import (
    PartEntry,
    key_counts,
    num_rows,
    read_folded,
    read_list,
    read_part,
    write_list,
    write_tables,
)
from expdb.store.recover import needs_recovery, run_lock
from expdb.store.runs import ENDED, state_now
from expdb.store.status import relist
from expdb.store.wanted import batches

if TYPE_CHECKING:
    import pyarrow as pa

MAX_PARTS = 8
"""A run of so many parts is left alone."""
FOLD_POINTS = 1 << 24
"""The most points of a folded part."""
BATCH_POINTS = 1 << 18
"""The points that are in memory at a time, at least; of one key there may be more."""
RELISTED = ("points", "attempts")
"""The folders of a run whose files a folding changes."""
KEPT_S = 600.0
"""How long an old file stays for who has read the list that named it."""


def fold_parts(store_root: Path, layout: RunLayout) -> int:
    """Fold the parts of a run if it has more than 8 and nobody writes to it any more, and remove
    what was folded 10 minutes ago; return how many parts became fewer.

    A run that waits for its recovery is left alone.

    Raises:
        Conflict: another process holds the run's lock: it resumes or recovers it.
        Corrupt: a part or a list is damaged; its rank stays as it is.
        OSError: the store cannot be written; nothing was lost.
    """
    if not _is_due(layout) or not is_over(store_root, layout):
        return 0
    with run_lock(store_root, layout):
        if not is_over(store_root, layout):  # resumed meanwhile
            return 0
        fewer, is_changed, is_many = 0, False, _num_parts(layout) > MAX_PARTS
        try:
            for attempt, rank in _lists(layout):
                is_changed |= _remove_folded(store_root, layout, attempt, rank)
                if is_many:
                    fewer += _fold_rank(layout, attempt, rank)
        finally:
            if fewer or is_changed:
                relist(layout, *RELISTED)
    return fewer


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """What `fold_parts` would do with a run at this moment."""

    before: int
    """Parts that its lists name."""
    after: int
    """Parts that they would name."""
    old_bytes: int
    """What the files take that were folded long enough ago to go."""


def planned(store_root: Path, layout: RunLayout) -> Folding | None:
    """Return what `fold_parts` would do; None where it would do nothing. Nothing is written.

    Raises:
        Corrupt: a list is damaged.
    """
    if not _is_due(layout) or not is_over(store_root, layout):
        return None
    lists = [layout.parts_list(*at) for at in _lists(layout)]
    before = _num_parts(layout)
    after = before
    if before > MAX_PARTS:
        after = sum(len(_groups(read_list(path))) for path in lists)
    old = [
        path
        for listed in lists
        if _is_old(store_root, listed)
        for name in read_folded(listed)
        if (path := layout.points / Path(name).name).is_file()
    ]
    if after == before and not any(_is_old(store_root, listed) for listed in lists):
        return None
    return Folding(before=before, after=after, old_bytes=sum(path.stat().st_size for path in old))


def _is_old(store_root: Path, listed: Path) -> bool:
    """Tell whether a list names folded files, and has done so long enough."""
    if not read_folded(listed):
        return False
    now = attempt_files.store_now(StoreLayout(store_root).meta)
    return now - listed.stat().st_mtime >= KEPT_S


def _lists(layout: RunLayout) -> list[tuple[int, int]]:
    """Return (attempt, rank) of every list of parts."""
    numbers = attempt_files.numbers(layout)
    return [(number, rank) for number in numbers for rank in points.part_lists(layout, number)]


def _num_parts(layout: RunLayout) -> int:
    return sum(len(read_list(layout.parts_list(*at))) for at in _lists(layout))


def _is_due(layout: RunLayout) -> bool:
    lists = [layout.parts_list(*at) for at in _lists(layout)]
    groups = [group for path in lists for group in _groups(read_list(path))]
    is_many = sum(map(len, groups)) > MAX_PARTS and any(len(group) > 1 for group in groups)
    return is_many or any(map(read_folded, lists))


def is_over(store_root: Path, layout: RunLayout) -> bool:
    """Tell whether nobody can add to a run, and no journal of it is left."""
    state, _ = state_now(layout.root, store_root=store_root)
    is_written, is_left = writers.others(layout)
    is_over = state in ENDED or state.value == "crashed"
    return is_over and not (is_written or is_left or needs_recovery(layout))


def _groups(entries: Sequence[PartEntry]) -> list[list[PartEntry]]:
    """Return the parts that may become one, in order."""
    groups: list[list[PartEntry]] = []
    for entry in entries:
        last = groups[-1] if groups else []
        total = sum(item.num_points for item in last) + entry.num_points
        if last and last[-1].last_seq + 1 == entry.first_seq and total <= FOLD_POINTS:
            last.append(entry)
        else:
            groups.append([entry])
    return groups


def _fold_rank(layout: RunLayout, attempt: int, rank: int) -> int:
    """Fold the parts of a rank, and return how many became fewer."""
    listed = layout.parts_list(attempt, rank)
    old, folded = read_list(listed), set(read_folded(listed))
    for temp in layout.points.glob(f".tmp-part-a{attempt}-r{rank}-*"):
        temp.unlink(missing_ok=True)  # of a folding that was killed
    new = [
        _fold_group(layout, attempt, rank, group) if len(group) > 1 else group[0]
        for group in _groups(old)
    ]
    if len(new) < len(old):
        folded |= {entry.file for entry in old} - {entry.file for entry in new}
        write_list(listed, new, folded=folded)
    return len(old) - len(new)


def _fold_group(
    layout: RunLayout, attempt: int, rank: int, group: Sequence[PartEntry]
) -> PartEntry:
    paths = [layout.points / Path(entry.file).name for entry in group]
    total = sum(entry.num_points for entry in group)
    path = layout.part(attempt, rank, group[0].first_seq, group[-1].last_seq)
    counts: dict[str, int] = {}
    for old, entry in zip(paths, group, strict=True):
        found = key_counts(old)
        if sum(found.values()) != entry.num_points:
            raise Corrupt(f"{old.name} has not the points that the list of its rank says")
        for key, count in found.items():
            counts[key] = counts.get(key, 0) + count
    size = write_tables(path, _merged(paths, counts))
    if num_rows(path) != total:
        path.unlink()
        raise Corrupt(f"{path.name} did not read back as it was written")
    return PartEntry(path.name, group[0].first_seq, group[-1].last_seq, total, size)


def _merged(paths: Sequence[Path], counts: dict[str, int]) -> Iterator[pa.Table]:
    """Yield the points of all files as a part has them, some keys at a time."""
    for keys in batches(counts, BATCH_POINTS):
        yield _sorted([read_part(path, keys) for path in paths])


def _sorted(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of all tables, sorted by (key, step, seq)."""
    import numpy as np
    import pyarrow as pa

    table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    if table.num_rows == 0:
        return table
    column = table["key"].chunk(0)
    names = column.dictionary.to_pylist()
    place = np.empty(len(names), np.int32)
    place[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    step, seq = table["step"].to_numpy(), table["seq"].to_numpy()
    return table.take(np.lexsort((seq, step, place[column.indices.to_numpy()])))


def _remove_folded(store_root: Path, layout: RunLayout, attempt: int, rank: int) -> bool:
    """Remove the files that were folded long enough ago; tell whether there were any."""
    listed = layout.parts_list(attempt, rank)
    if not _is_old(store_root, listed):
        return False
    folded, entries = read_folded(listed), read_list(listed)
    ours = re.compile(rf"part-a{attempt}-r{rank}-([0-9]{{1,18}})-([0-9]{{1,18}})\.parquet")
    going = []
    for name in sorted(set(folded) - {entry.file for entry in entries}):
        match = ours.fullmatch(name)
        if match and any(_holds(layout, entry, int(match[1]), int(match[2])) for entry in entries):
            going.append(layout.points / name)
    relist(layout, *RELISTED, without=going)
    for path in going:
        path.unlink(missing_ok=True)
    fsync_dir(layout.points)
    write_list(listed, entries)
    return True


def _holds(layout: RunLayout, entry: PartEntry, first: int, last: int) -> bool:
    """Tell whether a part that is there has the frames of another."""
    path = layout.points / Path(entry.file).name
    is_in = entry.first_seq <= first and last <= entry.last_seq
    return is_in and path.is_file() and path.stat().st_size == entry.bytes
