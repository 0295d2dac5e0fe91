"""Rules are data: what is built in is whole, and what a config says is looked at before a start."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from expdb.errors import BadInput
from expdb.monitor.detectors import DETECTORS, parameters
from expdb.monitor.engine import Monitor
from expdb.monitor.rule import Rule
from expdb.monitor.rules import BUILT_IN, build_rules, built_in

CONF = Path(__file__).parents[2] / "conf" / "monitor"
OFF = {"loss_jump", "grad_range", "gpu_idle", "loss_off_mean", "no_gain"}
WHOLE = {
    "signal": "my/metric",
    "detector": "threshold",
    "above": 3,
    "for": 2,
    "decision": "look",
    "runbook": {"cause": "a", "checks": "b", "action": "c"},
}


def by_name(section: Any) -> dict[str, Rule]:
    return {rule.name: rule for rule in build_rules(section)}


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_every_built_in_rule_has_a_decision_and_a_runbook(name: str) -> None:
    rule = built_in(name)
    assert all((rule.decision, rule.cause, rule.checks, rule.action, rule.command))
    assert rule.command.startswith("expdb ")


@pytest.mark.parametrize("missing", ["decision", "runbook", "cause", "checks", "action"])
def test_a_rule_without_one_is_refused(missing: str) -> None:
    body = {**WHOLE, "runbook": dict(WHOLE["runbook"])}  # type: ignore[call-overload]
    (body if missing in body else body["runbook"]).pop(missing)
    with pytest.raises(BadInput, match=f"expdb.monitor.mine.* has no {missing}"):
        build_rules({"mine": body})


def test_all_but_the_named_thresholds_are_on_by_themselves() -> None:
    assert set(by_name(None)) == set(BUILT_IN) - OFF == set(by_name({})) == set(by_name(True))
    assert build_rules(False) == ()


def test_a_section_switches_changes_and_adds() -> None:
    rules = by_name({"non_finite": False, "loss_jump": True, "loss_spike": {"k": 8}, "mine": WHOLE})
    assert "non_finite" not in rules
    assert "loss_jump" in rules
    assert rules["loss_spike"].params["k"] == 8.0
    assert rules["loss_spike"].params["confirm"] == "train/grad_norm"
    assert rules["loss_spike"].version != built_in("loss_spike").version
    assert rules["mine"].params == {"above": 3.0, "for_steps": 2}
    assert list(rules)[-1] == "mine"
    cause = by_name({"loss_spike": {"runbook": {"cause": "mine"}}})["loss_spike"]
    assert (cause.cause, cause.checks) == ("mine", built_in("loss_spike").checks)


@pytest.mark.parametrize(
    ("section", "message", "hint"),
    [
        ({"non_finit": True}, "no rule is called expdb.monitor.non_finit", "nearest: non_finite"),
        ({"mine": {"signal": "x"}}, "no rule is called expdb.monitor.mine", "names its detector"),
        ({"loss_spike": "yes"}, "expdb.monitor.loss_spike is 'yes'", "true, false"),
        ({"loss_spike": {"kk": 8}}, "called expdb.monitor.loss_spike.kk", "nearest: k"),
        ({"loss_spike": {"k": "8"}}, "loss_spike.k is '8', not a number", ""),
        ({"loss_spike": {"k": True}}, "loss_spike.k is True, not a number", ""),
        ({"loss_spike": {"window": 0}}, "loss_spike.window is 0", ""),
        ({"loss_spike": {"window": 1.5}}, "loss_spike.window is 1.5", ""),
        ({"loss_spike": {"k": float("nan")}}, "loss_spike.k is nan", ""),
        ({"loss_spike": {"severity": "critcal"}}, "severity is 'critcal'", "nearest: critical"),
        ({"loss_spike": {"phase": ["stabel"]}}, "phase has 'stabel'", "nearest: stable"),
        ({"loss_spike": {"cooldown": -1}}, "cooldown is -1", ""),
        ({"loss_spike": {"detector": "plateau"}}, "has another detector", "a name of its own"),
        ({"loss_spike": {"runbook": {"why": "x"}}}, "runbook.why", "cause"),
        ({"loss_spike": {"command": "rm {home}"}}, "command has {home}", "known: {run}"),
        ({"mine": {**WHOLE, "detector": "spikes"}}, "detector is 'spikes'", "nearest: spike"),
        ({"mine": {**WHOLE, "signal": []}}, "mine has no signal", "signal: train/loss"),
        ({"mine": {**WHOLE, "signal": 3}}, "mine.signal is 3", ""),
        ([1], "expdb.monitor is list", "loss_spike"),
    ],
)
def test_what_is_wrong_is_said_with_the_nearest_name(section: Any, message: str, hint: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)) as caught:
        build_rules(section)
    assert hint in " ".join(caught.value.hints)


def test_every_detector_can_be_made_with_what_a_rule_may_say() -> None:
    for name, made in DETECTORS.items():
        known = parameters(name)
        assert made("x", **known).keys[0] == "x"
        assert all(isinstance(value, bool | int | float | str) for value in known.values())


def test_the_presets_of_the_project_compose() -> None:
    from omegaconf import OmegaConf

    for path in sorted(CONF.glob("*.yaml")):
        section: Any = OmegaConf.to_container(OmegaConf.load(path))
        section.pop("defaults", None)
        section = section["monitor"] if path.stem == "off" else section
        assert build_rules(section) or path.stem == "off", path
    report = OmegaConf.to_container(OmegaConf.load(CONF / "seed_report.yaml"))
    assert isinstance(report, dict)
    assert set(report) == {
        "defaults", "loss_jump", "grad_range", "grad_vanish", "gpu_idle", "attn_logit",
    }  # fmt: skip


def test_no_rule_is_silent_for_want_of_its_signal() -> None:
    """A built-in rule fires on some series of its own metric; else its pattern is a slip."""
    monitor = Monitor(build_rules({name: True for name in BUILT_IN}))
    signals = [one for rule in monitor.rules for one in rule.signal]
    keys = tuple(sorted({one.replace("*", "h.1") for one in signals}))
    monitor.update(0, keys, [1.0] * len(keys))
    assert {rule for rule, _ in monitor._slots} == set(BUILT_IN)


def test_the_table_of_rules_names_each_with_its_severity_decision_and_a_test() -> None:
    root = Path(__file__).parents[2]
    text = (root / "docs/monitoring.md").read_text(encoding="utf-8").partition("\n## Rules\n")[2]
    text = text.partition("\n## ")[0]
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    table = {re.findall("`([a-z_]+)`", row[0])[0]: row for row in rows}
    tests = "".join(
        path.read_text(encoding="utf-8") for path in (root / "tests/monitor").glob("*.py")
    )
    for name in BUILT_IN:
        rule, row = built_in(name), table[name]
        assert (row[3], row[4]) == (rule.severity, rule.decision)
        assert all(f"`{one}`" in row[1] for one in rule.signal)
        shown = row[5].removesuffix(" |").replace(" ", "_")
        assert f"def test_{shown}(" in tests, shown
