"""Sealing: what a rank's journals hold becomes one part, at finish, by size, and in recovery.

Invariant: the part and the rank's list are durable before a journal goes, and readers skip frames
that the list covers; so a kill between any two operations leaves each point readable exactly once.
It may be done again at any time: what the list covers is not written twice, and a part that no list
names (a kill came between the two) goes, for other engines read all parts there are. It goes only
where listed parts hold its frames: a list that got lost takes no points with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from expdb.store.files import fsync_dir
from expdb.store.layout import RunLayout
from expdb.store.parts import Column, PartEntry, build_table, read_list, write_list, write_part


def seal(
    layout: RunLayout,
    *,
    attempt: int,
    rank: int,
    columns: Mapping[str, Column],
    first_seq: int,
    last_seq: int,
    journals: Iterable[Path],
    save: Callable[[], object] = lambda: None,
) -> None:
    """Write one part of a rank, put it on the rank's list, then remove the journals it covers.

    `save` is called when the part stands and before the journals go: whoever counts frames of
    journals writes there what was counted.

    Raises:
        OSError: nothing was lost; the journals stand.
        Corrupt: the rank's list is damaged; the journals stand.
    """
    listed = layout.parts_list(attempt, rank)
    entries = read_list(listed)
    covered = entries[-1].last_seq if entries else 0
    if covered >= first_seq:
        columns, first_seq = _after(columns, covered), covered + 1
    if columns and last_seq >= first_seq:
        path = layout.part(attempt, rank, first_seq, last_seq)
        table = build_table(columns, attempt=attempt, rank=rank)
        size = write_part(path, table)
        entries = (*entries, PartEntry(path.name, first_seq, last_seq, table.num_rows, size))
        write_list(listed, entries)
    _remove_unlisted(layout, attempt, rank, entries)
    save()
    for journal in journals:
        journal.unlink(missing_ok=True)


def _after(columns: Mapping[str, Column], seq: int) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for key, item in columns.items():
        rest = item.seqs > seq
        if rest.any():
            found[key] = Column(
                item.steps[rest], item.times[rest], item.values[rest], item.seqs[rest]
            )
    return found


def unlisted(
    layout: RunLayout, attempt: int, rank: int, entries: Iterable[PartEntry]
) -> dict[str, tuple[int, int]]:
    """Return the parts of a rank that are on no list, with their first and last frame."""
    prefix = re.escape(f"part-a{attempt}-r{rank}-")
    pattern = re.compile(rf"{prefix}([0-9]{{1,18}})-([0-9]{{1,18}})\.parquet")
    listed = {entry.file for entry in entries}
    names = [path.name for path in layout.points.iterdir()] if layout.points.is_dir() else []
    found = ((name, pattern.fullmatch(name)) for name in names if name not in listed)
    return {name: (int(match[1]), int(match[2])) for name, match in found if match}


def is_covered(frames: tuple[int, int], entries: Iterable[PartEntry]) -> bool:
    """Tell whether listed parts hold a range of frames without a gap."""
    first, last = frames
    for entry in sorted(entries, key=lambda entry: entry.first_seq):
        if entry.first_seq <= first:
            first = max(first, entry.last_seq + 1)
    return first > last


def _remove_unlisted(
    layout: RunLayout, attempt: int, rank: int, entries: Sequence[PartEntry]
) -> None:
    found = unlisted(layout, attempt, rank, entries)
    gone = [layout.points / name for name, frames in found.items() if is_covered(frames, entries)]
    if layout.points.is_dir():
        gone += layout.points.glob(f".tmp-part-a{attempt}-r{rank}-*")
    for path in gone:
        path.unlink(missing_ok=True)
    if gone:
        fsync_dir(layout.points)
