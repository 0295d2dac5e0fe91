from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from expdb.demo.build import build_schedule
from expdb.demo.schedule import (
    CosineConfig,
    MultiStepConfig,
    TokenSchedule,
    cosine,
    multi_step,
    warmup,
)
from expdb.errors import BadInput

LR = 3e-3


def optimizer(lr: float = LR) -> torch.optim.AdamW:
    a, b = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))
    return torch.optim.AdamW([{"params": [a]}, {"params": [b], "lr": lr / 2}], lr=lr)


def test_linear_warmup_of_2000_steps():
    assert warmup(0, 2000) == 1 / 2000
    assert warmup(999, 2000) == 0.5
    assert warmup(1999, 2000) == 1.0
    assert warmup(50_000, 2000) == 1.0
    assert warmup(0, 0) == 1.0


def test_multi_step_drops_exactly_at_its_tokens():
    schedule = TokenSchedule(
        optimizer(),
        MultiStepConfig(warmup_steps=2000),
        total_tokens=2 * 10**12,
        total_steps=500_000,
    )
    tera = 10**11
    values = [schedule.factor(400_000, t) for t in (16 * tera - 1, 16 * tera, 18 * tera - 1)]
    assert values == [1.0, 0.316, 0.316]
    assert schedule.factor(400_000, 18 * tera) == 0.1
    assert schedule.factor(400_000, 21 * tera) == 0.1
    assert schedule.factor(999, 10**9) == 0.5


def test_multi_step_without_fractions_is_constant():
    assert multi_step(0.99, (), ()) == 1.0


def test_cosine_half_way_end_and_beyond():
    schedule = TokenSchedule(
        optimizer(),
        CosineConfig(warmup_steps=10, min_ratio=0.0),
        total_tokens=110 * 1536,
        total_steps=110,
    )
    at = {step: schedule.factor(step, step * 1536) for step in (0, 9, 10, 60, 110, 150, 400)}
    assert at[0] == pytest.approx(0.1)
    assert (at[9], at[10]) == (1.0, 1.0)
    assert at[60] == pytest.approx(0.5)
    assert at[110] == at[150] == at[400] == 0.0


def test_cosine_floor_and_clamp():
    assert cosine(-0.5, 0.1) == cosine(0.0, 0.1) == 1.0
    assert cosine(0.5, 0.1) == pytest.approx(0.55)
    assert cosine(1.0, 0.1) == cosine(1.7, 0.1) == pytest.approx(0.1)


def test_cosine_with_warmup_as_long_as_the_run_stays_finite():
    schedule = TokenSchedule(
        optimizer(), CosineConfig(warmup_steps=30), total_tokens=1000, total_steps=10
    )
    assert schedule.factor(5, 500) == pytest.approx(6 / 30)
    assert schedule.factor(9, 1000) == pytest.approx(10 / 30)


def test_a_cosine_that_is_held_begins_at_its_part_of_the_tokens():
    config = CosineConfig(warmup_steps=10, min_ratio=0.1, hold=0.6)
    schedule = TokenSchedule(optimizer(), config, total_tokens=100_000, total_steps=100)
    at = {step: schedule.factor(step, step * 1000) for step in (4, 9, 40, 60, 80, 100)}
    assert at[4] == 0.5
    assert (at[9], at[40], at[60]) == (1.0, 1.0, 1.0)
    assert at[80] == pytest.approx(0.55)
    assert at[100] == pytest.approx(0.1)


def test_a_jump_multiplies_the_rate_for_its_steps_and_no_other():
    jump = MultiStepConfig(warmup_steps=4, jump_at=5, jump_steps=3, jump_factor=30.0)
    plain = MultiStepConfig(warmup_steps=4)
    factors = [
        TokenSchedule(optimizer(), config, total_tokens=10_000, total_steps=10)
        for config in (plain, jump)
    ]
    ratios = [factors[1].factor(k, k * 1000) / factors[0].factor(k, k * 1000) for k in range(10)]
    assert ratios == [1.0] * 5 + [30.0] * 3 + [1.0] * 2


def test_the_rate_of_every_group_and_optimizer_follows():
    one, two = optimizer(), optimizer(lr=1.0)
    schedule = TokenSchedule(
        [one, two], MultiStepConfig(warmup_steps=4), total_tokens=1000, total_steps=10
    )
    assert [group["lr"] for group in one.param_groups] == [LR / 4, LR / 8]
    assert schedule.lr == LR / 4
    for _ in range(9):
        schedule.step(100)
    assert [group["lr"] for group in one.param_groups] == pytest.approx([LR / 10, LR / 20])
    assert [group["lr"] for group in two.param_groups] == pytest.approx([0.1, 0.05])


def test_resumed_rates_equal_an_unbroken_run_as_bits():
    config = CosineConfig(warmup_steps=5)
    straight, broken = optimizer(), optimizer()
    whole = TokenSchedule(straight, config, total_tokens=4000, total_steps=40)
    first = TokenSchedule(broken, config, total_tokens=4000, total_steps=40)
    for _ in range(17):
        whole.step(100)
        first.step(100)
    resumed_optimizer = optimizer()
    resumed = TokenSchedule(resumed_optimizer, config, total_tokens=4000, total_steps=40)
    assert resumed_optimizer.param_groups[0]["lr"] != broken.param_groups[0]["lr"]
    resumed_optimizer.load_state_dict(broken.state_dict())
    resumed.load_state_dict(first.state_dict())
    for _ in range(23):
        assert resumed_optimizer.param_groups[0]["lr"] == straight.param_groups[0]["lr"]
        assert resumed.lr == straight.param_groups[0]["lr"]
        resumed.step(100)
        whole.step(100)


def test_a_new_base_rate_wins_over_the_loaded_optimizer():
    old = optimizer()
    new = optimizer(lr=1e-2)
    schedule = TokenSchedule(
        new, MultiStepConfig(warmup_steps=0), total_tokens=1000, total_steps=10
    )
    new.load_state_dict(old.state_dict())
    schedule.load_state_dict({"step": 3, "tokens": 300})
    assert new.param_groups[0]["lr"] == 1e-2


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"kind": "multistep"}, "unknown `schedule.kind` `multistep`"),
        ({"kind": "cosine", "fractions": [0.5]}, "unknown key `schedule.fractions`"),
        ({"kind": "multi_step", "fractions": [0.9, 0.8]}, "must rise"),
        ({"kind": "multi_step", "factors": [0.1]}, "2 values and `schedule.factors` 1"),
        ({"kind": "cosine", "min_ratio": 2}, "min_ratio"),
        ({"kind": "cosine", "min_ratio": math.nan}, "min_ratio"),
        ({"kind": "cosine", "warmup_steps": -1}, "warmup_steps"),
        ({"kind": "cosine", "hold": 1.0}, "schedule.hold"),
        ({"kind": "multi_step", "jump_steps": -1}, "schedule.jump_steps"),
        ({"kind": "multi_step", "jump_factor": math.inf}, "schedule.jump_factor"),
    ],
)
def test_unusable_schedules_are_bad_input(config, match):
    with pytest.raises(BadInput, match=match):
        build_schedule(config, optimizer(), total_tokens=10, total_steps=10)
