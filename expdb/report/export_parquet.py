"""Parquet files for the user, written by pyarrow with the encodings of the store.

Invariant: no statistics on floats, since readers that prune by them lose NaN rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from expdb.query.export import PARQUET_META, Export, flat_row
from expdb.report.export import COLUMNS, dumped

if TYPE_CHECKING:
    import pyarrow as pa


def write_points(file: BinaryIO, export: Export) -> None:
    """Write a long table of all points; the records of the runs stand in the file's metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    records = [record for _, record in export.records()]
    schema = pa.schema(
        [
            ("run", pa.string()),
            ("key", pa.string()),
            ("step", pa.int64()),
            ("time", pa.int64()),
            ("value", pa.float64()),
            ("attempt", pa.int32()),
            ("rank", pa.int32()),
        ],
        metadata={PARQUET_META: dumped(records).encode()},
    )
    with pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        use_dictionary=["run", "key", "attempt", "rank"],
        column_encoding={
            "step": "DELTA_BINARY_PACKED",
            "time": "DELTA_BINARY_PACKED",
            "value": "BYTE_STREAM_SPLIT",
        },
        write_statistics=[name for name in COLUMNS if name != "value"],
    ) as writer:
        for run in export.runs:
            points = export.points(run).select(list(COLUMNS))
            if points.num_rows:
                writer.write_table(points.cast(schema))


def write_runs(file: BinaryIO, export: Export) -> None:
    """Write one row a run; config, metrics and evaluations are JSON texts."""
    import pyarrow as pa

    found = [flat_row(run) for run, _ in export.records()]
    columns: dict[str, Any] = {}
    for name in found[0] if found else ():
        values = [row[name] for row in found]
        if any(isinstance(value, list | dict) for value in values):
            columns[name] = pa.array([dumped(value) for value in values], pa.string())
        elif name == "seed":
            columns[name] = pa.array([None if v is None else str(v) for v in values], pa.string())
        else:
            kind = {"value": pa.float64(), "dirty": pa.bool_()}.get(name)
            whole = name.endswith(("_ms", "_step")) or name == "last_step"
            columns[name] = pa.array(values, kind or (pa.int64() if whole else pa.string()))
    write_table(file, pa.table(columns))


def write_table(file: BinaryIO, table: pa.Table) -> None:
    """Write any table; columns of one name get numbers behind it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from expdb.report.answer import unique

    table = table.rename_columns(unique(table.column_names))
    kept = [
        field.name
        for field in table.schema
        if pa.types.is_integer(field.type) or pa.types.is_string(field.type)
    ]
    pq.write_table(table, file, compression="zstd", write_statistics=kept or False)
