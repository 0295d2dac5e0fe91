"""The gates of the detectors: few false events, and nearly every spike and NaN found."""

from __future__ import annotations

import math

import pytest

from bench.detectors import real
from bench.detectors.curves import CLASSES, FIRST_REPORTED, TUNING, bloom, make
from bench.detectors.rivals import OURS, RIVALS
from bench.detectors.score import Score, events, score
from expdb.monitor.engine import Monitor
from expdb.monitor.rules import build_rules

LOGS = {"llmc_19560/main.log": (3, 19_560), "nanogpt_muon_6200/train.log": (1, 6_200)}
"""Log -> spikes of the loss at most, steps."""


def scored(kind: str, num: int, rule: str = OURS) -> Score:
    seeds = range(FIRST_REPORTED, FIRST_REPORTED + num)
    return score((RIVALS[rule](), make(kind, seed)) for seed in seeds)


def gates(num: int) -> None:
    benign = [scored(kind, num) for kind in ("clean", "outliers")]
    for found in benign:
        assert found.false_10k <= 0.5
    for kind in ("spike", "nan"):
        found = scored(kind, num)
        assert found.recall >= 0.95
        assert found.delay is not None
        assert found.delay <= 1


def test_few_false_events_and_nearly_every_spike_and_nan() -> None:
    gates(5)


@pytest.mark.soak
def test_the_same_over_a_hundred_curves_of_each_class() -> None:
    gates(100)
    assert scored("slow divergence", 100).recall >= 0.95
    for kind in ("mixture", "rounded", "quiet", "noisy"):
        assert scored(kind, 100).false_10k <= 1.0, kind


def test_ten_per_cent_off_the_mean_is_in_alarm_all_the_time_and_blind_to_nan() -> None:
    curve = make("clean", FIRST_REPORTED, 1000)
    rule = RIVALS["mean of all, 10 %"]()
    rows = zip(curve.loss, curve.norm, strict=True)
    alarms = sum(rule(step, loss, norm) for step, (loss, norm) in enumerate(rows))
    assert alarms > 500
    assert not rule(1000, math.nan, 1.0)


def test_curves_are_the_same_for_a_seed_and_those_for_tuning_are_others() -> None:
    for kind in CLASSES:
        one = make(kind, 1, 400 if kind in ("clean", "outliers", "rounded") else 1200)
        again = make(kind, 1, len(one.loss))
        assert repr(one) == repr(again)
        assert len(one.loss) == len(one.norm)
    assert max(TUNING) < FIRST_REPORTED


def test_events_are_merged_and_a_fault_may_be_seen_a_little_early() -> None:
    curve = make("clean", 0, 300)
    alarms = {10, 15, 40, 97}
    assert events(lambda step, *_: step in alarms, curve) == [10, 40, 97]
    spiked = type(curve)(kind="spike", loss=curve.loss, norm=curve.norm, fault=100)
    found = score([(lambda step, *_: step in alarms, spiked)])
    assert (found.num_false, found.num_found, found.delays) == (2, 1, (-3,))


@pytest.mark.parametrize("seed", range(3))
def test_the_first_spike_of_a_model_of_176_billion(seed: int) -> None:
    first, rows = bloom(seed)
    monitor = Monitor(build_rules(None))
    opened: dict[str, int] = {}
    for step, (loss, norm) in enumerate(rows, first):
        for one in monitor.update(step, ("train/loss", "train/grad_norm"), (loss, norm), step):
            if one.state == "open":
                opened.setdefault(one.rule, one.step)
    assert opened["grad_spike"] == 31215
    assert opened["loss_spike"] <= 31218
    assert set(opened) == {"grad_spike", "loss_spike"}


@pytest.mark.parametrize("name", list(LOGS))
def test_real_logs_of_healthy_runs_have_few_spikes_and_nothing_critical(name: str) -> None:
    try:
        rows = list(real.rows(name))
    except FileNotFoundError:
        pytest.skip(f"no public files: {real.FOLDER} does not have {name}")
    most, num_steps = LOGS[name]
    assert len(rows) == num_steps
    found = [one for one in real.found(name) if one.severity != "info"]
    assert sum(one.rule == "loss_spike" for one in found) <= most
    assert [one for one in found if one.severity == "critical"] == []
    assert {one.rule for one in found} <= {"loss_spike", "grad_spike"}
    assert sum(one.rule == "grad_spike" and one.state == "open" for one in found) <= 3
