"""When an action of a rule is due: once for an alert, in the order of the list."""

from __future__ import annotations

import math
from typing import Any

import pytest

from expdb.monitor.finding import Finding
from expdb.monitor.rules import build_rules
from expdb.track.due import Actions

RULES = {
    "loss_spike": {"actions": ["tag", {"rewind": {"at": "critical"}}, "stop"]},
    "divergence": {"actions": {"pause": {"at": "critical"}}},
}


def finding(rule: str, state: Any, severity: Any, step: int = 7) -> Finding:
    return Finding(
        step=step, severity=severity, rule=rule, key="train/loss", state=state, message="",
        value=math.nan, threshold=math.nan, version="", opened=5, num=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "state", "severity", "due"),
    [
        ("loss_spike", "open", "warn", ["tag", "stop"]),
        ("loss_spike", "open", "critical", ["tag", "rewind", "stop"]),
        ("loss_spike", "worse", "critical", ["rewind"]),
        ("loss_spike", "over", "info", []),
        ("loss_spike", "", "info", []),
        ("divergence", "open", "warn", []),
        ("divergence", "worse", "critical", ["pause"]),
        ("grad_spike", "open", "warn", []),
    ],
)
def test_an_alert_brings_about_what_its_rule_says(
    rule: str, state: Any, severity: Any, due: list[str]
) -> None:
    actions = Actions(build_rules(RULES))
    actions.found(finding(rule, state, severity))
    found = actions.take()
    assert [one.action.name for one in found] == due
    assert {(one.step, one.opened) for one in found} <= {(7, 5)}
    assert actions.take() == []


def test_one_rule_that_fires_over_many_metrics_acts_once() -> None:
    actions = Actions(build_rules(RULES))
    for step in (7, 8, 9):
        actions.found(finding("loss_spike", "open", "warn", step))
    assert [(one.action.name, one.step) for one in actions.take()] == [("tag", 7), ("stop", 7)]
    actions.found(finding("loss_spike", "open", "warn"))
    actions.clear()
    assert actions.take() == []
