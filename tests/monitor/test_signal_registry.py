"""Every signal says what it is for (M01, M02), and the formulas give their right values."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from expdb.errors import BadInput
from expdb.monitor import formulas
from expdb.monitor.phases import Interval, Phases, on_ladder
from expdb.monitor.signals import FAMILIES, registry, require_whole, signal_of


def test_every_family_of_the_documents_has_signals():
    assert {one.family for one in registry()} == set(FAMILIES)


def test_every_entry_is_whole():
    require_whole(registry())
    assert all(one.decision.strip() and one.unit.strip() for one in registry())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"decision": " "}, "has no decision"),
        ({"unit": ""}, "has no unit"),
        ({"family": "mood"}, "the family 'mood'"),
        ({"direction": "up"}, "the direction 'up'"),
        ({"cost": "dear"}, "the cost 'dear'"),
    ],
)
def test_an_entry_that_lacks_something_is_refused(change, words):
    with pytest.raises(BadInput, match=words):
        require_whole([replace(registry()[0], **change)])
    with pytest.raises(BadInput, match="is there twice"):
        require_whole([registry()[0], registry()[0]])


@pytest.mark.parametrize(
    ("key", "pattern"),
    [
        ("train/loss", "train/loss"),
        ("train/moe_max_vio", "train/moe_*"),
        ("layer/blocks.0.attn/grad_norm", "layer/*/grad_norm"),
        ("layer/embed/emb_rank", "layer/*/emb_rank"),
        ("group/mlp/param_norm", "group/*/param_norm"),
        ("val/loss", "val/loss"),
        ("val/pydoc/loss", "val/*/loss"),
        ("eval/ifeval/prompt_strict", "eval/ifeval/*"),
        ("eval/cloze/acc", "eval/*"),
    ],
)
def test_a_name_has_one_entry(key, pattern):
    assert signal_of(key).pattern == pattern


def test_a_name_of_somebody_else_has_none():
    assert signal_of("mine/own") is None
    assert signal_of("layer/head") is None


def test_perplexity_is_of_sums_never_a_mean_of_exponentials():
    assert formulas.perplexity(10 + 2, 5 + 5) == pytest.approx(3.3201, abs=1e-4)
    assert formulas.bits_per_byte(math.log(2), 1) == 1.0
    assert math.isnan(formulas.perplexity(0.0, 0))
    assert math.isnan(formulas.bits_per_byte(1.0, 0))
    assert formulas.perplexity(1e6, 1) == math.inf


def test_load_of_experts():
    assert formulas.max_violation([3] * 8) == 0.0
    assert formulas.max_violation([24, 0, 0, 0, 0, 0, 0, 0]) == 7.0
    assert formulas.load_cv([3] * 8) == 0.0
    assert formulas.load_cv([4, 0]) == 1.0
    assert formulas.num_dead([1000, 1000, 1, 1000]) == 1
    assert formulas.entropy_share([2.0] * 8) == pytest.approx(1.0)
    assert formulas.entropy_share([1.0, 0.0, 0.0]) == 0.0
    for undefined in (formulas.max_violation([0, 0]), formulas.load_cv([0, 0])):
        assert math.isnan(undefined)


def test_three_equal_singular_values_are_a_rank_of_three():
    assert formulas.effective_rank([5.0, 5.0, 5.0, 0.0]) == pytest.approx(3.0)
    assert math.isnan(formulas.effective_rank([0.0]))


def test_noise_scale_of_a_known_gradient():
    """Gradients of n samples: mean G plus noise of variance S / n, so the scale is S / |G|^2."""
    draw = random.Random(3).gauss
    dims, mean, std = 40, 0.5, 2.0
    found = formulas.NoiseScale(decay=1.0 - 1e-9)
    for _ in range(400):
        parts = [[mean + draw(0, std / math.sqrt(8)) for _ in range(dims)] for _ in range(4)]
        whole = [sum(one) / 4 for one in zip(*parts, strict=True)]
        small_sq, big_sq = (sum(g * g for g in one) for one in (parts[0], whole))
        found.update(small_sq=small_sq, small=8, big_sq=big_sq, big=32)
    assert found.value == pytest.approx(std**2 / mean**2, rel=0.1)
    same = formulas.NoiseScale()
    assert math.isnan(same.update(small_sq=2.0, small=8, big_sq=1.0, big=8))


def test_phases_follow_the_rate():
    rates = [0.1, 0.2, 0.3, 0.3, 0.3, 0.1, 0.1, 0.03]
    phases = Phases()
    assert [phases.update(one) for one in rates] == [
        "warmup", "warmup", "warmup", "stable", "stable", "decay", "decay", "decay",
    ]  # fmt: skip
    assert Phases(fixed="finetune").update(0.1) == "finetune"
    from_zero = Phases()
    assert [from_zero.update(rate) for rate in (0.0, 0.1, 0.1)] == ["warmup", "warmup", "stable"]
    resumed = Phases(highest=0.3)
    assert [resumed.update(one) for one in (0.1, 0.1)] == ["decay", "decay"]


def test_warm_up_is_sampled_at_every_step_and_the_rest_at_every_tenth():
    """T02: 100 + n / 10 samples."""
    interval = Interval(every={"warmup": 1, "stable": 10, "decay": 10}, budget_pct=None)
    phases, taken = Phases(), []
    for step in range(1100):
        interval.phase = phases.update(min(1.0, (step + 1) / 100))
        if interval.is_due(step):
            taken.append(step)
    assert len(taken) == 100 + 100
    assert taken[100:103] == [100, 110, 120]


def test_a_dear_sample_lengthens_the_interval_and_a_cheap_one_brings_it_back():
    interval = Interval(every={"stable": 10}, budget_pct=2.0, phase="stable")
    interval.stepped(1.0, 0.0)
    interval.sampled(9.0)  # the first one imports and allocates
    interval.sampled(0.1)
    assert interval.now() == 10  # 0.1 s in 10 s is 1 %
    for _ in range(3):
        interval.sampled(5.0)
    assert 100 <= interval.now() <= 500
    for _ in range(40):
        interval.sampled(0.1)
    assert interval.now() == 10
    interval.base_s = 1.0  # what is spent anyway leaves no room
    assert interval.now() == 10_000
    assert [on_ladder(one) for one in (0.2, 1.5, 3, 11, 60)] == [1, 2, 5, 20, 100]
