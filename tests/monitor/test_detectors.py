"""Each detector against values whose right answer is known."""

from __future__ import annotations

import math

import pytest

from tests.monitor.feeding import fired, found_in, levels, noisy, only, readings, rows_of, told

NAN, INF = math.nan, math.inf


# ------------------------------------------------------------------------------- D1 non-finite


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_a_value_that_is_no_number_is_grave_at_once(bad: float) -> None:
    assert levels("non_finite", [1.0, bad, 1e308, 5e-324, 0.0]) == [0, 3, 0, 0, 0]


def test_non_finite_says_what_it_is_and_is_said_once() -> None:
    rows = rows_of([1.0, NAN, NAN, 2.0, INF, INF])
    found = found_in(rows, only(non_finite={"cooldown": 0}))
    assert told(found) == [
        (1, "critical", "non_finite", "open"), (3, "info", "non_finite", "over"),
        (4, "critical", "non_finite", "open"),
    ]  # fmt: skip
    assert [one.message for one in found] == [
        "train/loss is NaN", "train/loss fine again after 2 steps", "train/loss is infinite",
    ]  # fmt: skip


# ------------------------------------------------------------------------ D2 and D3 spikes


def test_one_high_step_is_an_outlier_and_two_of_three_are_a_spike() -> None:
    calm = noisy(2.0, 200)
    assert levels("spike", [*calm, 3.0, 2.0, 2.0, 2.0, 3.0])[200:] == [1, 0, 0, 0, 1]
    assert levels("spike", [*calm, 3.0, 2.0, 3.0, 2.0])[200:] == [1, 0, 2, 0]
    assert levels("spike", [*calm, 3.0, 2.0, 2.0, 3.0])[200:] == [1, 0, 0, 1]


def test_a_gradient_norm_that_rises_too_makes_one_high_step_a_spike() -> None:
    loss = [*noisy(2.0, 200), 2.5, 2.0]
    norm = [*(0.25 for _ in range(198)), 0.9, 0.25, 0.25, 0.25]
    found = found_in(rows_of(loss, norm), only(loss_spike=True))
    assert told(found)[0] == (200, "warn", "loss_spike", "open")  # the norm rose two steps before
    norm = [*(0.25 for _ in range(196)), 0.9, *(0.25 for _ in range(5))]
    found = found_in(rows_of(loss, norm), only(loss_spike=True))
    assert told(found) == [(200, "info", "loss_spike", "")]  # four steps before is too long


def test_falls_are_no_spikes_and_nothing_is_said_before_step_100() -> None:
    assert fired("spike", [*noisy(3.0, 200), *noisy(2.0, 200)]) == []
    assert fired("spike", [*noisy(2.0, 90), 9.0, 9.0, 9.0]) == []
    assert fired("spike", [*noisy(2.0, 90), 9.0, 9.0, 9.0], first=100) == [191, 192]


def test_rounded_values_have_a_floor_under_their_spread() -> None:
    steps = [2.0 + 0.01 * (step % 2) for step in range(200)]
    assert fired("spike", [*steps, 2.1, 2.1, 2.1]) == []
    assert fired("spike", [*steps, 2.2, 2.2, 2.2]) == [201, 202]


def test_a_spike_that_stays_grows_grave_after_50_steps_and_ends_when_it_is_back() -> None:
    calm = noisy(2.0, 200)
    found = readings("spike", [*calm, *(4.0 for _ in range(60)), 2.0])[200:]
    assert next(step for step, reading in found if reading.level == 3) == 251
    assert found[-1][1].level == 0
    assert found[-1][1].text == "x 2: back"
    assert "not back by 251" in dict(found)[251].text


def test_a_level_that_stays_for_good_is_learned() -> None:
    found = levels("spike", [*noisy(2.0, 200), *noisy(2.4, 400, seed=3)])
    assert found[201] == 2
    assert found[-1] == 0
    again = levels("spike", [*noisy(2.0, 200), *noisy(2.4, 400, seed=3), 3.5, 3.5])
    assert again[-1] == 2


def test_nan_moves_no_window() -> None:
    assert fired("spike", [*noisy(2.0, 200), *[NAN] * 50, 2.0, 2.0]) == []


def test_a_gradient_norm_is_looked_at_on_a_log_scale() -> None:
    calm = [0.25 * math.exp(one) for one in noisy(0.0, 200, 0.05)]
    assert fired("log_spike", [*calm, 0.25 * math.exp(0.55), 0.0, -1.0]) == []
    assert fired("log_spike", [*calm, 0.25 * math.exp(0.7)]) == [200]


# ------------------------------------------------------------------------------ D4 divergence


def test_divergence_compares_block_medians_and_is_grave_after_three() -> None:
    found = readings("divergence", [*[2.0] * 25, *[2.09] * 25, *[2.2] * 25, *[3.0] * 50])
    assert [(step, reading.level) for step, reading in found] == [
        (24, 0), (49, 0), (74, 2), (99, 2), (124, 3),
    ]  # fmt: skip
    assert found[-1][1].text == "median of 25 steps 3 > 2.1, 3 in a row"


def test_a_slow_rise_and_a_lost_loss_are_divergence() -> None:
    slow = [2.0 + 0.001 * step for step in range(500)]
    assert fired("divergence", slow)[0] == 149
    assert fired("divergence", [*[2.0] * 25, *[NAN] * 25]) == [49]
    assert fired("divergence", [*[2.0] * 25, *[2.0, NAN, 9.0, 2.0, 2.0] * 5]) == []


# ----------------------------------------------------------------------------- D5 level shift


def test_a_throughput_that_falls_by_more_than_its_share_is_a_shift() -> None:
    calm = noisy(1000.0, 320, 10.0)
    shifted = fired("level_shift", [*calm, *noisy(945.0, 100, 10.0, seed=2)])
    assert 320 <= shifted[0] <= 335
    assert fired("level_shift", [*calm, *noisy(980.0, 300, 10.0, seed=2)]) == []  # 2 %
    assert fired("level_shift", [*calm, *noisy(1100.0, 300, 10.0, seed=2)]) == []  # faster
    assert fired("level_shift", [*calm, *[100.0] * 3, *noisy(1000.0, 100, 10.0)]) == []
    assert fired("level_shift", [*calm, *noisy(1100.0, 30, 10.0, seed=2)], direction="up")


def test_a_shift_ends_when_the_level_is_back_or_is_learned() -> None:
    calm, low = noisy(1000.0, 320, 10.0), noisy(900.0, 500, 10.0, seed=2)
    back = readings("level_shift", [*calm, *low[:60], *noisy(1000.0, 60, 10.0, seed=4)])
    assert [reading.text for _, reading in back if "back" in reading.text]
    learned = [reading.text for _, reading in readings("level_shift", [*calm, *low])]
    assert any("taken as its level" in one for one in learned)
    assert levels("level_shift", [*calm, *low])[-1] == 0


# ------------------------------------------------------------------------------- D6 plateau


def test_a_plateau_is_said_when_the_noise_allows_no_more_than_a_small_fall() -> None:
    flat = noisy(2.5, 2000, 0.03)
    assert fired("plateau", flat, rate="")[0] == 999
    falling = [one - 0.00005 * step for step, one in enumerate(flat)]  # 2 % in 1000 steps
    assert fired("plateau", falling, rate="") == []
    assert fired("plateau", flat, rate="", target=2.6) == []  # it is good enough
    assert fired("plateau", flat[:900], rate="") == []


def test_no_plateau_while_the_rate_falls() -> None:
    rows = rows_of(noisy(2.5, 1200))
    assert [one.rule for one in found_in(rows, only(plateau=True))] == ["plateau"]
    for step, row in enumerate(rows):
        row["train/lr"] = 3e-4 * (1 - step / 2400)
    assert found_in(rows, only(plateau=True)) == []


# ------------------------------------------------------------------------------- D7 overfit


def evaluated(val: list[float], train: list[float], every: int = 10) -> list[dict[str, float]]:
    rows = []
    for step, loss in enumerate(train):
        row = {"train/loss": loss}
        if step % every == 0 and step // every < len(val):
            row["val/loss"] = val[step // every]
        rows.append(row)
    return rows


def test_overfit_needs_a_rising_validation_loss_and_a_falling_training_loss() -> None:
    falling = [2.0 - 0.003 * step for step in range(300)]
    turned = [*(2.5 - 0.05 * at for at in range(12)), *(1.95 + 0.04 * at for at in range(18))]
    found = found_in(evaluated(turned, falling), only(overfit=True))
    assert [(one.rule, one.severity, one.state) for one in found] == [("overfit", "warn", "open")]
    assert 140 <= found[0].step <= 200
    good = [2.5 - 0.03 * at for at in range(30)]
    assert found_in(evaluated(good, falling), only(overfit=True)) == []
    assert found_in(evaluated(turned, [2.0] * 300), only(overfit=True)) == []  # both: divergence


def test_one_lucky_evaluation_is_no_turn() -> None:
    noise = noisy(0.0, 40, 0.02, seed=5)
    val = [2.2 - 0.01 * at + noise[at] for at in range(40)]
    val[10] -= 0.2
    falling = [2.0 - 0.003 * step for step in range(400)]
    assert found_in(evaluated(val, falling), only(overfit=True)) == []


# ------------------------------------------------------------------------------ D8 thresholds


@pytest.mark.parametrize(
    ("norms", "said"),
    [
        ([10.1], [(0, "info", "")]),
        ([10.1, 10.1, 10.1], [(0, "info", ""), (2, "warn", "open")]),
        ([10.1, 10.1, 9.9, 10.1], [(0, "info", "")]),
        ([10.0] * 9, []),
        ([100.1] * 3, [(0, "info", ""), (2, "critical", "open")]),
        ([10.1, 10.1, 100.1, 100.1, 100.1],
         [(0, "info", ""), (2, "warn", "open"), (4, "critical", "worse")]),
    ],
)  # fmt: skip
def test_the_ladder_of_large_gradients(
    norms: list[float], said: list[tuple[int, str, str]]
) -> None:
    rows = [{"train/grad_norm": one} for one in norms]
    found = found_in(rows, only(grad_range=True))
    assert [(one.step, one.severity, one.state) for one in found] == said


@pytest.mark.parametrize(
    ("norm", "num", "said"),
    [
        (9.9e-6, 19, []),
        (9.9e-6, 20, [(19, "warn")]),
        (1.1e-5, 99, []),
        (9.9e-7, 20, [(19, "critical")]),
        (9.9e-7, 19, []),
    ],
)
def test_the_ladder_of_small_gradients(norm: float, num: int, said: list[tuple[int, str]]) -> None:
    found = found_in([{"train/grad_norm": norm}] * num, only(grad_vanish=True))
    assert [(one.step, one.severity) for one in found] == said


def test_one_large_gradient_with_an_outlier_of_the_loss_is_enough() -> None:
    calm = rows_of(noisy(2.0, 150))
    row = {"train/loss": 3.0, "train/grad_norm": 10.1}
    found = found_in([*calm, row], only(grad_range=True))
    assert told(found) == [(150, "warn", "grad_range", "open")]
    found = found_in([*calm, {**row, "train/loss": 2.0}], only(grad_range=True))
    assert told(found) == [(150, "info", "grad_range", "")]


def test_an_idle_device_is_said_after_five_minutes_and_where_the_loader_is_slow() -> None:
    row = {"sys/gpu0/util_pct": 40.0, "train/data_wait_pct": 25.0}
    section = only(gpu_idle=True)
    assert told(found_in([row] * 301, section)) == [(300, "warn", "gpu_idle", "open")]
    assert found_in([row] * 11, section) == []
    assert found_in([{**row, "train/data_wait_pct": 5.0}] * 400, section) == []


@pytest.mark.parametrize(
    ("used", "severities"), [(0.90, []), (0.91, ["warn"]), (0.95, ["warn"]), (0.96, ["critical"])]
)
def test_a_device_that_is_nearly_full(used: float, severities: list[str]) -> None:
    row = {"sys/memory_peak_bytes": used * 80e9, "sys/memory_device_bytes": 80e9}
    found = found_in([row] * 3, only(mem_full=True))
    assert [one.severity for one in found] == severities


def test_a_share_of_another_value_and_of_the_first_one() -> None:
    rows = [{"sys/memory_allocated_bytes": 6e9, "sys/memory_reserved_bytes": 10e9}] * 10
    assert [one.step for one in found_in(rows, only(mem_fragments=True))] == [9]
    rows = [{"layer/embed/emb_rank": one} for one in (80.0, 60.0, 39.0, 39.0)]
    assert [one.step for one in found_in(rows, only(emb_rank_drop=True))] == [3]


def test_a_scale_that_is_halved_again_and_again_or_is_at_its_bottom() -> None:
    scales = [65536.0 / 2**at for at in range(6)]
    assert levels("halvings", scales) == [0, 0, 0, 0, 0, 2]
    slowly = [value for value in scales for _ in range(40)]
    assert fired("halvings", slowly) == []
    assert levels("halvings", [256.0, 128.0, 127.0]) == [0, 0, 3]


# ---------------------------------------------------------------------------------- D9 stall


def test_a_step_is_overdue_after_ten_medians_and_at_least_five_minutes() -> None:
    from expdb.monitor.stall import Stall

    slow = Stall("x")
    for step in range(20):
        slow.update(step, {"x": 1.0}, step * 60_000)
    last = 19 * 60_000
    assert slow.overdue(last + 600_000) is None
    found = slow.overdue(last + 600_001)
    assert found is not None
    assert found.text == "no step for 600 s after 19 (usual: 60 s)"
    quick = Stall("x")
    quick.update(0, {"x": 1.0}, 0)
    assert quick.overdue(10**9) is None  # the first step may take as long as it likes
    quick.update(1, {"x": 1.0}, 100)
    assert quick.overdue(300_100) is None
    assert quick.overdue(300_101) is not None
    quick.pardon(300_101)
    assert quick.overdue(600_101) is None


# --------------------------------------------------------------- what the documents ask for


def test_a_rise_by_half_in_one_step_and_nan_are_jumps() -> None:
    assert fired("jump", [2.0, 3.01]) == [1]
    assert fired("jump", [2.0, 2.99]) == []
    assert fired("jump", [2.0, 3.0]) == []
    assert fired("jump", [2.0, NAN, 2.0]) == [1]
    assert fired("jump", [-2.0, -0.9]) == [1]


def test_ten_per_cent_off_the_mean_is_two_sided_and_blind_to_nan() -> None:
    assert fired("mean_ratio", [2.0, 2.3]) == [1]
    assert fired("mean_ratio", [2.0, 1.7]) == [1]
    assert fired("mean_ratio", [2.0, NAN, 9.0]) == []
    assert fired("mean_ratio", [0.0, 1.0]) == []


def test_a_loss_that_falls_beside_a_flat_task_is_told_apart_from_one_beside_a_task_that_rises() -> (
    None
):
    falling = [3.0 - 0.005 * step for step in range(250)]
    flat = [0.40, 0.41, 0.405, 0.41, 0.40]
    for task, said in ((flat, [200]), ([0.40, 0.44, 0.48, 0.52, 0.56], [])):
        rows = []
        for step, loss in enumerate(falling):
            row = {"train/loss": loss}
            if step % 50 == 0:
                row["eval/cloze/acc"] = task[step // 50]
            rows.append(row)
        assert [one.step for one in found_in(rows, only(metric_flat=True))] == said


def test_one_layer_that_leaves_its_history_is_seen_though_the_whole_is_quiet() -> None:
    draws = [noisy(0.0, 40, 0.1, seed=at) for at in range(3)]
    rows = []
    for at in range(40):
        norms = [math.exp(draw[at]) for draw in draws]
        if at >= 30:
            norms[1] *= 30
        whole = math.sqrt(sum(one * one for one in [*norms, 1000.0]))
        row = {f"layer/h.{layer}/grad_norm": norm for layer, norm in enumerate(norms)}
        rows.append({**row, "train/grad_norm": whole})
    section = only(layer_grad=True, grad_spike={"least": 10})
    found = found_in([row for row in rows for _ in range(10)][::10], section, first=100)
    assert {one.key for one in found if one.severity == "warn"} == {"layer/h.1/grad_norm"}


def test_a_sparse_module_has_no_dead_units() -> None:
    rows = [{"layer/h.1.mlp/act_dead": 0.75, "layer/h.1.experts.3/act_dead": 0.75}] * 6
    assert {one.key for one in found_in(rows, only(dead_units=True))} == {"layer/h.1.mlp/act_dead"}


def test_a_relu_with_a_normal_share_of_zeros_is_fine() -> None:
    assert found_in([{"layer/h.1.mlp/act_dead": 0.5}] * 50, only(dead_units=True)) == []
