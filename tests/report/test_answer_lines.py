from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from expdb.report import answer
from expdb.report.style import Style

TABLE = pa.table(
    {
        "run": ["k3f9x2m7qd", "t1h6y3cz8r"],
        "experiment": ["baseline", "exp01 with a name that goes on and on and on and on and on"],
        "value": [0.1 + 0.2, math.nan],
        "n": pa.array([18_420, None], pa.int64()),
        "labels": [["keep", "a b"], []],
        "ok": [True, None],
    }
)


@pytest.mark.parametrize("width", [100, 50])
def test_a_table_on_a_terminal(golden, width):
    style = Style(color=False, ascii=False, width=width, terminal=True)
    golden(f"sql-{width}.txt", answer.render(TABLE, style))


def test_columns_leave_from_the_right_and_are_counted():
    style = Style(color=False, ascii=False, width=50, terminal=True)
    assert answer.num_left_out(TABLE, style) == 3
    assert answer.num_left_out(TABLE, Style(width=200)) == 0


def test_values_of_every_kind_are_what_json_has():
    table = pa.table(
        {
            "a": pa.array([Decimal("3"), Decimal("2.5")], pa.decimal128(10, 1)),
            "b": [b"\x00\xff", None],
            "c": [datetime.datetime(2026, 11, 28, 14, 3), None],
            "d": [{"x": 1, "y": [1.5]}, None],
            "e": [datetime.timedelta(seconds=90), None],
        }
    )
    assert list(answer.values(table)) == [
        (3, "00ff", "2026-11-28T14:03:00", {"x": 1, "y": [1.5]}, 90.0),
        (2.5, None, None, None, None),
    ]


def test_names_of_columns_are_made_unique():
    assert answer.unique(["a", "a", "a_1", "a"]) == ["a", "a_1", "a_1_1", "a_2"]
