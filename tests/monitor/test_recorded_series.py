"""The default rules over recorded trainings of the demo: each fault fires its rules and no other.

The series are those of record_series.py; what is asserted is all that warns, by rule and severity.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from expdb.monitor.engine import Monitor
from expdb.monitor.finding import Finding
from expdb.monitor.rules import build_rules
from tests.monitor import series_files

EXPECTED: dict[str, dict[str, str]] = {
    "baseline": {},
    # ten times the rate: it learns worse, and its attention saturates
    "exp01": {"attn_logit": "warn", "attn_collapse": "warn"},
    "lr_jump": {
        "loss_spike": "critical", "grad_spike": "warn", "divergence": "critical",
        "attn_logit": "warn", "attn_collapse": "warn", "activation_growth": "warn",
    },
    "bad_batch": {"loss_spike": "warn", "grad_spike": "warn"},
    "leak": {"label_misaligned": "critical", "adam_stale": "warn"},
    "init": {"init": "warn", "attn_logit": "warn", "attn_collapse": "warn"},
    "dead": {"dead_units": "warn", "attn_collapse": "warn"},
    "moe": {"moe_imbalance": "warn"},
    "overfit": {"clip_saturated": "warn", "overfit": "warn"},
    "slow": {"data_bound": "warn"},
}  # fmt: skip
FIRST = {
    "lr_jump": {"loss_spike": 151, "grad_spike": 151, "divergence": 174},
    "bad_batch": {"loss_spike": 200, "grad_spike": 200},
    "leak": {"label_misaligned": 0},
    "init": {"init": 0},
    "overfit": {"overfit": 220},
    "slow": {"data_bound": 49},
}
"""When a rule first warns, where that is the point."""


def found_in(name: str) -> list[Finding]:
    """Return what the default rules say of a series; `stall` asks a clock and is in no replay."""
    monitor = Monitor(build_rules(None))
    found: list[Finding] = []
    for call in series_files.read(name):
        found += monitor.update(call.step, call.keys, call.values, call.time_ms)
    return found


def worst(found: list[Finding]) -> dict[str, str]:
    """Return each rule that warned with the worst that it said."""
    out: dict[str, str] = {}
    for one in found:
        if one.severity != "info" and out.get(one.rule) != "critical":
            out[one.rule] = one.severity
    return out


def test_every_case_that_is_recorded_is_expected() -> None:
    recorded = {path.stem for path in series_files.FOLDER.glob("*.parquet")}
    assert recorded == set(EXPECTED)


def test_the_series_are_small() -> None:
    sizes = [path.stat().st_size for path in series_files.FOLDER.glob("*.parquet")]
    assert sum(sizes) < 400_000


@pytest.mark.parametrize("name", list(EXPECTED))
def test_each_fault_of_the_demo_fires_its_rules_and_no_other(name: str) -> None:
    assert worst(found_in(name)) == EXPECTED[name]


@pytest.mark.parametrize("name", list(FIRST))
def test_a_fault_is_seen_when_it_begins(name: str) -> None:
    found = [one for one in found_in(name) if one.severity != "info"]
    first = {rule: min(one.step for one in found if one.rule == rule) for rule in FIRST[name]}
    assert first == FIRST[name]


def test_a_bad_batch_is_over_as_soon_as_the_loss_is_back() -> None:
    found = [one for one in found_in("bad_batch") if one.rule == "loss_spike"]
    assert [(one.step, one.state) for one in found if one.state] == [(200, "open"), (203, "over")]


def test_the_docs_list_what_fires() -> None:
    text = (Path(__file__).parents[2] / "docs/monitoring.md").read_text(encoding="utf-8")
    for name, rules in EXPECTED.items():
        said = ", ".join(f"`{rule}` {severity}" for rule, severity in rules.items()) or "nothing"
        assert f"| `{name}` | {said} |" in text
