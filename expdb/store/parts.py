"""Sealed Parquet parts of points: one schema, readable by any engine.

    key      dictionary<string>   any UTF-8 text
    step     int64                DELTA_BINARY_PACKED
    time     int64                UTC epoch milliseconds, DELTA_BINARY_PACKED
    value    float64              BYTE_STREAM_SPLIT, **no statistics**: readers would prune NaN rows
    attempt  int32                dictionary
    rank     int32                dictionary
    seq      int64                the journal frame it came from, DELTA_BINARY_PACKED

Rows are sorted by (key, step, seq); zstd; a CRC-32 on every page, since nothing else would notice a
flipped bit. The encodings are the measured best of docs/log.md.

Invariant: a part appears whole under its final name or not at all, and never changes; a rank's list
names its parts, and readers of ours take parts from lists, never by glob.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expdb.errors import Corrupt
from expdb.model import FORMAT
from expdb.store import fields
from expdb.store.fields import Wrong
from expdb.store.files import fsync_dir, make_dir, open_regular, read_json, temp_path, write_json

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from numpy.typing import NDArray

PAGE_ROWS = 1 << 17
"""Rows of a page and of a row group: few keys stand in one, so a reader of one key passes by most;
more would make a file hardly smaller.
"""
COLUMNS = ("key", "step", "time", "value", "attempt", "rank", "seq")


@dataclass(slots=True)
class Column:
    """The points of one key, aligned; int64 [n] but `values`, float64 [n]; in any order."""

    steps: NDArray[np.int64]
    times: NDArray[np.int64]
    values: NDArray[np.float64]
    seqs: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PartEntry:
    """One line of a rank's list of parts."""

    file: str
    first_seq: int
    last_seq: int
    num_points: int
    bytes: int


def schema() -> pa.Schema:
    """Return the schema of a part."""
    import pyarrow as pa

    return pa.schema(
        [
            ("key", pa.dictionary(pa.int32(), pa.string())),
            ("step", pa.int64()),
            ("time", pa.int64()),
            ("value", pa.float64()),
            ("attempt", pa.int32()),
            ("rank", pa.int32()),
            ("seq", pa.int64()),
        ]
    )


def build_table(columns: Mapping[str, Column], *, attempt: int, rank: int) -> pa.Table:
    """Return the sorted table of one rank's points."""
    import numpy as np
    import pyarrow as pa

    names = sorted(columns)
    grow: dict[int, bool] = {}  # keys that were logged together share their steps
    for column in columns.values():
        steps = column.steps
        if id(steps) not in grow:
            grow[id(steps)] = bool(np.all(steps[1:] > steps[:-1]))
    ordered = [_by_step(columns[name], grow[id(columns[name].steps)]) for name in names]
    sizes = [len(column.steps) for column in ordered]
    total = sum(sizes)

    def joined(arrays: list[Any], dtype: str) -> Any:
        return np.concatenate(arrays) if arrays else np.empty(0, dtype)

    codes = np.repeat(np.arange(len(names), dtype=np.int32), sizes)
    keys = pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string()))
    return pa.Table.from_arrays(
        [
            keys,
            pa.array(joined([c.steps for c in ordered], "i8")),
            pa.array(joined([c.times for c in ordered], "i8")),
            pa.array(joined([c.values for c in ordered], "f8")),
            pa.array(np.full(total, attempt, np.int32)),
            pa.array(np.full(total, rank, np.int32)),
            pa.array(joined([c.seqs for c in ordered], "i8")),
        ],
        schema=schema(),
    )


def _by_step(column: Column, grows: bool) -> Column:
    import numpy as np

    if grows:
        return column
    order = np.lexsort((column.seqs, column.steps))
    return Column(
        column.steps[order], column.times[order], column.values[order], column.seqs[order]
    )


def write_part(path: Path, table: pa.Table) -> int:
    """Write a part durably and return its size in bytes.

    Raises:
        OSError: the disk is full or gone; no file of the final name exists then.
    """
    return write_tables(path, [table])


def write_tables(path: Path, tables: Iterable[pa.Table]) -> int:
    """Write one part of tables that are sorted as if they were one; else as `write_part`."""
    import pyarrow.parquet as pq

    make_dir(path.parent)
    temp = temp_path(path)
    try:
        with pq.ParquetWriter(
            temp,
            schema(),
            compression="zstd",
            use_dictionary=["key", "attempt", "rank"],
            column_encoding={
                "step": "DELTA_BINARY_PACKED",
                "time": "DELTA_BINARY_PACKED",
                "seq": "DELTA_BINARY_PACKED",
                "value": "BYTE_STREAM_SPLIT",
            },
            write_statistics=[name for name in COLUMNS if name != "value"],
            store_schema=False,
            write_page_checksum=True,
            **_page_rows(),
        ) as writer:
            for table in tables:
                writer.write_table(table, row_group_size=PAGE_ROWS)
        with temp.open("rb") as file:
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        temp.replace(path)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    fsync_dir(path.parent)
    return size


def _page_rows() -> dict[str, int]:
    """Return the option for the rows of a page.

    The keys of one part repeat the same times: zstd finds that within a page only. Before pyarrow
    22 a page had no such limit, and 22 cannot be told.
    """
    import pyarrow as pa

    major = int(pa.__version__.split(".")[0])
    return {"max_rows_per_page": PAGE_ROWS} if major > 22 else {}


def read_part(
    path: Path,
    keys: Sequence[str] | None = None,
    *,
    above: int | None = None,
    columns: Sequence[str] = COLUMNS,
) -> pa.Table:
    """Return the rows of a part in the schema of a part, of the named keys only when given.

    Of these only steps over `above` when given, and only the named columns, `key` and `step` among
    them. What can have no such row is passed by, and not read.

    Raises:
        Corrupt: the file is not a whole part.
    """
    import pyarrow as pa

    kinds = schema()
    wanted = pa.schema([kinds.field(name) for name in columns])
    with _opened(path) as file:
        groups = groups_of(file.metadata, keys, above)
        table = file.read_row_groups(groups, list(columns)).cast(wanted)
        table = table.unify_dictionaries().combine_chunks()
    table = table if keys is None else rows_of(table, keys)
    if above is None or table.num_rows == 0:
        return table
    later = table["step"].to_numpy() > above
    return table if later.all() else table.filter(later)


def part_groups(path: Path, keys: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the row groups of a part in which any of these keys may stand, one after the other.

    Raises:
        Corrupt: the file is not a whole part.
    """
    with _opened(path) as file:
        for group in groups_of(file.metadata, keys):
            table = file.read_row_group(group, list(COLUMNS), use_threads=False).cast(schema())
            yield table.unify_dictionaries().combine_chunks()


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a part; what goes wrong in the block means that it is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        open_regular(path).close()  # the library would wait for a pipe
        with pq.ParquetFile(path, read_dictionary=["key"], page_checksum_verification=True) as file:
            yield file
    except FileNotFoundError as error:
        raise Corrupt(f"{path.name} is missing", hint=f"the file: {path}") from error
    except (pa.ArrowException, OSError, ValueError, LookupError) as error:
        raise Corrupt(f"{path.name} is damaged", hint=f"the file: {path}") from error


def key_counts(path: Path) -> dict[str, int]:
    """Return key -> its rows in a part.

    Raises:
        Corrupt: the file is not a whole part.
    """
    counts: dict[str, int] = {}
    with _opened(path) as file:
        for group in range(file.num_row_groups):
            found = file.read_row_group(group, ["key"])["key"].value_counts()
            for item in found.to_pylist():
                counts[item["values"]] = counts.get(item["values"], 0) + item["counts"]
    return counts


def num_rows(path: Path) -> int:
    """Read all of a part, some of it at a time, and return its rows.

    Raises:
        Corrupt: the file is not a whole part.
    """
    with _opened(path) as file:
        groups = range(file.num_row_groups)
        return sum(file.read_row_group(group, list(COLUMNS)).num_rows for group in groups)


def groups_of(
    metadata: pq.FileMetaData, keys: Sequence[str] | None, above: int | None = None
) -> list[int]:
    """Return the row groups in which any of these keys may stand, with a step over `above`."""
    groups = list(range(metadata.num_row_groups))
    if keys is not None:
        # Names compare like their UTF-8 bytes.
        groups = [at for at in groups if _may_hold(metadata, at, "key", keys)]
    if above is not None:
        groups = [at for at in groups if _may_hold(metadata, at, "step", (), above)]
    return groups


def _may_hold(
    metadata: pq.FileMetaData, group: int, name: str, among: Sequence[Any], above: Any = None
) -> bool:
    """Tell whether a column of a row group may hold one of these values, or one over `above`."""
    column = metadata.row_group(group).column(COLUMNS.index(name))
    known = column.statistics if column.path_in_schema == name else None
    if known is None or not known.has_min_max:  # a very long name has none
        return True
    if above is not None:
        return bool(known.max > above)
    return any(known.min <= value <= known.max for value in among)


def rows_of(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the rows of some keys, of a table in one chunk."""
    import numpy as np

    if table.num_rows == 0:
        return table
    column = table["key"].chunk(0)
    wanted = np.isin(column.dictionary.to_pylist(), keys)
    rows = np.flatnonzero(wanted[column.indices.to_numpy()])
    if len(rows) and len(rows) == rows[-1] - rows[0] + 1:
        return table.slice(rows[0], len(rows))  # one key, and a part is sorted by key
    return table.take(rows)


def read_list(path: Path) -> tuple[PartEntry, ...]:
    """Return a rank's parts, oldest first; empty when it has sealed none.

    Raises:
        Corrupt: the list is damaged.
    """
    try:
        data = read_json(path)
    except FileNotFoundError:
        return ()
    try:
        return tuple(
            _entry(fields.as_mapping(item, "parts")) for item in fields.items(data, "parts")
        )
    except Wrong as error:
        raise Corrupt(f"{path.name} is no list of parts", hint=f"the file: {path}") from error


def _entry(item: Mapping[str, Any]) -> PartEntry:
    return PartEntry(
        fields.text(item, "file"),
        fields.whole(item, "first_seq"),
        fields.whole(item, "last_seq"),
        fields.whole(item, "num_points"),
        fields.whole(item, "bytes"),
    )


def read_folded(path: Path) -> tuple[str, ...]:
    """Return the files of a rank that were folded into others, and go when nobody reads them.

    Raises:
        Corrupt: the list is damaged.
    """
    try:
        return fields.texts(read_json(path), "folded", ())
    except FileNotFoundError:
        return ()
    except Wrong as error:
        raise Corrupt(f"{path.name} is no list of parts", hint=f"the file: {path}") from error


def write_list(path: Path, entries: Iterable[PartEntry], *, folded: Iterable[str] = ()) -> None:
    """Replace a rank's list of parts; `folded` as `read_folded` returns it."""
    body: dict[str, Any] = {"format": FORMAT, "parts": [asdict(entry) for entry in entries]}
    if names := sorted(folded):
        body["folded"] = names
    write_json(path, body)
