"""The section `gates` of the settings: what it may hold, and words for what it may not."""

from __future__ import annotations

from typing import Any

import pytest

from expdb.errors import BadInput
from expdb.store.gates import Gate, gates_of, kept_gates
from expdb.track.begin import KEPT_SETTINGS
from expdb.track.settings import effective


def test_gates_stand_in_the_order_declared() -> None:
    section = {
        "val/loss": {"max": 1.9},
        "eval/cloze/acc": {"min": 0, "reading": "best"},
        "train/x": {"min": -1, "max": 10, "reading": "mean_last_3"},
        "train/y": {"max": 3, "min": None},
    }
    assert gates_of(section) == (
        Gate(metric="val/loss", high=1.9),
        Gate(metric="eval/cloze/acc", low=0.0, reading="best"),
        Gate(metric="train/x", low=-1.0, high=10.0, reading="mean_last_3"),
        Gate(metric="train/y", high=3.0),
    )
    assert [gate.mode for gate in gates_of(section)] == ["min", "max", "min", "min"]
    assert effective({"gates": section})["gates"] == section
    assert effective({"gates": None})["gates"] == {}
    assert {"gates", "require"} < set(KEPT_SETTINGS)


@pytest.mark.parametrize(
    ("gates", "words"),
    [
        ([], "expdb.gates is [], not a mapping; expdb.gates: {val/loss: {max: 1.9}}"),
        ({"val/loss": 1.9}, "expdb.gates.val/loss is 1.9, not a mapping"),
        ({"val/loss": {}}, "expdb.gates.val/loss has no mark"),
        ({"val/loss": {"reading": "last"}}, "expdb.gates.val/loss has no mark"),
        ({"val/loss": {"maximum": 1}}, "expdb.gates.val/loss has no key 'maximum'; its keys are"),
        ({"val/loss": {"max": "low"}}, "expdb.gates.val/loss.max is 'low', not a finite number"),
        ({"val/loss": {"max": True}}, "expdb.gates.val/loss.max is True, not a finite number"),
        ({"val/loss": {"max": float("nan")}}, "expdb.gates.val/loss.max is nan, not a finite"),
        ({"val/loss": {"min": float("-inf")}}, "expdb.gates.val/loss.min is -inf, not a finite"),
        ({"val/loss": {"min": 10**400}}, "not a finite number"),
        ({"val/loss": {"max": 1, "reading": "mean"}}, "expdb.gates.val/loss.reading is 'mean'; it"),
        ({"val/loss": {"max": 1, "reading": ["last"]}}, "reading is ['last']; it is one of: last"),
        ({"val/loss": {"min": 2, "max": 1}}, "expdb.gates.val/loss.min is 2.0, above expdb.gates"),
        ({"a": {"min": 1, "max": 2, "reading": "best"}}, "has both min and max, so none of its"),
        ({3: {"max": 1}}, "expdb.gates.3 is not the name of a metric"),
        ({"": {"max": 1}}, "is not the name of a metric"),
    ],
)  # fmt: skip
def test_a_gate_that_makes_no_sense_is_refused_by_name(gates: Any, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        effective({"gates": gates})
    assert words in "; ".join([caught.value.message, *caught.value.hints])
    assert kept_gates({"gates": gates}) == ()


def test_what_a_run_kept_may_be_nothing() -> None:
    assert kept_gates({}) == ()
    assert kept_gates({"gates": {"a": {"max": 1}}}) == (Gate(metric="a", high=1.0),)
