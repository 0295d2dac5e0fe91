"""Actions of rules as data: none by themselves, and what makes no sense is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from expdb.errors import BadInput
from expdb.monitor.actions import OPTIONS
from expdb.monitor.engine import Monitor
from expdb.monitor.rules import BUILT_IN, build_rules, built_in
from expdb.query.replay import rules_in
from tests.monitor.feeding import noisy, only, rows_of

WHOLE = {
    "signal": "my/metric",
    "detector": "threshold",
    "above": 3,
    "decision": "look",
    "runbook": {"cause": "a", "checks": "b", "action": "c"},
}


def actions(value: Any, rule: str = "overfit") -> Any:
    (found,) = (one for one in build_rules({rule: {"actions": value}}) if one.name == rule)
    return found.actions


def test_no_rule_does_anything_by_itself() -> None:
    assert [name for name in BUILT_IN if built_in(name).actions] == []


def test_a_word_alone_has_its_defaults() -> None:
    words = [name for name in OPTIONS if name != "skip_step"]
    assert actions(words) == actions([{name: {}} for name in words])
    found = {one.name: dict(one.options) for one in actions(words)}
    assert found["lower_lr"] == {"by": 0.5}
    assert found["rewind"] == {"back": 100, "skip": 200, "lr_scale": 1.0, "tries": 2}
    assert found["early_stop"] == {"restore": "best"}
    assert [one.name for one in actions(["tag", {"rewind": {"tries": 1}}, "stop"])] == [
        "tag", "rewind", "stop",
    ]  # fmt: skip
    assert actions("note")[0].at == "open"
    assert actions({"note": {"at": "critical"}})[0].at == "critical"
    assert actions(None) == actions([]) == ()


def test_what_a_rule_does_is_no_part_of_what_it_finds() -> None:
    (plain,), (acting,) = (
        [one for one in build_rules({"overfit": body}) if one.name == "overfit"]
        for body in ({}, {"actions": ["pause"]})
    )
    assert plain.version == acting.version  # so that the state in a checkpoint still holds


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ("rewnd", "no action is called expdb.monitor.overfit.actions.rewnd", "nearest: rewind"),
        (["tag", "tag"], "has tag twice", ""),
        ([3], "has 3, which is no action", "known: note"),
        (3, "is 3, not a list", "known: note"),
        ({"rewind": 3}, "actions.rewind is 3, not a mapping", ""),
        ({"rewind": {"bak": 3}}, "called expdb.monitor.overfit.actions.rewind.bak", "back"),
        ({"rewind": {"back": 0}}, "rewind.back is 0, not a whole number of at least 1", ""),
        ({"rewind": {"tries": True}}, "tries is True", ""),
        ({"rewind": {"skip": 1.5}}, "skip is 1.5", ""),
        ({"lower_lr": {"by": 0}}, "by is 0, not a number from 0 to 1, not 0", ""),
        ({"lower_lr": {"by": 2}}, "by is 2", ""),
        ({"decay": {"to": float("nan")}}, "to is nan", ""),
        ({"early_stop": {"restore": "bst"}}, "restore is 'bst', not one of: best last", ""),
        ({"pause": {"at": "warn"}}, "at is 'warn', not one of: open critical", ""),
        ("skip_step", "val/loss is known after the update only", "train/loss or train/grad_norm"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(value: Any, message: str, hint: str) -> None:
    with pytest.raises(BadInput) as caught:
        actions(value)
    assert message in caught.value.message
    assert hint in " ".join(caught.value.hints)


def test_only_a_detector_that_knows_a_best_one_brings_it_back() -> None:
    with pytest.raises(BadInput, match="the detector of this rule knows none"):
        build_rules({"mine": {**WHOLE, "actions": "early_stop"}})
    assert build_rules({"mine": {**WHOLE, "actions": {"early_stop": {"restore": "last"}}}})
    assert actions("early_stop", "no_gain")


def test_a_look_ahead_says_what_will_be_found_and_leaves_nothing_behind() -> None:
    """Before each update it says whether it will fire; with and without, the same is found."""
    loss = noisy(2.0, 150)
    loss[120], loss[121], loss[140] = 5.0, 5.0, float("nan")
    rows = rows_of(loss)
    rules = build_rules(only(loss_spike=True, non_finite=True))
    plain, asked = Monitor(rules), Monitor(rules)
    said, fires = [], []
    for step, row in enumerate(rows):
        keys, values = tuple(row), tuple(row.values())
        if asked.would_fire({"loss_spike", "non_finite"}, step, keys, values):
            said.append(step)
        assert not asked.would_fire({"another"}, step, keys, values)
        found = asked.update(step, keys, values)
        assert repr(plain.update(step, keys, values)) == repr(found)
        fires += [one.step for one in found if one.state == "open"]
    assert said[:1] == fires[:1] == [121]
    assert 140 in said
    assert plain.state_dict() == asked.state_dict()


def test_the_table_of_actions_names_each_with_its_options_and_its_tests() -> None:
    root = Path(__file__).parents[2]
    text = (root / "docs/monitoring.md").read_text(encoding="utf-8").partition("\n## Actions\n")[2]
    text = text.partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    table = {row[0].strip("`"): row for row in rows}
    assert set(table) == set(OPTIONS)
    tests = (root / "tests/track/test_rule_actions_done.py").read_text(encoding="utf-8")
    for name, options in OPTIONS.items():
        said = {option: f"[{known.default:g}]" if isinstance(known.default, float | int)
                else f"[{known.default}]" for option, known in options.items()}  # fmt: skip
        assert all(f"`{one}` {default}" in table[name][1] for one, default in said.items()), name
        for test in table[name][-1].split("; "):
            assert f"def test_{test.replace(' ', '_')}(" in tests, test


def test_presets_of_actions_are_what_they_say() -> None:
    for name, rule, action in (
        ("rewind", "loss_spike", "rewind"),
        ("early_stop", "no_gain", "early_stop"),
    ):
        path = Path(__file__).parents[2] / f"conf/monitor/{name}.yaml"
        (found,) = (one for one in build_rules(rules_in(path)) if one.name == rule)
        assert [one.name for one in found.actions] == [action]
