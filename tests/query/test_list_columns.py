"""Columns and orders that a person names."""

from __future__ import annotations

import math
from typing import Any

import pytest

from expdb.errors import BadInput, ExpdbError, NotFound
from expdb.index.reader import Reader, open_reader
from expdb.query.listing import listing
from expdb.query.results import ShownColumn
from expdb.query.select import Selection, selected
from expdb.report.listing import render
from expdb.report.style import Style
from expdb.store.store import Store
from tests.query.made import make_run, write_run


def order(reader: Reader, sort: str, **more: Any) -> str:
    return " ".join(row.id[:4] for row in listing(reader, sort=sort, **more).rows)


def refusal(reader: Reader, **asked: Any) -> ExpdbError:
    with pytest.raises(ExpdbError) as error:
        listing(reader, **asked)
    return error.value


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("val/loss", "g2z8 d6v3 k3f9"),
        ("-val/loss", "e7s5 x5j2 a9m4"),
        ("objective", "g2z8 d6v3 k3f9"),
        ("-val/loss.max", "k3f9 x5j2 g2z8"),
        ("-eval/cloze/acc", "m8c2 q9r1 p2x7"),
        ("age", "x5j2 g2z8 c7t3"),
        ("-age", "k3f9 m8c2 p2x7"),
        ("-optim.lr", "t1h6 h4q8 x5j2"),
        ("schedule.kind", "f0n6 q9r1 d6v3"),
        ("experiment", "p2x7 m8c2 k3f9"),
        ("-seed", "f0n6 p2x7 a9m4"),
        ("step", "c7t3 x5j2 a9m4"),
        ("run", "a9m4 b3w9 c7t3"),
        ("state", "a9m4 c7t3 g2z8"),
        ("-val/loss.at(250)", "k3f9 x5j2 g2z8"),
    ],
)
def test_an_order_by_field_key_or_metric(cast: Reader, sort: str, first: str) -> None:
    assert order(cast, sort, limit=3) == first


def test_what_a_run_lacks_comes_last_either_way_and_nan_before_it(store: Store) -> None:
    values = {"a": 2.0, "b": math.nan, "c": 1.0, "d": None, "e": math.inf}
    for at, (name, value) in enumerate(values.items()):
        points = {"m": {0: value}} if value is not None else {"n": {0: 0.0}}
        write_run(store, make_run(name * 10, points=points, minutes=at))
    with open_reader(store) as reader:
        assert order(reader, "m") == "cccc aaaa eeee bbbb dddd"
        assert order(reader, "-m") == "eeee aaaa cccc bbbb dddd"


def test_numbers_of_a_key_come_before_its_texts(store: Store) -> None:
    for at, value in enumerate((3, "10", 0.5, None, "1e-3")):
        write_run(store, make_run("abcde"[at] * 10, config={"k": value}, minutes=at))
    write_run(store, make_run("f" * 10, config={"other": 1}, minutes=9))
    with open_reader(store) as reader:
        assert order(reader, "k") == "cccc aaaa bbbb eeee dddd ffff"
        assert order(reader, "-k") == "aaaa cccc eeee bbbb dddd ffff"


def test_an_order_and_a_filter_and_a_limit(cast: Reader) -> None:
    found = listing(cast, sort="-val/loss", where="r.seed = ?", params=[0], limit=2)
    assert [row.id[:4] for row in found.rows] == ["e7s5", "x5j2"]
    assert found.num_all == 10


def test_columns_are_added_and_taken_away(cast: Reader) -> None:
    found = listing(cast, columns=["+optim.lr,-code", "+val/loss.best -seed"], limit=1)
    assert [column.name for column in found.columns] == [
        "run", "experiment", "state", "step", "objective", "delta", "age", "optim.lr",
        "val/loss.best",
    ]  # fmt: skip
    assert found.columns[-2:] == (
        ShownColumn("optim.lr", "key"),
        ShownColumn("val/loss.best", "metric"),
    )
    assert found.rows[0].extra == {"optim.lr": 0.003, "val/loss.best": 2.583}


def test_a_list_of_its_own_has_nothing_else(cast: Reader) -> None:
    found = listing(cast, columns=["run,val/loss,host,label,'schedule.kind'"], limit=1)
    names = [(column.name, column.kind) for column in found.columns]
    assert names == [
        ("run", "usual"), ("objective", "usual"), ("host", "field"), ("label", "field"),
        ("schedule.kind", "key"),
    ]  # fmt: skip
    assert set(found.rows[0].extra) == {"host", "schedule.kind"}


def test_values_of_columns_have_their_types(store: Store) -> None:
    config = {"a": {"i": 3, "f": 1e-5, "t": "1e-5", "b": True, "n": None, "l": [1, "x"]}}
    write_run(store, make_run("aaaaaaaaaa", config=config, study="s"))
    write_run(store, make_run("bbbbbbbbbb", config={"c": 1}))
    with open_reader(store) as reader:
        asked = ["run", "a.i,a.f,a.t,a.b,a.n,a.l,study"]
        rows = {row.id: row.extra for row in listing(reader, columns=asked).rows}
        assert rows["aaaaaaaaaa"] == {
            "a.i": 3, "a.f": 1e-5, "a.t": "1e-5", "a.b": True, "a.n": None, "a.l": [1, "x"],
            "study": "s",
        }  # fmt: skip
        assert rows["bbbbbbbbbb"] == {}


def test_wrong_columns_and_orders_name_the_nearest(cast: Reader) -> None:
    error = refusal(cast, sort="-eval/cloz/acc")
    assert isinstance(error, NotFound)
    assert error.details == ("-eval/cloz/acc", " " + "^" * 13)
    assert error.hints == ("nearest: eval/cloze/acc (14 runs)",)
    assert refusal(cast, columns=["+optm.lr"]).hints == ("nearest: optim.lr",)
    assert refusal(cast, columns=["+cod"]).hints[0].startswith("nearest: code")
    assert refusal(cast, columns=["-optim.lr"]).message == "no column optim.lr is shown"
    assert isinstance(refusal(cast, sort="delta"), BadInput)
    assert refusal(cast, sort="age seed").message == "--sort takes one name, not 'age seed'"
    assert refusal(cast, sort="(").message == "a name is expected here"
    everything = ",".join(f"-{name}" for name in
                          ("run", "experiment", "seed", "state", "step", "objective", "delta",
                           "age", "code"))  # fmt: skip
    assert refusal(cast, columns=[everything]).message == "no column is left to show"


def test_how_far_a_run_was_to_come_is_a_column_and_an_order(store: Store) -> None:
    for at, (name, most) in enumerate({"a": 300, "b": None, "c": 600}.items()):
        write_run(store, make_run(name * 10, value=1.8, minutes=at, max_steps=most))
    with open_reader(store) as reader:
        assert order(reader, "-max_steps") == "cccc aaaa bbbb"
        assert order(reader, "max_steps", where="r.max_steps > 300") == "cccc"
        found = listing(reader, columns=["run,step,max_steps"], sort="max_steps")
    assert found.columns[2] == ShownColumn("max_steps", "field")
    assert [row.extra.get("max_steps") for row in found.rows] == [300, 600, None]


def test_the_size_of_a_run_is_a_column_an_order_and_a_filter(store: Store) -> None:
    sizes = {"a": 2_000, "b": 0, "c": 3_000_000}
    for at, (name, size) in enumerate(sizes.items()):
        write_run(store, make_run(name * 10, value=1.8, minutes=at, bytes=size))
    with open_reader(store) as reader:
        assert order(reader, "-size") == "cccc aaaa bbbb"
        assert order(reader, "size") == "bbbb aaaa cccc"
        found = listing(reader, columns=["run,size"], sort="-size")
        chosen = {
            said: {run[0] for run in selected(reader, Selection(where=said), now_ms=0)}
            for said in ("size > 1e6", "size <= 2000", "size = 0", "size is missing")
        }
    assert found.columns[1] == ShownColumn("size", "field")
    assert [row.extra["size"] for row in found.rows] == [3_000_000, 2_000, 0]
    assert list(chosen.values()) == [{"c"}, {"a", "b"}, {"b"}, set()]
    style = Style(now_ms=1)
    assert [line.split()[1] for line in render(found, style)[1:4]] == ["3.0", "2.0", "0"]
