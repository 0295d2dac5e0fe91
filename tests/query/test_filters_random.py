"""Random filters over random runs: the SQL selects what a plain reading of the tree does."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expdb.index.build import build_in_memory
from expdb.index.overlay import lay_over
from expdb.index.reader import Reader
from expdb.index.rows import rows_of
from expdb.index.scan import Scan
from expdb.index.schema import no_tables
from expdb.model import Objective, Run, RunState
from expdb.query.filters.nodes import All, AnyOf, Name, Node, Not, Test, Value
from expdb.query.filters.parser import parse
from expdb.query.select import Selection, selected
from expdb.store.store import Store
from tests.query.made import make_run, make_store

NOW_MS = 1_795_000_000_000 + 100 * 60_000
NUMBERS = [-1, 0, 1, 2, 0.5, 1e-3, 3.0]
TEXTS = ["a", "A b", "1", "0.5", "nan", "null", "it's"]
FLOATS = [*map(float, NUMBERS), math.nan, math.inf, -math.inf]
CONFIG = st.one_of(
    st.sampled_from([*NUMBERS, *TEXTS, math.nan, math.inf, True, False, None]),
    st.just([1, "a"]),
)
ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
COUNTS = {"seed": "seed", "step": "last_step", "max_steps": "max_steps", "size": "bytes"}
KEYS = ("optim.lr", "x.y")
METRICS = ("val/loss", "eval/acc", "a b")
WORDS = {
    "state": ["finished", "running", "failed"],
    "experiment": ["a", "b c", "1"],
    "label": ["keep", "a b", "1"],
    "study": ["s", "t"],
}


@st.composite
def runs(draw: st.DrawFn, at: int) -> Run:
    config: dict[str, Any] = {"seed": draw(st.sampled_from([None, 0, 1, 2]))}
    for key in KEYS:
        if draw(st.booleans()):
            group, leaf = key.split(".")
            config[group] = {leaf: draw(CONFIG)}
    points = {
        key: dict(enumerate(draw(st.lists(st.sampled_from(FLOATS), min_size=1, max_size=2))))
        for key in METRICS
        if draw(st.booleans())
    }
    objective = Objective(
        metric=draw(st.sampled_from(METRICS)), mode=draw(st.sampled_from(["min", "max"]))
    )
    return make_run(
        f"a{at:09d}",
        experiment=draw(st.sampled_from(WORDS["experiment"])),
        seed=config["seed"],
        state=RunState(draw(st.sampled_from(WORDS["state"]))),
        minutes=draw(st.integers(0, 90)),
        max_steps=draw(st.sampled_from([None, 1, 2])),
        bytes=draw(st.sampled_from([0, 1, 2])),
        config=config,
        points=points,
        objective=draw(st.sampled_from([None, objective])),
        labels=tuple(draw(st.lists(st.sampled_from(WORDS["label"]), unique=True))),
        study=draw(st.sampled_from(["", *WORDS["study"]])),
    )


def quoted(word: str) -> str:
    return "'" + word.replace("'", "''") + "'"


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(["key", "metric", "count", "age", "word"]))
    number = st.sampled_from([str(value) for value in NUMBERS] + ["inf", "-inf"])
    ops = ["=", "!=", "<", "<=", ">", ">="]
    if kind == "key":
        name = draw(st.sampled_from(KEYS))
        value = st.one_of(number, st.sampled_from(["a", *map(quoted, TEXTS)]))
    elif kind == "metric":
        reading = draw(st.sampled_from(["", ".last", ".best", ".min", ".max", ".at(1)", ".at(2)"]))
        name = draw(st.sampled_from(["val/loss", "eval/acc", "'a b'"])) + reading
        value = number
    elif kind == "count":
        name, value = draw(st.sampled_from(sorted(COUNTS))), number
    elif kind == "age":
        name, value = "age", st.sampled_from(["1h", "30m", "'1h 20m'"])
    else:
        name = draw(st.sampled_from(sorted(WORDS)))
        value = st.sampled_from([quoted(word) for word in WORDS[name]])
        ops = ["=", "!="]
    how = draw(st.sampled_from(["op", "op", "in", "is", "~"]))
    if how == "is":
        return f"{name} is {draw(st.sampled_from(['', 'not ']))}" + draw(
            st.sampled_from(["nan", "missing"])
        )
    if how == "~" and kind in ("key", "word"):
        return f"{name} ~ {quoted(draw(st.sampled_from(['A', 'b', '1', 'n'])))}"
    if how == "in":
        values = draw(st.lists(value, min_size=1, max_size=3))
        return f"{name} {draw(st.sampled_from(['', 'not ']))}in ({', '.join(values)})"
    if kind == "key" and draw(st.integers(0, 3)) == 0:
        return f"{name} {draw(st.sampled_from(['=', '!=']))} " + draw(
            st.sampled_from(["true", "false", "null"])
        )
    return f"{name} {draw(st.sampled_from(ops))} {draw(value)}"


FILTERS = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"({two[0]} and {two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"{two[0]} or {two[1]}"),
        inner.map(lambda one: f"not ({one})"),
    ),
    max_leaves=5,
)


# ------------------------------------------------------------------- the plain reading of a tree


def truth(node: Node, run: Run) -> bool | None:
    """Return true, false, or None for neither."""
    if isinstance(node, Not):
        found = truth(node.node, run)
        return None if found is None else not found
    if isinstance(node, All | AnyOf):
        decides = isinstance(node, AnyOf)
        answers = [truth(inner, run) for inner in node.nodes]
        if decides in answers:
            return decides
        return None if None in answers else not decides
    assert isinstance(node, Test)
    if node.op in ("nan", "missing"):
        return is_what(node, run)
    answers = [one(node, value, run) for value in node.values]
    return True if True in answers else None if None in answers else False


def is_what(test: Test, run: Run) -> bool:
    value = value_of(test.name, run)
    if test.op == "missing":
        return value is MISSING or value == ()
    return isinstance(value, float) and math.isnan(value)


MISSING = object()


def value_of(name: Name, run: Run) -> Any:
    """Return what a name is of a run; labels are a tuple."""
    text, _, reading = name.text, "", name.reading
    if text in ("state", "experiment", "study"):
        return str(getattr(run, text)) or MISSING
    if text == "label":
        return run.labels
    if text in COUNTS:
        found = getattr(run, COUNTS[text])
        return MISSING if found is None else found
    if text == "age":
        return NOW_MS - run.created_at_ms
    if text in KEYS:
        rows = {
            key: (kind, shown, number) for _, key, kind, shown, number in rows_of(run)["params"]
        }
        if text not in rows:
            return MISSING
        kind, shown, number = rows[text]
        plain = {"null": None, "bool": shown == "true", "text": shown, "list": [shown]}
        return plain.get(kind, number)
    base, _, behind = text.rpartition(".")
    metric, reading = (text, reading or "last") if text in METRICS else (base, behind)
    return metric_of(metric, reading, run)


def metric_of(metric: str, reading: str, run: Run) -> Any:
    series = run.series.get(metric)
    if series is None:
        return MISSING
    if reading.startswith("at("):
        is_there = int(reading[3:-1]) == series.last_step
        return series.last if is_there else MISSING
    if reading == "best":
        mode = "max" if "acc" in metric else "min"
        if run.objective is not None and run.objective.metric == metric:
            mode = run.objective.mode
        reading = mode
    if reading == "last":
        return series.last
    found = series.min if reading == "min" else series.max
    return math.nan if found is None else found


def one(test: Test, value: Value, run: Run) -> bool | None:
    found, other = value_of(test.name, run), typed(test.name, value, test.op)
    if isinstance(found, tuple):
        return any(contains(label, other) if test.op == "~" else label == other for label in found)
    if found is MISSING:
        return None
    if test.op == "~":
        inside = found[0] if isinstance(found, list) else found
        return contains(inside, other) if isinstance(inside, str) else None
    if other is None:
        return found is None
    if isinstance(other, bool) or isinstance(found, bool):
        both = isinstance(other, bool) and isinstance(found, bool)
        return found == other if both else None
    if isinstance(found, float) and math.isnan(found):
        return None
    numbers = isinstance(found, int | float) and isinstance(other, int | float)
    if not numbers and not (isinstance(found, str) and isinstance(other, str)):
        return None
    return found == other if test.op == "=" else ORDER[test.op](found, other)


def contains(text: str, part: Any) -> bool:
    return str(part).lower() in text.lower()


def typed(name: Name, value: Value, op: str) -> Any:
    if name.text == "age":
        return {"1h": 60, "30m": 30, "1h 20m": 80}[value.text] * 60_000
    if value.quoted or op == "~":
        return value.text
    words = {"true": True, "false": False, "null": None}
    if value.text in words:
        return words[value.text]
    try:
        return float(value.text)
    except ValueError:
        return value.text


ANCHOR = make_run(
    "zzzzzzzzzz",
    experiment="b c",
    config={"optim": {"lr": 0.5}, "x": {"y": "A b"}},
    points={key: {0: 0.5, 2: 2.0} for key in METRICS},
    labels=("keep",),
    study="t",
)
"""A run that has every name, so that no filter names what no run has."""


def reader_of(store: Store, found: list[Run]) -> Reader:
    """Return a reader of runs that are only in memory."""
    tables = no_tables()
    for run in found:
        for name, rows in rows_of(run).items():
            tables[name] += rows
    con = build_in_memory(store, tables)
    lay_over(con, (), (), {})
    return Reader(store, con, refs={}, seen=Scan({}, frozenset(), 0, ()), warnings=())


@pytest.fixture(scope="module")
def any_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return make_store(tmp_path_factory.mktemp("random") / "runs")


@settings(max_examples=15)
@given(data=st.data())
def test_the_sql_selects_what_a_plain_reading_does(any_store: Store, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, 5))
    found = [ANCHOR, *(data.draw(runs(at)) for at in range(number))]
    filters = data.draw(st.lists(FILTERS, min_size=1, max_size=4))
    with reader_of(any_store, found) as reader:
        for text in filters:
            plain = {run.id for run in found if truth(parse(text), run) is True}
            assert set(selected(reader, Selection(where=text), now_ms=NOW_MS)) == plain, text


@settings(max_examples=30)
@given(text=FILTERS)
def test_a_run_meets_a_filter_or_its_opposite_or_neither(text: str) -> None:
    """The plain reading itself: `not` never makes two truths of one."""
    yes, no = truth(parse(text), ANCHOR), truth(parse(f"not ({text})"), ANCHOR)
    assert (yes, no) in ((True, False), (False, True), (None, None))
