"""An alert is said once, however often its rule fires."""

from __future__ import annotations

import json

from expdb.monitor.alert import Alert
from expdb.monitor.detector import Reading
from expdb.monitor.engine import Monitor
from expdb.monitor.rules import build_rules
from tests.monitor.feeding import found_in, noisy, only, rows_of, told

HIGH = {"train/grad_norm": 11.0}
FINE = {"train/grad_norm": 1.0}
RANGE = only(grad_range={"for": 1, "note_first": False, "cooldown": 200})


def test_five_hundred_firings_are_one_line_that_opens_and_one_that_ends() -> None:
    found = found_in([*[HIGH] * 500, FINE, FINE], RANGE)
    assert told(found) == [(0, "warn", "grad_range", "open"), (500, "info", "grad_range", "over")]
    assert [one.num for one in found] == [1, 499]
    assert found[1].opened == 0


def test_an_alert_that_comes_and_goes_within_its_cooldown_is_said_once() -> None:
    rows = [HIGH if step % 3 else FINE for step in range(190)]
    found = found_in(rows, RANGE)
    assert told(found) == [(1, "warn", "grad_range", "open"), (3, "info", "grad_range", "over")]
    again = found_in([*rows, *[FINE] * 20, HIGH], RANGE)
    assert told(again)[2:] == [(210, "warn", "grad_range", "open")]
    assert again[2].num == 125  # all that fired unsaid in between, and this one


def test_worse_is_said_within_the_cooldown_too() -> None:
    grave = {"train/grad_norm": 101.0}
    found = found_in([HIGH, FINE, HIGH, grave, FINE], RANGE)
    assert told(found) == [
        (0, "warn", "grad_range", "open"), (1, "info", "grad_range", "over"),
        (3, "critical", "grad_range", "open"), (4, "info", "grad_range", "over"),
    ]  # fmt: skip
    found = found_in([HIGH, grave, grave, FINE], RANGE)
    assert [one.state for one in found] == ["open", "worse", "over"]
    assert {one.opened for one in found} == {0}


def test_looks_have_to_be_fine_in_a_row_before_it_is_over() -> None:
    section = only(grad_range={"for": 1, "note_first": False, "clear": 3})
    found = found_in([HIGH, FINE, FINE, HIGH, FINE, FINE, FINE], section)
    assert told(found) == [(0, "warn", "grad_range", "open"), (6, "info", "grad_range", "over")]


def test_a_rule_says_no_more_than_its_cap_and_always_ends_what_it_opened() -> None:
    section = only(grad_range={"for": 1, "note_first": False, "cooldown": 0, "cap": 3})
    found = found_in([HIGH, FINE] * 50, section)
    assert [one.state for one in found] == ["open", "over", "open", "over"]


def test_remarks_come_once_in_a_cooldown() -> None:
    loss = noisy(2.0, 600)
    for step in range(150, 600, 50):
        loss[step] = 2.6
    found = found_in(rows_of(loss), only(loss_spike=True))
    assert told(found) == [(150 + 200 * at, "info", "loss_spike", "") for at in range(3)]


def test_each_metric_of_a_pattern_has_an_alert_of_its_own() -> None:
    row = {f"layer/{at}/act_dead": 0.9 for at in range(3)}
    found = found_in([row] * 9, only(dead_units=True))
    assert [one.key for one in found] == [f"layer/{at}/act_dead" for at in range(3)]


def test_the_state_of_an_alert_is_plain_and_empty_while_nothing_was_said() -> None:
    alert = Alert(clear=1, cooldown=10, cap=5)
    alert.update(0, Reading(0))
    assert alert.state_dict() == {}
    alert.update(1, Reading(2))
    kept = json.loads(json.dumps(alert.state_dict()))
    other = Alert(clear=1, cooldown=10, cap=5)
    other.load_state_dict(kept)
    assert other.update(2, Reading(0)) == alert.update(2, Reading(0))
    assert other.state_dict() == alert.state_dict()


def test_an_event_has_the_other_metrics_around_it_and_not_too_many() -> None:
    loss = [*noisy(2.0, 200), 5.0]
    extra = {f"train/a{at:02}": 1.0 for at in range(30)} | {"layer/x/grad_norm": 1.0}
    rows = [{**row, **extra} for row in rows_of(loss, [*[0.25] * 200, 9.0])]
    (found,) = (one for one in found_in(rows, only(loss_spike=True)) if one.state == "open")
    assert len(found.window) == 12
    assert all(len(points) == 16 for points in found.window.values())
    assert found.window["train/a00"][-1] == (200, 1.0)
    assert "layer/x/grad_norm" not in found.window


def test_an_event_has_value_threshold_and_the_version_of_its_rule() -> None:
    (found,) = found_in([HIGH], RANGE)
    assert (found.value, found.threshold, found.key) == (11.0, 10.0, "train/grad_norm")
    (other,) = found_in([HIGH], only(grad_range={**RANGE["grad_range"], "above": 10.5}))
    (said,) = found_in([HIGH], only(grad_range={**RANGE["grad_range"], "decision": "other words"}))
    assert found.version == said.version != other.version


def test_a_rule_looks_in_its_phases_alone() -> None:
    row = {"train/clip_fraction": 1.0}
    rising = [{**row, "train/lr": 1e-5 * step} for step in range(100)]
    assert found_in(rising, only(clip_saturated=True)) == []
    steady = [{**row, "train/lr": 1e-3} for _ in range(110)]
    assert [one.step for one in found_in([*rising, *steady], only(clip_saturated=True))] == [200]


def test_steps_of_the_warm_up_do_not_saturate_the_clip() -> None:
    """A healthy demo is clipped in 70 % of 100 steps just after its warm-up, then less and less."""
    shares = [1.0] * 30 + [max(0.2, 0.9 - 0.006 * step) for step in range(270)]
    rows = [
        {"train/clip_fraction": share, "train/lr": 1e-4 * min(step, 30)}
        for step, share in enumerate(shares)
    ]
    assert found_in(rows, only(clip_saturated=True)) == []


def test_metrics_that_are_logged_in_other_orders_and_calls_are_the_same() -> None:
    rows = rows_of([*noisy(2.0, 200), 5.0, 5.0], [*[0.25] * 201, 9.0])
    section = only(loss_spike=True, grad_spike=True, non_finite=True)
    whole = told(found_in(rows, section))
    assert whole == told(found_in([dict(reversed(row.items())) for row in rows], section))
    monitor = Monitor(build_rules(section))
    parted = []
    for step, row in enumerate(rows):
        for key, value in row.items():
            parted += monitor.update(step, (key,), (value,), step)
    assert sorted(told(parted)) == sorted(whole)


def test_a_value_of_an_earlier_step_is_passed_over() -> None:
    monitor = Monitor(build_rules(RANGE))
    assert monitor.update(10, ("train/grad_norm",), (1.0,)) == []
    assert monitor.update(9, ("train/grad_norm",), (99.0,)) == []
    assert len(monitor.update(10, ("train/grad_norm",), (99.0,))) == 1
