"""Which points of a run are read: some keys, frames or steps; what has none of them is passed by.

What cannot be read is named, and the rest is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from expdb.errors import Corrupt, ExpdbError
from expdb.store.layout import RunLayout
from expdb.store.parts import COLUMNS, PartEntry, read_part

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which points are read: of these keys, with steps over `above`, in frames after `after`."""

    keys: Sequence[str] | None = None
    above: int | None = None
    after: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """(attempt, rank) -> the last frame that is passed over."""
    columns: Sequence[str] = COLUMNS

    def of_part(self, path: Path, attempt: int, rank: int, entry: PartEntry) -> pa.Table | None:
        """Return what is wanted of a part, None where it has nothing.

        Raises:
            Corrupt: it is damaged.
        """
        after = self.after.get((attempt, rank), 0)
        if entry.last_seq <= after:
            return None
        if entry.first_seq > after:
            return read_part(path, self.keys, above=self.above, columns=self.columns)
        names = [name for name in COLUMNS if name in self.columns or name == "seq"]
        table = read_part(path, self.keys, above=self.above, columns=names)
        table = table.filter(table["seq"].to_numpy() > after)
        return table.select(list(self.columns))

    def of_journal(self, table: pa.Table) -> pa.Table:
        """Return what is wanted of the points of these keys in a journal."""
        if self.above is not None:
            table = table.filter(table["step"].to_numpy() > self.above)
        return table.select(list(self.columns))


def sealed_tables(
    layout: RunLayout,
    lists: Mapping[int, Mapping[int, Sequence[PartEntry]]],
    wanted: Wanted,
    problems: list[str] | None,
    missing: list[str] | None,
) -> Iterator[pa.Table]:
    """Yield what is wanted of the parts in lists: attempt -> rank -> its parts.

    Raises:
        Corrupt: a part is damaged, and no `problems` were given.
    """
    for attempt, of_ranks in sorted(lists.items()):
        entries = [(rank, entry) for rank in sorted(of_ranks) for entry in of_ranks[rank]]
        for rank, entry in entries:
            path = layout.points / Path(entry.file).name
            try:
                table = wanted.of_part(path, attempt, rank, entry)
            except Corrupt as error:
                tell(error, problems, missing)
                continue
            if table is not None:
                yield table


def tell(error: ExpdbError, problems: list[str] | None, missing: list[str] | None = None) -> None:
    """Name what cannot be read in `problems`, and in `missing` too where points are missed by it.

    Raises:
        ExpdbError: the error itself, where no `problems` are given.
    """
    if problems is None:
        raise error
    problems.append(error.message)
    if missing is not None:
        missing.append(error.message)


def batches(counts: Mapping[str, int], most: int) -> Iterator[list[str]]:
    """Yield the keys in order, some at a time: as soon as they have `most` points together."""
    batch: list[str] = []
    size = 0
    for key in sorted(counts):
        batch.append(key)
        size += counts[key]
        if size >= most:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
