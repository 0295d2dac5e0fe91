"""Columns as JSON values: every type of DuckDB at its edges, nested ones, and slices of them."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from expdb.query.lossless import projection
from expdb.report.answer import text_of
from expdb.report.plain_values import plain_values

ID = "00000000-0000-0000-0000-0000000000ff"
MOST = 2**127 - 1
EDGES: dict[str, Any] = {
    "time '24:00:00'": "24:00:00",
    "time '23:59:59.999999'": "23:59:59.999999",
    "time_ns '24:00:00'": "24:00:00",
    "time_ns '00:00:00.000000001'": "00:00:00.000000001",
    "timetz '12:00:00+02'": "12:00:00+02",
    "timetz '24:00:00-15:59:59'": "24:00:00-15:59:59",
    "date 'infinity'": "infinity",
    "date '-infinity'": "-infinity",
    "date '5881580-07-10'": "5881580-07-10",
    "date '0044-03-15 (BC)'": "0044-03-15 (BC)",
    "date '0001-01-01'": "0001-01-01",
    "timestamp 'infinity'": "infinity",
    "timestamp_s '-infinity'": "-infinity",
    "timestamp_ms 'infinity'": "infinity",
    "timestamp_ns '-infinity'": "-infinity",
    "timestamptz 'infinity'": "infinity",
    "timestamp '294247-01-10 04:00:54.775806'": "294247-01-10T04:00:54.775806",
    "timestamp '290309-12-22 (BC) 00:00:00'": "290309-12-22 (BC)T00:00:00",
    "timestamp '9999-12-31 23:59:59.5'": "9999-12-31T23:59:59.500000",
    "timestamp_ns '2026-01-01 00:00:00.123456789'": "2026-01-01T00:00:00.123456789",
    "timestamptz '2026-01-01 00:00:00+02'": "2025-12-31T22:00:00+00:00",
    "timestamptz '10000-01-01 00:00:00+00'": "10000-01-01T00:00:00+00:00",
    f"{MOST}::hugeint": MOST,
    f"({-MOST - 1})::hugeint": -MOST - 1,
    f"{2**128 - 1}::uhugeint": str(2**128 - 1),
    f"{10**60}::bignum": str(10**60),
    f"{2**64 - 1}::ubigint": 2**64 - 1,
    "1.5::decimal(3, 1)": 1.5,
    "0.1::decimal(38, 30)": 0.1,
    "12345678901234567890123456.123456789012::decimal(38, 12)": (
        "12345678901234567890123456.123456789012"
    ),
    f"uuid '{ID}'": ID,
    "'0101'::bit": "0101",
    "'\\xAA\\x00'::blob": "aa00",
    "interval '1 month -2 days 3 hours'": "1 month -2 days 03:00:00",
    "interval '-3 us'": "-00:00:00.000003",
    "'a'::enum('a', 'b')": "a",
    "'[1, 2]'::json": "[1, 2]",
    "1::variant": "1",
    "union_value(k := 1)": 1,
    "union_value(k := date 'infinity')": "infinity",
    "union_value(k := '01'::bit)": "01",
    "null": None,
    "null::time": None,
    "[time '24:00:00', null]": ["24:00:00", None],
    "[[date 'infinity'], [], null]": [["infinity"], [], None],
    "[interval '1 month']": ["1 month"],
    "array_value('1'::bit, '0'::bit)": ["1", "0"],
    "array_value(timestamp 'infinity')": ["infinity"],
    """{'a': timetz '12:00:00+02', 'b "c': {'d': [null::time], 'e': 1.5::decimal(4, 2)}}""": {
        "a": "12:00:00+02", 'b "c': {"d": [None], "e": 1.5},
    },
    "map {date 'infinity': [interval '1 day']}": [["infinity", ["1 day"]]],
    "map {1: {'x': 2::uhugeint}}": [[1, {"x": "2"}]],
}  # fmt: skip


@pytest.fixture(scope="module")
def con() -> Any:
    made = duckdb.connect()
    made.execute("SET TimeZone = 'UTC'")
    return made


def answered(con: Any, sql: str) -> pa.Table:
    found = con.sql(sql)
    whole = projection(found.columns, found.types)
    return (found.project(whole) if whole else found).to_arrow_table()


@pytest.mark.parametrize("expression", list(EDGES))
def test_the_edges_of_every_type(con: Any, expression: str) -> None:
    table = answered(con, f'SELECT {expression} AS "x ""y", 1 AS "x ""y"')
    assert table.column_names == ['x "y', 'x "y']
    [value] = plain_values(table.column(0).chunk(0))
    assert (value, type(value)) == (EDGES[expression], type(EDGES[expression]))
    assert text_of(value)


def test_times_are_those_of_python_where_it_has_them() -> None:
    rng = random.Random(5)
    moments = [datetime.min, datetime.max, datetime(1970, 1, 1), datetime(2000, 2, 29, 23, 59, 59)]
    moments += [
        datetime.min + timedelta(seconds=rng.randrange(315_537_897_600), microseconds=micros)
        for micros in (0, 1, 500_000) * 300
    ]
    column = pa.array([*moments, None], pa.timestamp("us"))
    assert plain_values(column) == [*(one.isoformat() for one in moments), None]
    zoned = pa.array(moments, pa.timestamp("us", "UTC"))
    assert plain_values(zoned) == [one.replace(tzinfo=UTC).isoformat() for one in moments]
    days = [one.date() for one in moments]
    assert plain_values(pa.array(days, pa.date32())) == [one.isoformat() for one in days]
    assert plain_values(pa.array([date(2026, 1, 1)], pa.date64())) == ["2026-01-01"]
    clocks: list[time] = [one.time() for one in moments]
    assert plain_values(pa.array(clocks, pa.time64("us"))) == [one.isoformat() for one in clocks]


KINDS = {
    "list": pa.list_(pa.int64()),
    "lists": pa.list_(pa.list_(pa.string())),
    "large": pa.large_list(pa.float64()),
    "fixed": pa.list_(pa.int32(), 2),
    "struct": pa.struct([("a", pa.int64()), ("b", pa.list_(pa.bool_()))]),
    "structs": pa.list_(pa.struct([("a", pa.struct([("c", pa.string())]))])),
}


@pytest.mark.parametrize("name", list(KINDS))
def test_nested_values_and_their_slices(name: str) -> None:
    rng = random.Random(name)
    rows = [_made(KINDS[name], rng) for _ in range(200)]
    column = pa.array(rows, KINDS[name])
    assert plain_values(column) == column.to_pylist()
    for start, length in ((0, 0), (1, 7), (50, 100), (199, 1)):
        part = column.slice(start, length)
        assert plain_values(part) == part.to_pylist()


def _made(kind: pa.DataType, rng: random.Random) -> Any:
    if rng.random() < 0.2:
        return None
    if pa.types.is_fixed_size_list(kind):
        return [_made(kind.value_type, rng) for _ in range(kind.list_size)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_made(kind.value_type, rng) for _ in range(rng.randrange(4))]
    if pa.types.is_struct(kind):
        return {field.name: _made(field.type, rng) for field in kind}
    return {"bool": True, "string": "x"}.get(str(kind), rng.randrange(9))


def test_maps_and_dictionaries_and_their_slices() -> None:
    column = pa.array([[("a", 1)], None, [], [("b", 2), ("c", None)]], pa.map_(pa.string(), "int8"))
    assert plain_values(column.slice(1)) == [None, [], [["b", 2], ["c", None]]]
    words = pa.array(["x", None, "y", "x"]).dictionary_encode()
    assert plain_values(words.slice(1)) == [None, "y", "x"]


def test_an_answer_without_such_types_is_left_as_it_is(con: Any) -> None:
    found = con.sql("SELECT 1 AS a, [1.5] AS b, {'x': 'y'} AS c, now() AS d")
    assert projection(found.columns, found.types) == ""
