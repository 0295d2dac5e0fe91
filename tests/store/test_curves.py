from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expdb.errors import Corrupt, Unsupported
from expdb.model import Attempt, Pin
from expdb.store import attempts, buckets, curve_build, curves, parts, recorder
from expdb.store.buckets import MAX_BUCKETS, Buckets, merged, of_points, shift_of, starts_of
from expdb.store.curve_build import refresh_curves
from expdb.store.curves import read_curves
from expdb.store.ids import new_id
from expdb.store.layout import RunLayout
from expdb.store.points import read_series, standing
from expdb.store.recorder import Recorder

RUN = "k3f9x2m7qd"
VALUES = st.sampled_from(
    [0.0, -0.0, 1.5, -2.25, 3.0, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf]
)
STEPS = st.integers(-9, 30) | st.sampled_from([-(2**63) + 1, 2**63 - 1, 2**40])


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a series of 5 points have a curve, of at most 4 buckets."""
    monkeypatch.setattr(curve_build, "MIN_POINTS", 4)
    monkeypatch.setattr(buckets, "MAX_BUCKETS", 4)


def bits(value: float) -> str:
    """A value with its sign, also of zero."""
    return repr(float(value))


def require_right(found: Buckets, steps: list[int], values: list[float]) -> None:
    """Compare buckets with points sorted by step, each bucket with those between its steps."""
    assert int(found.count.sum()) == len(steps)
    assert (found.first_step[1:] > found.last_step[:-1]).all()
    for at in range(len(found)):
        first, last = int(found.first_step[at]), int(found.last_step[at])
        inside = [(s, v) for s, v in zip(steps, values, strict=True) if first <= s <= last]
        finite = [(s, v) for s, v in inside if math.isfinite(v)]
        assert [inside[0][0], inside[-1][0]] == [first, last]
        assert [bits(found.first[at]), bits(found.last[at])] == [
            bits(inside[0][1]), bits(inside[-1][1]),
        ]  # fmt: skip
        assert int(found.count[at]) == len(inside)
        assert int(found.nonfinite[at]) == len(inside) - len(finite)
        if not finite:
            assert np.isnan([found.min[at], found.max[at], found.mean[at]]).all()
            continue
        low, high = min(finite, key=lambda p: p[1]), max(finite, key=lambda p: p[1])
        assert (int(found.min_step[at]), bits(found.min[at])) == (low[0], bits(low[1]))
        assert (int(found.max_step[at]), bits(found.max[at])) == (high[0], bits(high[1]))
        mean = float(sum(Fraction(v) for _, v in finite) / len(finite))
        scale = max(abs(v) for _, v in finite)
        assert float(found.mean[at]) == pytest.approx(mean, rel=1e-9, abs=1e-9 * scale + 1e-320)
        assert low[1] <= found.mean[at] <= high[1]


def visible_of(layout: RunLayout, key: str) -> tuple[list[int], list[float]]:
    table = standing(read_series(layout.root, [key]))
    return table["step"].to_pylist(), table["value"].to_pylist()


@given(st.lists(st.tuples(STEPS, VALUES), min_size=1, unique_by=lambda item: item[0]))
def test_a_bucket_says_what_its_points_say(rows: list[tuple[int, float]]) -> None:
    rows.sort()
    steps, values = [step for step, _ in rows], [value for _, value in rows]
    shift = shift_of(steps[0], steps[-1], len(steps))
    at = np.array(steps, np.int64)
    points = of_points(at, at, np.array(values))
    fine = merged(points, starts_of(at >> (shift // 2)))
    require_right(fine, steps, values)
    coarse = merged(fine, starts_of(fine.first_step >> shift))
    require_right(coarse, steps, values)
    assert len(coarse) <= 4
    straight = merged(points, starts_of(at >> shift))
    for name in set(buckets.NAMES) - {"mean"}:
        assert getattr(coarse, name).tobytes() == getattr(straight, name).tobytes(), name


def test_evenly_spread_steps_have_more_than_half_of_the_buckets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(buckets, "MAX_BUCKETS", MAX_BUCKETS)
    for last in (20_000, 20_481, 1_000_000, 1_048_575, 1_048_576, 1_048_577, 10**12):
        steps = np.linspace(3, last + 3, 30_000).astype(np.int64)
        for count, most in ((20_000, 312), (131_072, MAX_BUCKETS), (10**9, MAX_BUCKETS)):
            shift = shift_of(int(steps[0]), int(steps[-1]), count)
            assert most // 2 <= len(np.unique(steps >> shift)) <= most


LOGGED = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 1, 1_000_000]),
        st.sampled_from([("a",), ("a", "b"), ("b",)]),
        st.integers(-3, 40),
        VALUES,
    ),
    max_size=40,
)
ATTEMPT = st.tuples(
    st.none() | st.integers(-2, 30),
    LOGGED,
    st.booleans(),  # whether its steps grow
    st.sampled_from([3, 10**6]),
)


@settings(max_examples=15, deadline=None)
@given(st.lists(ATTEMPT, min_size=1, max_size=3), st.booleans())
def test_a_file_says_what_the_sealed_points_say(
    tmp_path_factory: pytest.TempPathFactory, script: list[Any], each_time: bool
) -> None:
    layout = RunLayout(tmp_path_factory.getbasetemp() / f"run={new_id()}")
    for number, (start, logged, grows, limit) in enumerate(script, start=1):
        layout.attempt(number).mkdir(parents=True)
        attempts.write_pin(layout, Attempt(number=number, pin=Pin(), resumed_from=start))
        rows = sorted(logged, key=lambda row: row[2]) if grows else logged
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(recorder, "SEAL_POINTS", limit)
            patch.setattr(recorder, "RETRY_S", 0.0)
            writers: dict[int, Recorder] = {}
            for rank, keys, step, value in rows:
                if rank not in writers:
                    writers[rank] = Recorder(layout, run=layout.id, attempt=number, rank=rank)
                writers[rank].write(keys, [value] * len(keys), step, step * 7)
            for writer in writers.values():
                writer.close()
        if each_time:
            require_file(layout)
    require_file(layout)
    shutil.rmtree(layout.root)


def require_file(layout: RunLayout) -> None:
    counts = {key: len(visible_of(layout, key)[0]) for key in ("a", "b")}
    num = refresh_curves(layout, counts)
    long = sorted(key for key, count in counts.items() if count > 4)
    assert layout.curves.exists() == bool(long)
    if not long:
        assert num == 0
        return
    found = read_curves(layout.curves).buckets
    assert list(found.names) == long
    assert len(found.rows) == num
    for key in long:
        steps, values = visible_of(layout, key)
        require_right(found.of(key), steps, values)
        assert found.of(key).first_time.tolist() == [s * 7 for s in found.of(key).first_step]


def logged(layout: RunLayout, keys: tuple[str, ...], steps: range, *, attempt: int = 1) -> None:
    layout.attempt(attempt).mkdir(parents=True, exist_ok=True)
    writer = Recorder(layout, run=RUN, attempt=attempt)
    for step in steps:
        writer.write(keys, [float(step)] * len(keys), step, step)
    writer.close()


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    layout = RunLayout(tmp_path / f"run={RUN}")
    logged(layout, ("a", "b"), range(40))
    refresh_curves(layout, {"a": 40, "b": 40})
    return layout


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The row groups of parts that are read."""
    found: list[int] = []
    real = parts.groups_of

    def noted(*args: Any) -> list[int]:
        groups = real(*args)
        found.extend(groups)
        return groups

    monkeypatch.setattr(parts, "groups_of", noted)
    return found


def test_what_is_right_is_not_read_again(layout: RunLayout, reads: list[int]) -> None:
    before = layout.curves.stat()
    refresh_curves(layout, {"a": 40, "b": 40})
    assert layout.curves.stat().st_mtime_ns == before.st_mtime_ns
    assert reads == []


def test_only_new_parts_are_read_while_steps_grow(layout: RunLayout, reads: list[int]) -> None:
    logged(layout, ("a", "b"), range(40, 50), attempt=2)
    refresh_curves(layout, {"a": 50, "b": 50})
    assert len(reads) == 1
    require_right(read_curves(layout.curves).buckets.of("a"), *visible_of(layout, "a"))


def test_a_list_that_lost_its_parts_makes_a_file_of_what_is_left(layout: RunLayout) -> None:
    logged(layout, ("a",), range(40, 60), attempt=2)
    refresh_curves(layout, {"a": 60, "b": 40})
    layout.parts_list(1, 0).unlink()
    refresh_curves(layout, {"a": 20})
    found = read_curves(layout.curves).buckets
    assert found.names == ("a",)
    require_right(found.of("a"), *visible_of(layout, "a"))


def test_a_damaged_part_leaves_the_file_as_it_is(layout: RunLayout) -> None:
    before = layout.curves.read_bytes()
    logged(layout, ("a",), range(40, 60), attempt=2)
    part = layout.part(2, 0, 1, 21)
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(Corrupt, match="is damaged"):
        refresh_curves(layout, {"a": 60, "b": 40})
    assert layout.curves.read_bytes() == before


def test_a_flipped_bit_is_never_another_value(layout: RunLayout) -> None:
    whole, num_damaged = layout.curves.read_bytes(), 0
    for at in range(0, len(whole), 7):
        data = bytearray(whole)
        data[at] ^= 4
        layout.curves.write_bytes(data)
        try:
            found = read_curves(layout.curves).buckets
        except Corrupt:
            num_damaged += 1
        except Unsupported:
            continue
        else:
            require_right(found.of("a"), *visible_of(layout, "a"))
    assert num_damaged > len(whole) / 7 / 4


def test_a_damaged_file_is_made_again(layout: RunLayout) -> None:
    for content in (b"", b"PAR1" * 9, layout.curves.read_bytes()[:-5]):
        layout.curves.write_bytes(content)
        refresh_curves(layout, {"a": 40, "b": 40})
        require_right(read_curves(layout.curves).buckets.of("a"), *visible_of(layout, "a"))


def test_a_newer_file_is_left_alone(layout: RunLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    layout.curves.unlink()
    monkeypatch.setattr(curves, "FORMAT", 9)
    refresh_curves(layout, {"a": 40, "b": 40})
    monkeypatch.undo()
    with pytest.raises(Unsupported, match=r"curves\.parquet needs expdb"):
        read_curves(layout.curves)
    monkeypatch.setattr(curve_build, "MIN_POINTS", 4)
    before = layout.curves.read_bytes()
    with pytest.raises(Unsupported):
        refresh_curves(layout, {"a": 40, "b": 40})
    assert layout.curves.read_bytes() == before
