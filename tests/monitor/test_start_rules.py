"""The rules over the start of a run: its init, its labels, and what its model sees (M06, M20)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.monitor.feeding import found_in, only, told

START = {"init/loss_excess": 0.05, "init/unshifted": 0.03, "init/max_steps": 200.0}
FRESH = {**START, "init/act_ratio": 1.2, "init/grad_ratio": 0.4, "init/weight_gain": 0.2}


def losses(*values: float, start: dict[str, float] | None = None) -> list[dict[str, float]]:
    rows = [{"train/loss": value} for value in values]
    rows[0] |= START if start is None else start
    return rows


@pytest.mark.parametrize(
    ("key", "fine", "bad"),
    [
        ("init/loss_excess", [0.0, 1.0, -0.5], [1.01, 4.0]),
        ("init/act_ratio", [0.1, 10.0], [0.09, 10.1]),
        ("init/grad_ratio", [0.1, 10.0], [0.09, 10.1]),
        ("init/weight_gain", [0.001, 2.0], [2.01]),
    ],
)
def test_a_start_outside_of_its_borders_is_a_bad_init(
    key: str, fine: list[float], bad: list[float]
) -> None:
    """M20: the first loss about ln V, layers alike, matrices of a usual size."""
    for value in fine:
        assert found_in([{**FRESH, key: value}] + [{"train/loss": 2.0}] * 9, only(init=True)) == []
    for value in bad:
        (one,) = found_in([{**FRESH, key: value}], only(init=True))
        assert (one.rule, one.severity, one.key, one.step) == ("init", "warn", key, 0)


def test_weights_that_have_learned_already_are_judged_by_no_border_of_an_init() -> None:
    known = {**FRESH, "init/loss_excess": -2.0, "init/act_ratio": 40.0, "init/weight_gain": 9.0}
    assert found_in([known], only(init=True)) == []
    unknown = {key: value for key, value in known.items() if key != "init/loss_excess"}
    assert found_in([unknown], only(init=True)) == []


def test_logits_that_move_with_later_tokens_are_a_leak_at_once() -> None:
    """M06: of a causal model they stay the same, but for the noise of other batch shapes."""
    for value, steps in ((0.0, []), (1e-6, []), (0.2, [0])):
        rows = [{**FRESH, "init/leak": value}, *[{"train/loss": 5.0}] * 20]
        found = found_in(rows, only(leak=True))
        assert [(one.step, one.severity) for one in found] == [(step, "critical") for step in steps]


def test_a_loss_too_good_so_early_is_a_leak() -> None:
    """M06: under 0.1 nat before 5 % of the budget."""
    falls = [5.5, 3.0, 1.0, 0.3, *[0.05] * 30]
    found = found_in(losses(*falls), only(leak=True))
    assert told(found) == [(8, "critical", "leak", "open")]
    start = {**START, "init/max_steps": 100.0}  # low from 4 on, which is before 5
    assert [one.step for one in found_in(losses(*falls, start=start), only(leak=True))] == [8]
    late = [5.5 - 0.4 * at for at in range(12)] + [0.05] * 30
    assert found_in(losses(*late), only(leak=True)) == []


@pytest.mark.parametrize(
    "start",
    [
        {},
        {"init/max_steps": 200.0},  # a loss in other units: no tokens are predicted
        {**START, "init/loss_excess": -2.0},  # weights that have learned already
        {key: value for key, value in START.items() if key != "init/max_steps"},
    ],
)
def test_a_low_loss_is_no_leak_where_that_is_not_known(start: dict[str, float]) -> None:
    assert found_in(losses(*[0.02] * 40, start=start), only(leak=True)) == []


def test_the_budget_of_the_attempt_under_way_counts() -> None:
    rows = losses(5.5, 1.0, *[0.05] * 30)
    rows[1]["init/max_steps"] = 20.0  # went on with another end: 5 % are one step
    assert found_in(rows, only(leak=True)) == []


def test_labels_at_the_place_of_their_input_are_misaligned_at_once() -> None:
    for value, num in ((0.06, 0), (0.9, 0), (1.0, 1)):
        rows = [{**FRESH, "init/unshifted": value}, *[{"train/loss": 5.0}] * 20]
        found = found_in(rows, only(label_misaligned=True))
        assert [one.severity for one in found] == ["critical"] * num


def evaluated(train: list[float], val: dict[int, float], start: Any = None) -> Any:
    rows = losses(*train, start=start)
    for step, value in val.items():
        rows[step]["val/loss"] = value
    return found_in(rows, only(label_misaligned=True))


def test_a_training_loss_of_nothing_while_validation_never_fell_is_misaligned() -> None:
    train = [5.5 * math.exp(-at / 8) for at in range(100)]
    found = evaluated(train, {0: 5.6, 50: 13.0, 99: 13.6})
    assert told(found) == [(50, "critical", "label_misaligned", "open")]
    further = evaluated(train, {0: 5.6, 50: 13.0}, {"init/loss_excess": -1.0})
    assert [one.severity for one in further] == ["warn"]
    assert evaluated(train, {0: 5.6, 20: 2.5, 50: 4.0, 99: 6.0}) == []  # learned by heart
    assert evaluated(train, {0: 5.6}) == []  # nothing to compare with yet
    assert evaluated([0.2] * 100, {0: 5.6, 50: 13.0}) == []
    assert evaluated([0.01] * 100, {0: 0.5, 50: 0.6}) == []  # a loss in other units
