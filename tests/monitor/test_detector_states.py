"""A detector that is saved and loaded goes on as if nothing had been."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expdb.monitor.detectors import DETECTORS
from expdb.monitor.engine import Monitor
from expdb.monitor.finding import Finding
from expdb.monitor.rules import BUILT_IN, build_rules
from expdb.monitor.saved import restored
from expdb.store.files import plain

SMALL: dict[str, dict[str, Any]] = {
    "spike": {"window": 8, "start": 3, "least": 4, "confirm": "y", "worse_after": 4},
    "log_spike": {"window": 8, "start": 3, "least": 4},
    "divergence": {"block": 3, "in_a_row": 2},
    "level_shift": {"reference": 6, "recent": 3, "skip": 2, "h": 2.0},
    "plateau": {"steps": 20, "blocks": 10, "rate": "y"},
    "overfit": {"window": 2, "train": "y", "block": 3},
    "threshold": {"above": 1.0, "grave_above": 5.0, "for_steps": 2, "confirm": "y", "beside": "y"},
    "flat": {"train": "y", "evals": 3, "items": 10, "block": 3},
    "halvings": {"num": 2, "within": 5, "below": 0.5},
    "init": {"start": "y"},
    "leak": {"budget": "y", "start": "y", "labels": "y", "floor": 1.5, "for_samples": 2},
    "misaligned": {"val": "y", "start": "z", "floor": 1.5, "for_samples": 2, "least": 0.1},
}
VALUES = st.one_of(
    st.floats(0.5, 2.0),
    st.floats(width=64),
    st.sampled_from([math.nan, math.inf, 0.0, -1.0, 1e308, 5e-324, 1.0]),
)
SERIES = st.lists(st.tuples(VALUES, VALUES), min_size=12, max_size=60)


def same(left: Any, right: Any) -> bool:
    return repr(left) == repr(right)  # NaN is equal to itself here, and 1 is not 1.0


@pytest.mark.parametrize("name", list(DETECTORS))
@settings(max_examples=20, deadline=None, derandomize=True)
@given(series=SERIES, data=st.data())
def test_a_detector_goes_on_from_its_state(name: str, series: Any, data: st.DataObject) -> None:
    params = SMALL.get(name, {})
    cut = data.draw(st.integers(0, len(series)))
    straight, first = DETECTORS[name]("x", **params), DETECTORS[name]("x", **params)
    expected = [one(straight, step, pair) for step, pair in enumerate(series)]
    found = [one(first, step, pair) for step, pair in enumerate(series[:cut])]
    second = DETECTORS[name]("x", **params)
    kept = json.dumps(plain(first.state_dict()), allow_nan=False)
    second.load_state_dict(restored(json.loads(kept)))
    found += [one(second, step, pair) for step, pair in enumerate(series[cut:], cut)]
    assert same(found, expected)
    if name != "stall":  # the time of its last step does not outlive the process
        assert same(second.state_dict(), straight.state_dict())


def one(detector: Any, step: int, pair: tuple[float, float]) -> Any:
    return detector.update(step, {"x": pair[0], "y": pair[1]}, step * 1000)


KEYS = ("train/loss", "train/grad_norm", "train/lr", "val/loss", "layer/a/act_dead", "amp/scale")
ROWS = st.lists(st.lists(VALUES, min_size=len(KEYS), max_size=len(KEYS)), min_size=5, max_size=40)
SECTION = {name: True for name in BUILT_IN} | {
    "stall": False,  # the time of its last step does not outlive the process
    "loss_spike": {"start": 3, "least": 4, "cooldown": 3},
    "grad_spike": {"start": 3, "least": 4, "cooldown": 3},
    "divergence": {"block": 3},
    "label_misaligned": {"for_samples": 2, "cooldown": 2},
}


@settings(max_examples=15, deadline=None, derandomize=True)
@given(rows=ROWS, data=st.data())
def test_all_rules_together_go_on_from_their_state(rows: Any, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(rows)))
    straight, first, second = (Monitor(build_rules(SECTION)) for _ in range(3))
    expected = fed(straight, rows, 0)
    found = fed(first, rows[:cut], 0)
    second.load_state_dict(json.loads(json.dumps(first.state_dict(), allow_nan=False)))
    found += fed(second, rows[cut:], cut)
    assert same(found, expected)
    assert same(second.state_dict(), straight.state_dict())


def fed(monitor: Monitor, rows: list[list[float]], first: int) -> list[Finding]:
    found: list[Finding] = []
    for step, row in enumerate(rows, first):
        found += monitor.update(step, KEYS, row, step * 1000)
    return found


def test_a_rule_that_is_another_one_begins_anew() -> None:
    rows = [[2.0 + 0.001 * (step % 7), 0.25, 1e-3, 2.0, 0.0, 1.0] for step in range(150)]
    old = Monitor(build_rules(None))
    fed(old, rows, 0)
    state = json.loads(json.dumps(old.state_dict()))
    new = Monitor(build_rules({"loss_spike": {"k": 7}}))
    new.load_state_dict(state)
    named = {rule for rule, _ in new._slots}
    assert "loss_spike" not in named
    assert {"grad_spike", "divergence", "dead_units"} <= named
    assert "loss_spike" not in new.known_to(state)
