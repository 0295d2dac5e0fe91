"""Sealed Parquet files of media: one kind and one journal each, readable by any engine.

    all      key string  step time int64  attempt rank int32  seq int64
    text     text
    hist     count nan pos_inf neg_inf, min max mean std, edges list, counts list
    table    columns list, num_rows, rows (JSON)
    image    caption format width height image (bytes)

Invariant: a file appears whole under its final name or not at all; it has the number of its
journal, so sealing twice writes the same file again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expdb.errors import Corrupt
from expdb.store.files import fsync_dir, make_dir, open_regular, reason, temp_path
from expdb.store.layout import RunLayout
from expdb.store.media_journal import MediaRecord

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("text", "hist", "table", "image")
HEAD = ("key", "step", "time", "attempt", "rank", "seq")
WRONG = (ValueError, TypeError, OverflowError)
"""What pyarrow raises for a value of another type; its own errors are among them."""


def schema(kind: str) -> pa.Schema:
    """Return the schema of a kind."""
    import pyarrow as pa

    whole, real, text = pa.int64(), pa.float64(), pa.string()
    own: dict[str, Any] = {
        "text": {"text": text},
        "hist": {
            **dict.fromkeys(("count", "nan", "pos_inf", "neg_inf"), whole),
            **dict.fromkeys(("min", "max", "mean", "std"), real),
            "edges": pa.list_(real),
            "counts": pa.list_(whole),
        },
        "table": {"columns": pa.list_(text), "num_rows": whole, "rows": text},
        "image": {
            "caption": text,
            "format": text,
            "width": pa.int32(),
            "height": pa.int32(),
            "image": pa.binary(),
        },
    }
    head = {"key": text, "step": whole, "time": whole}
    who = {"attempt": pa.int32(), "rank": pa.int32(), "seq": whole}
    return pa.schema(list({**head, **who, **own[kind]}.items()))


def build_table(
    kind: str, records: Iterable[MediaRecord], *, attempt: int, rank: int
) -> tuple[pa.Table, int]:
    """Return the sorted table of one kind, and how many records do not have its fields."""
    import pyarrow as pa

    wanted = schema(kind)
    own = [name for name in wanted.names if name not in HEAD]
    rows: list[dict[str, Any]] = []
    for item in sorted(records, key=lambda item: (item.key, item.step, item.seq)):
        head = (item.key, item.step, item.time_ms, attempt, rank, item.seq)
        body = {**item.body, "image": item.blob}
        rows.append(dict(zip(HEAD, head, strict=True)) | {name: body.get(name) for name in own})
    try:
        return pa.Table.from_pylist(rows, schema=wanted), 0
    except WRONG:
        good = [row for row in rows if _fits(row, wanted)]
        return pa.Table.from_pylist(good, schema=wanted), len(rows) - len(good)


def _fits(row: dict[str, Any], wanted: pa.Schema) -> bool:
    import pyarrow as pa

    try:
        pa.Table.from_pylist([row], schema=wanted)
    except WRONG:
        return False
    return True


def write_parts(
    layout: RunLayout, records: Sequence[MediaRecord], *, attempt: int, rank: int, number: int
) -> None:
    """Write what a journal holds, one file a kind, durably.

    Raises:
        OSError: the disk is full or gone; the journal has to stay.
    """
    for kind in KINDS:
        mine = [item for item in records if item.kind == kind]
        if mine:
            make_dir(layout.media)
            table, _ = build_table(kind, mine, attempt=attempt, rank=rank)
            _write(layout.media_part(kind, attempt, rank, number), table)
    if records:
        fsync_dir(layout.media)


def _write(path: Path, table: pa.Table) -> None:
    import pyarrow.parquet as pq

    temp = temp_path(path)
    packed = {name: "zstd" for name in table.column_names if name != "image"}
    try:
        pq.write_table(
            table,
            temp,
            compression={**packed, "image": "none"} if "image" in table.column_names else packed,
            use_dictionary=["key", "attempt", "rank"],
            write_statistics=list(HEAD),
            store_schema=False,
            write_page_checksum=True,
        )
        with temp.open("rb") as file:
            os.fsync(file.fileno())
        temp.replace(path)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise


def read_part(path: Path, kind: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of a file in the schema of its kind, of the named columns only when given.

    Raises:
        FileNotFoundError: it is not there.
        Corrupt: it is no whole file of this kind.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = schema(kind)
    names = wanted.names if columns is None else list(columns)
    try:
        open_regular(path).close()  # the library would wait for a pipe
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            found: pa.Table = file.read(names)
            return found.select(names).cast(pa.schema([wanted.field(name) for name in names]))
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        why = f" ({reason(error)})" if isinstance(error, OSError) and error.errno else ""
        raise Corrupt(f"media/{path.name} is damaged{why}", hint=f"the file: {path}") from error
