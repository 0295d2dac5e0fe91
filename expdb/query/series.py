"""The points of one key of several runs, in one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from expdb.index.reader import Reader
from expdb.query.lookup import lookup
from expdb.store.points import read_series

if TYPE_CHECKING:
    import pyarrow as pa


def series_of(reader: Reader, key: str, words: Sequence[str]) -> pa.Table:
    """Return run, key, step, time, value, attempt, rank, seq: the visible points of a key.

    Rows are in the order of `words`, then by step and rank.

    Raises:
        NotFound, Ambiguous, BadInput: a word names no run.
        Corrupt: a file with points is damaged.
    """
    import pyarrow as pa

    tables = []
    for word in words:
        run = lookup(reader, word).run
        table = read_series(reader.run_dir(run), [key])
        column = pa.array([run] * table.num_rows, pa.string())
        tables.append(table.add_column(0, "run", column))
    return pa.concat_tables(tables) if tables else pa.table({})
