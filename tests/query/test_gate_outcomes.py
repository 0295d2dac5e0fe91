"""Gates: the three hand cases, the borders, and where the half-width comes from."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expdb.index.reader import open_reader
from expdb.model import RunState
from expdb.query.compare import comparison
from expdb.query.gates import (
    GateOutcome,
    GateResult,
    Summary,
    compared_results,
    group_results,
    outcome_of,
    own_results,
    value_of,
)
from expdb.query.seed_compare import compare_seeds
from expdb.store.gates import Gate
from expdb.store.resolve import Resolved
from expdb.store.store import Store
from tests.query.made import make_run, write_run

PASS, FAIL = GateOutcome.PASS, GateOutcome.FAIL
UNCLEAR, MISSING = GateOutcome.INCONCLUSIVE, GateOutcome.MISSING
Z95 = 1.959963984540054
LOSS = Gate(metric="val/loss", high=1.9)
finite = st.floats(allow_nan=False, allow_infinity=False)
half_widths = st.none() | st.floats(min_value=0, max_value=1e6)


@pytest.mark.parametrize(
    ("gate", "value", "half", "outcome"),
    [
        (LOSS, 1.85, None, PASS),
        (LOSS, 2.1, None, FAIL),
        (LOSS, 1.9, None, PASS),
        (LOSS, math.nextafter(1.9, 2), None, FAIL),
        (LOSS, 1.9, 0.0, PASS),
        (LOSS, 1.85, 0.016, PASS),
        (LOSS, 2.1, 0.016, FAIL),
        (LOSS, 1.902, 0.016, UNCLEAR),
        (LOSS, 1.899, 0.016, UNCLEAR),
        (LOSS, 1.9, 1e-12, UNCLEAR),
        (Gate(metric="a", high=2.0), 1.5, 0.5, UNCLEAR),  # the mark at the edge is within
        (Gate(metric="a", high=2.0), 2.5, 0.5, UNCLEAR),
        (Gate(metric="a", low=0.4), 0.46, None, PASS),
        (Gate(metric="a", low=0.4), 0.35, 0.02, FAIL),
        (Gate(metric="a", low=0.4), 0.41, 0.02, UNCLEAR),
        (Gate(metric="a", low=1.0, high=2.0), 1.5, 0.1, PASS),
        (Gate(metric="a", low=1.0, high=2.0), 1.05, 0.1, UNCLEAR),
        (Gate(metric="a", low=1.0, high=2.0), 0.5, 0.1, FAIL),
        (Gate(metric="a", low=1.0, high=2.0), 1.5, 9.0, UNCLEAR),
        (Gate(metric="a", low=1.0, high=1.0), 1.0, None, PASS),
        (LOSS, math.nan, None, FAIL),
        (LOSS, math.inf, 0.1, FAIL),
        (LOSS, -math.inf, 0.1, FAIL),
        (LOSS, None, 0.1, MISSING),
    ],
)  # fmt: skip
def test_hand_cases(gate: Gate, value: float | None, half: float | None, outcome: str) -> None:
    assert outcome_of(gate, value, half) is outcome


@given(value=finite, mark=finite, half=half_widths)
def test_a_mark_has_two_sides(value: float, mark: float, half: float | None) -> None:
    upper = outcome_of(Gate(metric="a", high=mark), value, half)
    lower = outcome_of(Gate(metric="a", low=-mark), -value, half)
    assert upper is lower
    if not half:
        assert (upper is PASS) == (value <= mark)
    elif upper is PASS:
        assert value < mark
    elif upper is FAIL:
        assert value > mark
    else:
        assert abs(value - mark) <= half


@given(value=st.sampled_from([math.nan, math.inf, -math.inf]), mark=finite, half=half_widths)
def test_what_is_not_finite_never_passes(value: float, mark: float, half: float | None) -> None:
    for gate in (Gate(metric="a", high=mark), Gate(metric="a", low=mark)):
        assert outcome_of(gate, value, half) is FAIL


def test_each_reading_takes_its_value() -> None:
    whole = Summary(9, 0, 2.0, 1.0, 5.0, 3.0)

    def read(summary: Summary | None, reading: str, **marks: float) -> float | None:
        gate: Any = Gate(metric="a", reading=reading, **marks)  # type: ignore[arg-type]
        return value_of(gate, summary)

    wanted = {"last": 2.0, "mean_last_3": 3.0, "best": 1.0, "min": 1.0, "max": 5.0}
    assert {name: read(whole, name, high=1) for name in wanted} == wanted
    assert read(whole, "best", low=1) == 5.0
    broken = whole._replace(nonfinite=1)
    assert math.isnan(read(broken, "max", high=9) or 0)
    assert math.isnan(read(broken, "min", low=0) or 0)
    assert (read(broken, "min", high=9), read(broken, "max", low=0)) == (1.0, 5.0)
    assert read(broken, "best", high=9) == 1.0
    assert read(None, "last", high=1) is None
    assert read(Summary(3, 3, math.nan, None, None, math.nan), "last", high=1) is None
    assert math.isnan(read(Summary(3, 1, math.nan, 1.0, 2.0, math.nan), "last", high=1) or 0)


def settings(**gates: Any) -> dict[str, Any]:
    return {"seed_key": "seed", "gates": {"val/loss": {"max": 1.9}, **gates}}


def said(results: tuple[GateResult, ...]) -> list[tuple[str, float | None, str]]:
    return [(one.gate.metric, one.value, str(one.outcome)) for one in results]


def test_a_run_is_held_against_its_own_gates(store: Store) -> None:
    acc = {"min": 0.4, "reading": "best"}
    points = {"eval/cloze/acc": {100: 0.47, 300: 0.41}, "eval/cloze/acc_stderr": {300: 0.02}}
    more = {"eval/cloze/acc": acc, "nothing": {"max": 1}, "bad": {"max": 1}}
    nan = {"bad": {1: math.nan, 2: math.nan}}
    run = make_run("a" * 10, value=1.85, points=points | nan, settings=settings(**more))
    write_run(store, run)
    write_run(store, make_run("b" * 10, value=1.0))
    with open_reader(store) as reader:
        found = own_results(reader, ["a" * 10, "b" * 10, "c" * 10])
    assert list(found) == ["a" * 10]
    loss, cloze, nothing, bad = found["a" * 10]
    assert (loss.value, loss.half_width, loss.outcome) == (1.85, None, PASS)
    assert cloze.value == 0.47
    assert cloze.half_width == pytest.approx(Z95 * 0.02)
    assert cloze.outcome is PASS
    assert (nothing.value, nothing.outcome) == (None, MISSING)
    assert (bad.value, bad.outcome) == (None, MISSING)
    assert [one.is_missed for one in found["a" * 10]] == [False, False, True, True]


def test_noise_is_the_declared_else_that_of_three_seeds_read_alike(store: Store) -> None:
    values = (1.880, 1.896, 1.888)
    gates = settings(**{"train/loss": {"max": 1.0, "reading": "mean_last_3"}})
    for seed, value in enumerate(values):
        points = {"train/loss": {1: value, 2: value, 3: value}}
        run = make_run(f"a{seed}" * 5, seed=seed, value=value, points=points, settings=gates)
        write_run(store, run)
    declared = gates | {"noise": {"val/loss": 0.001, "train/loss": 0.5}}
    write_run(store, make_run("b" * 10, experiment="exp01", value=1.888, settings=declared,
                              points={"train/loss": {1: 1.5}}))  # fmt: skip
    with open_reader(store) as reader:
        found = own_results(reader, ["a0" * 5, "b" * 10])
    loss, train = found["a0" * 5]
    assert loss.half_width == pytest.approx(Z95 * 0.008)
    assert loss.outcome is PASS  # 1.880 + 0.0157 is below 1.9
    assert (train.half_width, train.outcome) == (None, FAIL)  # measured by last values alone
    loss, train = found["b" * 10]
    assert loss.half_width == pytest.approx(Z95 * 0.001)
    assert (loss.outcome, train.outcome) == (PASS, UNCLEAR)
    assert train.half_width == pytest.approx(Z95 * 0.5)


def test_compare_judges_all_by_the_gates_of_the_newest(store: Store) -> None:
    old = make_run("a" * 10, value=2.1, settings={"gates": {"val/loss": {"max": 9}}})
    new = make_run("b" * 10, experiment="exp01", value=1.85, minutes=5, settings=settings())
    for run in (old, new):
        write_run(store, run, points={"val/loss": {0: 5.5, 150: 2.3, 300: 1.0}})
    at = [Resolved(run=run.id, step=None, said="", is_literal=True) for run in (old, new)]
    with open_reader(store) as reader:
        (row,) = compared_results(reader, [reader.run(run.id) for run in (old, new)])
        assert said(row) == [("val/loss", 2.1, "fail"), ("val/loss", 1.85, "pass")]
        assert comparison(reader, at).gates == (row,)
        assert comparison(reader, at, step=150).gates == ()


def test_a_group_is_judged_by_its_mean_with_its_half_width(store: Store) -> None:
    for seed, value in enumerate((1.880, 1.896, 1.888)):
        run = make_run(f"a{seed}" * 5, seed=seed, value=value, settings=settings(), minutes=seed)
        write_run(store, run)
    one = make_run("b" * 10, experiment="exp01", value=2.5, config={"lr": 1}, settings={})
    write_run(store, one)
    groups = [["a0" * 5, "a1" * 5, "a2" * 5], ["b" * 10], []]
    with open_reader(store) as reader:
        ((three, single, none),) = group_results(reader, groups)
        compared = compare_seeds(reader, ["a0" * 5, "b" * 10])
        two = group_results(reader, [["a1" * 5, "a2" * 5]])
    assert three.value == pytest.approx(1.888)
    assert three.half_width == pytest.approx(4.30265273 * 0.008 / math.sqrt(3))
    assert (three.outcome, three.num_seeds) == (UNCLEAR, 3)
    assert (single.value, single.outcome, single.num_seeds) == (2.5, FAIL, 1)
    assert (none.value, none.outcome) == (None, MISSING)
    assert compared.gates == ((three, single),)
    assert two[0][0].half_width == pytest.approx(Z95 * 0.008 / math.sqrt(2))


def test_a_gate_finds_its_layer_among_many(store: Store) -> None:
    points = {f"layer/{at}/rms": {1: float(at)} for at in range(150)}
    gate = {"gates": {"layer/7/rms": {"max": 5}}}
    run = make_run("a" * 10, value=1.0, points=points, settings=gate, state=RunState.RUNNING)
    write_run(store, run)
    with open_reader(store) as reader:
        found = own_results(reader, ["a" * 10])
    assert said(found["a" * 10]) == [("layer/7/rms", 7.0, "fail")]
