"""Parquet: our own export, a long table (key, step, value), or a wide one (one column a metric)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from expdb.errors import BadInput
from expdb.importers import exported, long_rows, wide_rows
from expdb.importers.found import Found, RunFacts, Skips, Source
from expdb.query.arrow_values import listed
from expdb.query.export import PARQUET_META
from expdb.text import plain

BATCH_ROWS: Final = 50_000


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
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadInput(f"{name} is no Parquet file") from error
    skips, head = Skips(), list(file.schema_arrow.names)
    facts = _facts((file.metadata.metadata or {}).get(PARQUET_META), name)
    rows = _rows(file, head, name)
    if long_rows.is_long(head):
        return Found(steps=long_rows.steps(head, rows, skips), skips=skips, facts=facts)
    return Found(steps=wide_rows.steps(source, head, rows, skips), skips=skips)


def _facts(data: bytes | None, name: str) -> dict[str, RunFacts]:
    if data is None:
        return {}
    try:
        records = json.loads(data)
    except (ValueError, RecursionError):
        records = None
    if not isinstance(records, list) or not all(isinstance(item, dict) for item in records):
        raise BadInput(f"{name} does not say what its runs are")
    found = [exported.facts_of(item, where=name) for item in records]
    return {str(item.id): item for item in found}


def _rows(file: Any, head: list[str], name: str) -> Iterator[tuple[int, list[Any]]]:
    import pyarrow as pa

    at = 0
    try:
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            columns = [listed(column) for column in batch.columns]
            for row in zip(*columns, strict=True):
                at += 1
                yield at, list(row)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{name} is damaged after row {at:,}") from error
    finally:
        file.close()
