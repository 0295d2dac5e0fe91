"""curves.parquet: the buckets of the series of a run that have more than 20,000 points.

It is derived: what it was made from stands in it, so a reader knows which points it has to add, and
one that is damaged, stale or missing costs time and nothing else. One schema, sorted by (key,
first_step), zstd, a CRC-32 on every page.

Invariant: for each key in it, its buckets are those of the points that stand for the run among all
sealed frames that it says it covers. It is replaced by a rename.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zlib import crc32

from expdb.errors import Corrupt, Unsupported
from expdb.model import FORMAT, NEEDS
from expdb.store import fields
from expdb.store.buckets import NAMES, REALS, Buckets
from expdb.store.fields import Wrong
from expdb.store.files import encode_json, fsync_dir, open_regular, temp_path
from expdb.store.keyed import Keyed, keyed
from expdb.store.parts import groups_of, rows_of

if TYPE_CHECKING:
    import pyarrow as pa

MIN_POINTS: Final = 20_000
"""A series with more points has a curve."""
LARGEST: Final = 2**63 - 1
META: Final = b"expdb.curves"
CRC_DIGITS: Final = 9
"""Those of the CRC-32 of what follows, and a space."""
GROUP_ROWS: Final = 1 << 14
"""Rows of a row group: a reader of one key decodes this many, and a file of many keys stays one of
few groups.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a file of curves was made from."""

    covered: Mapping[tuple[int, int], int]
    """(attempt, rank) -> the last sealed frame whose points are in it."""
    resumed: Mapping[int, int | None]
    """Attempt -> the step that it resumed from, None where it says none."""

    def holds_to(
        self, sealed: Mapping[tuple[int, int], int], resumed: Mapping[int, int | None]
    ) -> int | None:
        """Return the step up to which it still says what is so, before what is new is added; None
        where nothing does.

        `sealed` is the last sealed frame of each (attempt, rank), `resumed` as here, both of now.
        """
        if any(seq > sealed.get(at, 0) for at, seq in self.covered.items()):
            return None  # a list got lost, and with it points
        if any(resumed.get(attempt, -1) != step for attempt, step in self.resumed.items()):
            return None
        new = [step for attempt, step in resumed.items() if attempt not in self.resumed]
        return min((step for step in new if step is not None), default=LARGEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """What a file of curves holds, of the keys that were asked for."""

    source: Source
    buckets: Keyed


def schema() -> pa.Schema:
    """Return the schema of the file."""
    import pyarrow as pa

    kinds = [(name, pa.float64() if name in REALS else pa.int64()) for name in NAMES]
    return pa.schema([("key", pa.dictionary(pa.int32(), pa.string())), *kinds])


def write_curves(path: Path, curves: Curves) -> None:
    """Replace the file durably.

    Raises:
        OSError: it could not be written; what was there stands.
    """
    import pyarrow.parquet as pq

    temp = temp_path(path)
    whole = [name for name in NAMES if name not in REALS]
    try:
        with pq.ParquetWriter(
            temp,
            schema(),
            compression="zstd",
            use_dictionary=["key"],
            column_encoding={
                **dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
                **dict.fromkeys(sorted(REALS), "BYTE_STREAM_SPLIT"),
            },
            write_statistics=["key"],
            store_schema=False,
            write_page_checksum=True,
        ) as writer:
            writer.write_table(_table(curves.buckets), row_group_size=GROUP_ROWS)
            writer.add_key_value_metadata({META: _encoded(curves.source)})
        with temp.open("rb") as file:
            os.fsync(file.fileno())
        temp.replace(path)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    fsync_dir(path.parent)


def _table(found: Keyed) -> pa.Table:
    import pyarrow as pa

    keys = pa.DictionaryArray.from_arrays(found.codes, pa.array(found.names, pa.string()))
    columns = [pa.array(getattr(found.rows, name)) for name in NAMES]
    return pa.Table.from_arrays([keys, *columns], schema=schema())


def _encoded(source: Source) -> bytes:
    covered, resumed = sorted(source.covered.items()), sorted(source.resumed.items())
    body = {
        "format": FORMAT,
        "needs": NEEDS,
        "covered": [{"attempt": at[0], "rank": at[1], "seq": seq} for at, seq in covered],
        "resumed": [{"attempt": attempt, "step": step} for attempt, step in resumed],
    }
    data = encode_json(body)
    return b"%08x %b" % (crc32(data), data)  # nothing else guards the end of a Parquet file


def read_curves(path: Path, keys: Sequence[str] | None = None) -> Curves:
    """Return the curves of these keys, or of all; of a key that has none there is nothing.

    Raises:
        FileNotFoundError: the run has no such file.
        Corrupt: it is damaged.
        Unsupported: a newer expdb wrote it.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        open_regular(path).close()  # the library would wait for a pipe
        with pq.ParquetFile(path, read_dictionary=["key"], page_checksum_verification=True) as file:
            source = _source(file.metadata.metadata or {})
            groups = groups_of(file.metadata, keys)
            table = file.read_row_groups(groups, ["key", *NAMES], use_threads=False)
            table = table.cast(schema()).unify_dictionaries().combine_chunks()
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, Wrong) as error:
        raise Corrupt(f"{path.name} is damaged", hint=f"the file: {path}") from error
    table = table if keys is None else rows_of(table, keys)
    rows = Buckets(**{name: table[name].to_numpy() for name in NAMES})
    return Curves(source=source, buckets=keyed(table, rows))


def _source(metadata: Mapping[bytes, bytes]) -> Source:
    data = metadata[META][CRC_DIGITS:]
    if metadata[META] != b"%08x %b" % (crc32(data), data):
        raise Wrong("expdb.curves")
    body = fields.as_mapping(json.loads(data), "expdb.curves")
    if fields.whole(body, "format") > FORMAT:
        raise Unsupported(f"curves.parquet needs expdb {fields.text(body, 'needs')}")
    covered = [fields.as_mapping(item, "covered") for item in fields.items(body, "covered")]
    resumed = [fields.as_mapping(item, "resumed") for item in fields.items(body, "resumed")]
    whole, maybe = fields.whole, fields.maybe_whole
    return Source(
        covered={(whole(at, "attempt"), whole(at, "rank")): whole(at, "seq") for at in covered},
        resumed={whole(at, "attempt"): maybe(at, "step") for at in resumed},
    )
