from __future__ import annotations

import math

import pytest

from expdb.errors import BadInput
from expdb.monitor.non_finite import NonFinite
from expdb.monitor.rules import build_rules


def fired(values: list[float], detector: NonFinite | None = None) -> list[int]:
    detector = detector or NonFinite()
    return [
        finding.step
        for step, value in enumerate(values)
        for finding in detector.update(step, {"train/loss": value})
    ]


def test_it_fires_once_when_a_key_leaves_the_finite_numbers() -> None:
    assert fired([1.0, math.nan, math.nan, 2.0, math.inf]) == [1, 4]


def test_finite_values_of_any_size_are_fine() -> None:
    assert fired([0.0, -1e308, 1e308, 5e-324]) == []


def test_a_step_without_the_key_changes_nothing() -> None:
    detector = NonFinite()
    assert [item.step for item in detector.update(0, {"train/loss": math.nan})] == [0]
    assert detector.update(1, {"val/loss": 1.0}) == []
    assert detector.update(2, {"train/loss": math.nan}) == []


def test_the_finding_says_what_and_what_to_do() -> None:
    (found,) = NonFinite().update(7, {"train/grad_norm": -math.inf})
    assert (found.severity, found.rule) == ("critical", "non_finite")
    assert found.message == "train/grad_norm is infinite"
    assert "optim.lr" in found.runbook


def test_a_saved_state_goes_on() -> None:
    first = NonFinite()
    fired([1.0, math.nan], first)
    second = NonFinite()
    second.load_state_dict(first.state_dict())
    assert second.update(2, {"train/loss": math.nan}) == []


def test_rules_are_switched_by_name() -> None:
    assert list(build_rules({"non_finite": True})) == ["non_finite"]
    assert build_rules({"non_finite": False}) == {}
    with pytest.raises(BadInput, match="non_finit") as caught:
        build_rules({"non_finit": True})
    assert caught.value.hints == ("nearest: non_finite",)
    with pytest.raises(BadInput):
        build_rules({"non_finite": "yes"})
