"""Parquet: our own export, a long table (key, step, value), or a wide one (one column a metric)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any, Final

from expdb.errors import BadInput
from expdb.importers import exported, long_rows, wide_rows
from expdb.importers.found import Found, RunFacts, Skips, Source, require_apart
from expdb.importers.json_ import parsed
from expdb.query.arrow_values import listed
from expdb.query.export import PARQUET_META
from expdb.text import plain

BATCH_ROWS: Final = 50_000
BATCH_VALUES: Final = 2_000_000
MAX_VALUES: Final = 1_000_000_000
"""Of all rows and columns: some minutes of work for each hundred million."""
MAX_GROUP_BYTES: Final = 4_000_000_000
"""Of one row group, unpacked: what may have to fit into memory at once."""


def read(source: Source) -> Found:
    """Return what a Parquet file holds; a "line" in what is passed over is a row.

    Raises:
        BadInput: it is no Parquet, or has no column with the step.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = plain(source.path.name)
    try:
        file = pq.ParquetFile(source.path)
        # A text of megabytes that stands in a dictionary once is not repeated for each row.
        texts = [field.name for field in file.schema_arrow if _is_text(field.type)]
        file = pq.ParquetFile(source.path, read_dictionary=texts)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadInput(f"{name} is no Parquet file") from error
    _require_bounds(file, name)
    skips, head = Skips(name), list(file.schema_arrow.names)
    require_apart(head, skips)
    flat = _flat_columns(file, skips)
    facts = _facts((file.metadata.metadata or {}).get(PARQUET_META), skips)
    rows = _rows(file, head, flat, name)
    if long_rows.is_long(head):
        return Found(steps=long_rows.steps(head, rows, skips), skips=skips, facts=facts)
    return Found(steps=wide_rows.steps(source, head, rows, skips), skips=skips)


def _facts(data: bytes | None, skips: Skips) -> dict[str, RunFacts]:
    if data is None:
        return {}
    name = skips.name
    try:
        records = parsed(data, f"the description in {name}")
    except (ValueError, RecursionError):
        records = None
    if not isinstance(records, list) or not all(isinstance(item, dict) for item in records):
        raise BadInput(f"{name} does not say what its runs are")
    return exported.facts_of_all(records, skips)


def _flat_columns(file: Any, skips: Skips) -> list[int]:
    """Return the columns that hold one value a row; the others are counted as passed over."""
    import pyarrow as pa

    flat = []
    for at, field in enumerate(file.schema_arrow):
        if pa.types.is_nested(field.type):
            skips.add("a column of lists or structures", 1)
        else:
            flat.append(at)
    return flat


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _require_bounds(file: Any, name: str) -> None:
    """Refuse a file that a few bytes make larger than any memory, or longer than any patience.

    Raises:
        BadInput: it says what there is too much of.
    """
    meta = file.metadata
    if meta.num_rows * max(1, meta.num_columns) > MAX_VALUES:
        raise BadInput(
            f"{name} has {meta.num_rows:,} rows of {meta.num_columns:,} columns, over"
            f" {MAX_VALUES:,} values",
            hint="import a part of it",
        )
    for group in range(meta.num_row_groups):
        size = meta.row_group(group).total_byte_size
        if size > MAX_GROUP_BYTES:
            raise BadInput(
                f"row group {group + 1} of {name} has {size:,} bytes, over {MAX_GROUP_BYTES:,}",
                hint="write it with smaller row groups",
            )


def _rows(
    file: Any, head: list[str], flat: list[int], name: str
) -> Iterator[tuple[int, list[Any]]]:
    """Yield (row from 1, values by column), None for a column that is not read."""
    import pyarrow as pa

    at, names = 0, [head[column] for column in flat]
    size = max(1, min(BATCH_ROWS, BATCH_VALUES // max(1, len(flat))))
    try:
        for batch in file.iter_batches(batch_size=size, columns=names):
            columns: list[Any] = [repeat(None, batch.num_rows) for _ in head]
            for column, column_name in zip(flat, names, strict=True):
                columns[column] = listed(batch.column(column_name))
            for row in zip(*columns, strict=True):
                at += 1
                yield at, list(row)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{name} is damaged after row {at:,}") from error
    finally:
        file.close()
