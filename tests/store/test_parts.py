from __future__ import annotations

import json
import math
import os
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expdb.errors import Corrupt
from expdb.store import parts
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.parts import (
    COLUMNS,
    Column,
    PartEntry,
    build_table,
    read_list,
    read_part,
    write_list,
    write_part,
)

SPECIAL = [math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324, -5e-324, 1.7976931348623157e308, 0.1]
INT64 = st.integers(-(2**63), 2**63 - 1)
KEYS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
POINTS = st.dictionaries(
    KEYS,
    st.lists(st.tuples(INT64, INT64, st.floats(width=64)), min_size=1, max_size=6),
    max_size=4,
)


def columns_of(points: dict[str, list[tuple[int, int, float]]]) -> dict[str, Column]:
    found, seq = {}, 0
    for key, rows in points.items():
        steps, times, values = zip(*rows, strict=True)
        seqs = np.arange(seq + 1, seq + 1 + len(rows), dtype=np.int64)
        seq += len(rows)
        found[key] = Column(
            np.array(steps, np.int64), np.array(times, np.int64), np.array(values, np.float64), seqs
        )
    return found


def bits(value: float) -> int:
    return int(np.float64(value).view(np.uint64))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parts")


def special(path: Path) -> Path:
    rows = [(step, 1000 + step, value) for step, value in enumerate(SPECIAL)]
    write_part(path, build_table(columns_of({"x": rows}), attempt=1, rank=0))
    return path


@settings(max_examples=60)
@given(POINTS)
def test_any_points_come_back_sorted(folder: Path, points: dict) -> None:
    path = folder / "part-a3-r2-1-9.parquet"
    columns = columns_of(points)
    size = write_part(path, build_table(columns, attempt=3, rank=2))
    assert size == path.stat().st_size
    table = read_part(path)
    assert table.column_names == list(COLUMNS)
    found = [tuple(row[name] for name in COLUMNS) for row in table.to_pylist()]
    wanted = [
        (key, int(s), int(t), float(v), 3, 2, int(q))
        for key, c in columns.items()
        for s, t, v, q in zip(c.steps, c.times, c.values, c.seqs, strict=True)
    ]
    wanted.sort(key=lambda row: (row[0], row[1], row[6]))
    assert [row[:3] + row[4:] for row in found] == [row[:3] + row[4:] for row in wanted]
    assert [math.isnan(row[3]) for row in found] == [math.isnan(row[3]) for row in wanted]
    assert [bits(r[3]) for r in found if r[3] == r[3]] == [
        bits(r[3]) for r in wanted if r[3] == r[3]
    ]
    assert [item.name for item in folder.iterdir()] == [path.name]


def test_special_values_keep_their_bits(tmp_path: Path) -> None:
    table = read_part(special(tmp_path / "part-a1-r0-1-9.parquet"))
    assert list(map(bits, table["value"].to_pylist())) == list(map(bits, SPECIAL))


def test_named_keys_only(tmp_path: Path) -> None:
    points = {name: [(s, s, float(s)) for s in range(5)] for name in ("a", "b", "c", "d", "é/x")}
    path = tmp_path / "part-a1-r0-1-25.parquet"
    write_part(path, build_table(columns_of(points), attempt=1, rank=0))
    for keys in (["b"], ["a", "c"], ["é/x", "none"], [], ["none"]):
        table = read_part(path, keys)
        assert table["key"].to_pylist() == [
            key for key in sorted(keys) if key in points for _ in "12345"
        ]
        assert table["step"].to_pylist() == [0, 1, 2, 3, 4] * len(set(keys) & set(points))


def test_encodings_and_statistics_are_those_of_the_format(tmp_path: Path) -> None:
    file = pq.ParquetFile(special(tmp_path / "part-a1-r0-1-9.parquet"))
    assert file.schema_arrow.names == list(COLUMNS)
    assert [str(field.type) for field in file.schema_arrow] == [
        "string", "int64", "int64", "double", "int32", "int32", "int64",
    ]  # fmt: skip
    group = file.metadata.row_group(0)
    for number, name in enumerate(COLUMNS):
        column = group.column(number)
        assert column.compression == "ZSTD"
        assert (column.statistics is None) == (name == "value"), name
        want = {
            "step": "DELTA_BINARY_PACKED",
            "time": "DELTA_BINARY_PACKED",
            "seq": "DELTA_BINARY_PACKED",
            "value": "BYTE_STREAM_SPLIT",
        }.get(name, "RLE_DICTIONARY")
        assert want in column.encodings, name
        assert ("RLE_DICTIONARY" in column.encodings) == (name in ("key", "attempt", "rank"))


def test_other_engines_find_nan_rows_and_compare_numbers(tmp_path: Path) -> None:
    layout = RunLayout(StoreLayout(tmp_path).run_dir("exp01", "k3f9x2m7qd"))
    layout.points.mkdir(parents=True)
    special(layout.part(1, 0, 1, 9))
    (layout.points / ".tmp-part-a1-r0-1-9.parquet-0badf00d").write_bytes(b"half")
    every = f"{tmp_path}/exp=*/run=*/points/part-*.parquet"

    def count(where: str) -> list[int]:
        sql = f"select step from read_parquet('{every}', hive_partitioning=true) where {where}"
        return sorted(row[0] for row in duckdb.sql(sql).fetchall())

    assert count("isnan(value)") == [0]
    assert count("value > 100 and not isnan(value)") == [1, 7]
    assert count("value > 100") == [0, 1, 7]  # NaN is the greatest number in DuckDB
    assert count("isinf(value)") == [1, 2]
    assert count("value < -100") == [2]
    assert count("run = 'k3f9x2m7qd' and exp = 'exp01'") == list(range(9))
    dataset = ds.dataset(
        [str(path) for path in tmp_path.glob("exp=*/run=*/points/part-*.parquet")],
        partitioning="hive",
        partition_base_dir=str(tmp_path),
    )
    table = dataset.to_table(filter=ds.field("value").is_nan())
    assert table.select(["exp", "run", "step"]).to_pylist() == [
        {"exp": "exp01", "run": "k3f9x2m7qd", "step": 0}
    ]
    assert dataset.to_table(filter=ds.field("value") > 100)["step"].to_pylist() == [1, 7]


@pytest.mark.parametrize("keep", [0, 1, 4, 100, -1, -8, -100])
def test_a_cut_part_is_named(tmp_path: Path, keep: int) -> None:
    path = special(tmp_path / "part-a1-r0-1-9.parquet")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(Corrupt, match=r"part-a1-r0-1-9\.parquet is damaged"):
        read_part(path)


def test_a_missing_or_foreign_part_is_named(tmp_path: Path) -> None:
    path = tmp_path / "part-a1-r0-1-9.parquet"
    with pytest.raises(Corrupt, match=r"part-a1-r0-1-9\.parquet is missing"):
        read_part(path)
    for table in (pa.table({"v": [1]}), pa.table({name: ["x"] for name in COLUMNS})):
        pq.write_table(table, path)
        with pytest.raises(Corrupt, match=r"part-a1-r0-1-9\.parquet is damaged"):
            read_part(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(Corrupt, match="damaged"):
        read_part(path)


def test_a_flipped_bit_in_the_data_is_noticed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    points = {"loss": [(s, 100 * s, float(v)) for s, v in enumerate(rng.normal(size=400))]}
    path = tmp_path / "part-a1-r0-1-400.parquet"
    write_part(path, build_table(columns_of(points), attempt=1, rank=0))
    whole, column = path.read_bytes(), pq.ParquetFile(path).metadata.row_group(0).column(3)
    start = column.data_page_offset
    for at in range(start + 60, start + column.total_compressed_size, 97):
        damaged = bytearray(whole)
        damaged[at] ^= 4
        path.write_bytes(damaged)
        with pytest.raises(Corrupt):
            read_part(path)


def test_a_part_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise OSError(5, "Input/output error")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="Input/output"):
                special(tmp_path / "points" / "part-a1-r0-1-9.parquet")
        assert list((tmp_path / "points").iterdir()) == []


def test_the_list_of_parts_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.json"
    assert read_list(path) == ()
    entries = (PartEntry("a.parquet", 1, 9, 7, 100), PartEntry("b.parquet", 10, 11, 1, 50))
    write_list(path, entries)
    assert read_list(path) == entries
    assert json.loads(path.read_text())["parts"][0]["last_seq"] == 9


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b'{"parts":5}', b'{"parts":[{}]}', b'{"parts":[{"file":"a"}]}', b"\0"],
)
def test_a_damaged_list_is_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "rank-0.json"
    path.write_bytes(data)
    with pytest.raises(Corrupt, match=r"rank-0\.json"):
        read_list(path)


def test_times_that_keys_share_are_kept_about_once(folder: Path) -> None:
    rng, count = np.random.default_rng(0), 20_000
    times = 1_700_000_000_000 + np.cumsum(rng.normal(100, 3, count).round().astype(np.int64))
    steps = np.arange(count)
    sizes = []
    for num_keys in (1, 5):
        columns = {
            f"m{number}": Column(
                steps, times, rng.normal(size=count).astype("f4").astype("f8"), steps
            )
            for number in range(num_keys)
        }
        table = build_table(columns, attempt=1, rank=0)
        path = folder / f"shared-{num_keys}.parquet"
        write_part(path, table)
        assert read_part(path).equals(table)
        group = pq.ParquetFile(path).metadata.row_group(0)
        sizes.append(group.column(COLUMNS.index("time")).total_compressed_size)
    assert sizes[1] < 3 * sizes[0]


@pytest.mark.slow
@given(POINTS, st.lists(KEYS, max_size=3))
def test_keys_are_read_from_the_row_groups_that_have_them(
    folder: Path, points: dict[str, list[tuple[int, int, float]]], others: list[str]
) -> None:
    keys = [*list(points)[::2], *others, "y" * 5000]
    points = {**points, "z" * 5000: [(1, 2, 3.0)]}  # a name too long for statistics
    path = folder / "groups.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "PAGE_ROWS", 3)
        write_part(path, build_table(columns_of(points), attempt=1, rank=0))
    for wanted in (keys, ["z" * 5000], []):
        whole = read_part(path).to_pylist()
        expected = [row for row in whole if row["key"] in wanted]
        assert repr(read_part(path, wanted).to_pylist()) == repr(expected)


def test_a_reader_of_one_key_reads_no_other_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "PAGE_ROWS", 10)
    steps = np.arange(10)
    column = Column(steps, steps, steps * 0.5, steps)
    table = build_table(dict.fromkeys("abc", column), attempt=1, rank=0)
    path = tmp_path / "points" / "part-a1-r0-1-10.parquet"
    write_part(path, table)
    group = pq.ParquetFile(path).metadata.row_group(1)
    first = group.column(0).dictionary_page_offset
    last = group.column(6).data_page_offset + group.column(6).total_compressed_size
    data = bytearray(path.read_bytes())
    data[first:last] = bytes(last - first)
    path.write_bytes(data)
    for key in "ac":
        assert read_part(path, [key])["value"].to_pylist() == (steps * 0.5).tolist()
    with pytest.raises(Corrupt):
        read_part(path, ["b"])
    assert read_part(path, ["b"], above=9).num_rows == 0
    assert read_part(path, ["c"], above=6)["step"].to_pylist() == [7, 8, 9]
