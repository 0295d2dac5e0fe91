"""Two recordings of one training, point by point."""

from __future__ import annotations

import math
import struct

import pytest

from expdb.query.series_match import is_of_machine, match, same_bits

NAN = float("nan")
OTHER_NAN = struct.unpack("<d", bytes.fromhex("010000000000f87f"))[0]


def points(**series: list[float]) -> dict[tuple[int, str], float]:
    """`train__loss=[1, 2]` are two points of train/loss."""
    return {
        (step, key.replace("__", "/")): value
        for key, values in series.items()
        for step, value in enumerate(values)
    }


def test_the_same_bits() -> None:
    assert same_bits(0.1 + 0.2, 0.30000000000000004)
    assert not same_bits(0.1 + 0.2, 0.3)
    assert not same_bits(0.0, -0.0)
    assert same_bits(NAN, OTHER_NAN)
    assert same_bits(math.inf, math.inf)
    assert not same_bits(NAN, 1.0)
    assert not same_bits(None, None)


def test_the_outcome_and_where() -> None:
    mine = points(train__loss=[4.0, 3.0, 2.0], train__grad_norm=[1.0, 1.0, 1.0])
    assert match(mine, dict(mine), rtol=0).outcome == "bit_equal"
    near = {**mine, (1, "train/grad_norm"): 1.0 + 1e-7, (2, "train/loss"): 2.0 + 1e-6}
    found = match(mine, near, rtol=1e-5)
    assert (found.outcome, found.first, found.num_equal) == ("equal_within", None, 4)
    assert found.largest is not None
    assert (found.largest.step, found.largest.key) == (2, "train/loss")
    assert found.largest.relative == pytest.approx(5e-7, rel=1e-3)
    assert found.first_bits is not None
    assert found.first_bits.step == 1
    exact = match(mine, near, rtol=0)
    assert (exact.outcome, exact.first) == ("differs", found.first_bits)


def test_the_loss_is_named_first_of_what_differs_at_a_step() -> None:
    mine = points(a=[1.0, 1.0], train__loss=[1.0, 1.0], train__lr=[1.0, 1.0])
    other = points(a=[1.0, 2.0], train__loss=[1.0, 2.0], train__lr=[1.0, 2.0])
    found = match(mine, other, rtol=1e-5)
    assert found.first is not None
    assert (found.first.step, found.first.key, found.beside) == (1, "train/loss", ("a", "train/lr"))


def test_a_point_that_one_side_lacks_is_a_difference_of_any_size() -> None:
    mine, other = points(x=[1.0, 2.0]), points(x=[1.0])
    for left, right, values in ((mine, other, (2.0, None)), (other, mine, (None, 2.0))):
        found = match(left, right, rtol=1e6)
        assert found.first is not None
        assert (found.first.step, (found.first.first, found.first.again)) == (1, values)
    assert match({}, {}, rtol=0).outcome == "bit_equal"


def test_of_a_sampled_signal_the_points_of_both_are_compared() -> None:
    key, carried = "layer/head/grad_norm", "train/noise_scale"
    left, right = {(0, key): 1.0, (5, key): 2.0, (0, carried): 3.0}, {(0, key): 1.0}
    found = match(left, right, rtol=0)
    assert (found.outcome, found.num_points, found.left_out) == ("bit_equal", 1, (carried,))
    assert match(left, {(0, key): 1.5}, rtol=0).outcome == "differs"


@pytest.mark.parametrize(("left", "right"), [(NAN, 1.0), (math.inf, 1.0), (math.inf, -math.inf)])
def test_what_is_not_finite_is_in_no_tolerance(left: float, right: float) -> None:
    assert match(points(x=[left]), points(x=[right]), rtol=1.0).outcome == "differs"


def test_zero_and_minus_zero_are_near_and_not_the_same() -> None:
    assert match(points(x=[0.0]), points(x=[-0.0]), rtol=1e-5).outcome == "equal_within"
    assert match(points(x=[0.0]), points(x=[-0.0]), rtol=0).outcome == "differs"


def test_what_is_of_time_or_of_the_machine_by_its_name() -> None:
    for key in (
        "sys/gpu_util", "train/tokens_per_s", "train/data_wait_pct", "train/step_time", "time",
        "perf/forward_ms", "train/memory_peak_bytes", "train/mfu", "samples_per_second", "it/sec",
    ):  # fmt: skip
        assert is_of_machine(key), key
    for key in (
        "train/loss", "val/ppl", "train/lr", "train/grad_norm", "train/num_sequences/pydoc", "s",
        "eval/cloze/acc", "layer/time_mix/weight_norm", "train/tokens", "train/times_seen",
    ):  # fmt: skip
        assert not is_of_machine(key), key
    found = match(points(time=[1.0], x=[1.0]), points(time=[2.0], x=[1.0]), rtol=0)
    assert (found.outcome, found.left_out, found.num_points) == ("bit_equal", ("time",), 1)
