"""Sealing: what a rank's journals hold becomes one part, at finish, by size, and in recovery.

Invariant: the part and the rank's list are durable before a journal goes, and readers skip frames that the list
covers; so a kill between any two operations leaves each point readable exactly once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

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
) -> None:
    """Write one part of a rank, put it on the rank's list, then remove the journals it covers.

    Raises:
        OSError: nothing was lost; the journals stand.
    """
    listed = layout.parts_list(attempt, rank)
    entries = read_list(listed)
    covered = entries[-1].last_seq if entries else 0
    if columns and last_seq > covered:
        table = build_table(columns, attempt=attempt, rank=rank)
        path = layout.part(attempt, rank, first_seq, last_seq)
        size = write_part(path, table)
        entry = PartEntry(path.name, first_seq, last_seq, table.num_rows, size)
        write_list(listed, [*entries, entry])
    for journal in journals:
        journal.unlink(missing_ok=True)
