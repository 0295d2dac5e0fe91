from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import expdb
from expdb.errors import BadInput, NotFound
from expdb.model import Attempt, Pin
from expdb.query import curve as query
from expdb.query.curve import PlotCurve, curve
from expdb.store import attempts, buckets, curve_build, recorder
from expdb.store.curve_build import refresh_curves
from expdb.store.ids import new_id
from expdb.store.layout import RunLayout
from expdb.store.points import read_series, standing
from expdb.store.recorder import Recorder

RUN = "k3f9x2m7qd"
VALUES = st.sampled_from([0.0, -0.0, 1.5, -2.25, 3.0, 1e308, 5e-324, math.nan, math.inf])
ROW = st.tuples(
    st.sampled_from([0, 0, 0, 1, 1_000_000]),
    st.sampled_from([("a",), ("a", "b"), ("b",)]),
    st.integers(-3, 60),
    VALUES,
)
PIECE = st.tuples(
    st.none() | st.integers(-2, 50),
    st.lists(ROW, max_size=40),
    st.booleans(),  # its steps grow
    st.booleans(),  # it is sealed
    st.booleans(),  # the curves are brought up to date after it
)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curve_build, "MIN_POINTS", 4)
    monkeypatch.setattr(buckets, "MAX_BUCKETS", 8)
    monkeypatch.setattr(query, "BUCKETS_A_COLUMN", 1)


def points_of(layout: RunLayout, key: str) -> list[tuple[int, int, float]]:
    table = standing(read_series(layout.root, [key]))
    columns = (table[name].to_pylist() for name in ("step", "time", "value"))
    return list(zip(*columns, strict=True))


def require_right(found: PlotCurve, points: list[tuple[int, float]]) -> None:
    """Compare columns with all points of a series, each column with those between its steps."""
    assert found.num_points == len(points)
    assert (np.diff(found.x) > 0).all() or len(found.x) < 2
    for at in range(len(found.x)):
        first, last = found.first_step[at], found.last_step[at]
        inside = [value for step, value in points if first <= step <= last]
        finite = [value for value in inside if math.isfinite(value)]
        assert found.counts[at] == len(inside) > 0
        assert found.nonfinite[at] == len(inside) - len(finite)
        assert found.gaps[at] == (not finite)
        drawn = [found.lo[at], found.mid[at], found.hi[at]]
        if finite:
            assert [repr(float(drawn[0])), repr(float(drawn[2]))] == [
                repr(min(finite)), repr(max(finite)),
            ]  # fmt: skip
            assert drawn == sorted(drawn)
        else:
            assert np.isnan(drawn).all()


@settings(max_examples=30, deadline=None)
@given(st.lists(PIECE, min_size=1, max_size=4), st.integers(1, 8))
def test_a_curve_says_what_the_points_say(
    tmp_path_factory: pytest.TempPathFactory, script: list[Any], width: int
) -> None:
    layout = RunLayout(tmp_path_factory.getbasetemp() / f"run={new_id()}")
    for number, (start, rows, grows, sealed, refreshed) in enumerate(script, start=1):
        layout.attempt(number).mkdir(parents=True)
        attempts.write_pin(layout, Attempt(number=number, pin=Pin(), resumed_from=start))
        writers: dict[int, Recorder] = {}
        for rank, keys, step, value in sorted(rows, key=lambda row: row[2]) if grows else rows:
            if rank not in writers:
                writers[rank] = Recorder(layout, run=layout.id, attempt=number, rank=rank)
            writers[rank].write(keys, [value] * len(keys), step, step * 7)
        for writer in writers.values():
            writer.close() if sealed else writer._journal.close()
        if refreshed:
            refresh_curves(layout, {key: len(points_of(layout, key)) for key in ("a", "b")})
    for key in ("a", "b"):
        points = [(step, value) for step, _, value in points_of(layout, key)]
        require_right(curve(layout.root, key, width=width), points)
        require_right(curve(layout.root, key, width=width, x="time"), points)
        assert len(curve(layout.root, key, width=width).x) <= width
    shutil.rmtree(layout.root)


def logged(
    layout: RunLayout, steps: range, *, attempt: int = 1, resumed: int | None = None,
    close: bool = True,
) -> None:  # fmt: skip
    layout.attempt(attempt).mkdir(parents=True, exist_ok=True)
    attempts.write_pin(layout, Attempt(number=attempt, pin=Pin(), resumed_from=resumed))
    writer = Recorder(layout, run=RUN, attempt=attempt)
    for step in steps:
        writer.write(("a",), [float(step + attempt * 1000)], step, step * 10)
        writer.write(("t",), [step * 2.0], step, step * 10)
    writer.close() if close else writer._journal.close()


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    layout = RunLayout(tmp_path / f"run={RUN}")
    logged(layout, range(64))
    refresh_curves(layout, {"a": 64, "t": 64})
    return layout


def test_a_curve_that_holds_spares_the_points(layout: RunLayout) -> None:
    for part in layout.points.iterdir():
        part.write_bytes(b"damaged")
    found = curve(layout.root, "a", width=4)
    assert not found.is_raw
    assert found.problems == ()
    assert found.counts.tolist() == [16, 16, 16, 16]
    assert found.lo.tolist() == [1000.0, 1016.0, 1032.0, 1048.0]
    assert found.hi.tolist() == [1015.0, 1031.0, 1047.0, 1063.0]
    assert found.mid.tolist() == [1007.5, 1023.5, 1039.5, 1055.5]
    assert found.x.tolist() == [7.5, 23.5, 39.5, 55.5]


def test_what_came_after_the_curve_is_added(layout: RunLayout) -> None:
    logged(layout, range(64, 80), attempt=2, close=False)
    for part in layout.points.iterdir():
        part.write_bytes(b"damaged")  # it is in the curve
    found = curve(layout.root, "a", width=5)
    assert not found.is_raw
    assert (found.num_points, found.hi[-1]) == (80, 2079.0)


def test_a_resume_cuts_the_curve_where_it_began(layout: RunLayout) -> None:
    logged(layout, range(35, 45), attempt=2, resumed=34, close=False)
    found = curve(layout.root, "a", width=2)
    assert not found.is_raw
    points = [(step, value) for step, _, value in points_of(layout, "a")]
    assert len(points) == 45
    require_right(found, points)
    assert found.hi.max() == 2044.0


def test_a_close_look_is_taken_at_the_points(layout: RunLayout) -> None:
    found = curve(layout.root, "a", width=8, since=20, until=27)
    assert found.is_raw
    assert found.first_step.tolist() == list(range(20, 28))
    assert found.x.tolist() == list(range(20, 28))


def test_a_damaged_curve_is_done_without(layout: RunLayout) -> None:
    whole = layout.curves.read_bytes()
    for content in (b"", whole[:-3], whole[:40] + b"\0" * 40 + whole[80:]):
        layout.curves.write_bytes(content)
        found = curve(layout.root, "a", width=4)
        assert found.is_raw
        assert found.counts.tolist() == [16, 16, 16, 16]
        assert found.problems == ()


def test_points_that_cannot_be_read_are_named(layout: RunLayout) -> None:
    logged(layout, range(64, 70), attempt=2)
    part = next(layout.points.glob("part-a2-*"))
    part.write_bytes(b"damaged")
    found = curve(layout.root, "a", width=4)
    assert found.problems == (f"{part.name} is damaged",)
    assert found.num_points == 64


def test_the_axis_is_steps_time_or_another_series(layout: RunLayout) -> None:
    assert curve(layout.root, "a", width=4, x="time").x.tolist() == [75.0, 235.0, 395.0, 555.0]
    found = curve(layout.root, "a", width=4, x="t")
    assert found.x.tolist() == [15.0, 47.0, 79.0, 111.0]
    assert found.counts.tolist() == [16, 16, 16, 16]
    with pytest.raises(NotFound, match="no series train/tokens"):
        curve(layout.root, "a", width=4, x="tokens")


def test_a_run_without_the_series_has_no_column(layout: RunLayout) -> None:
    found = curve(layout.root, "none", width=4)
    assert (len(found.x), found.num_points) == (0, 0)
    with pytest.raises(BadInput, match="a plot of 0 columns"):
        curve(layout.root, "a", width=0)


def test_steps_of_many_digits_keep_their_columns(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path / f"run={RUN}")
    layout.attempt(1).mkdir(parents=True)
    writer = Recorder(layout, run=RUN, attempt=1)
    steps = [-(2**63) + 1, -5, 2**62, 2**63 - 2, 2**63 - 1]
    for step in steps:
        writer.write(("a",), [1.0], step, 0)
    writer.close()
    found = curve(layout.root, "a", width=4)
    assert found.first_step.tolist() == [steps[0], -5, steps[2]]
    assert found.counts.tolist() == [1, 1, 3]


def test_an_open_store_draws_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "SEAL_POINTS", 10)
    monkeypatch.chdir(tmp_path)
    config = {"expdb": {"print": "quiet"}}
    with expdb.start(config, name="long", store=tmp_path / "runs") as run:
        for step in range(40):
            run.log({"loss": float(step)}, step)
    assert (run.dir / "curves.parquet").is_file()
    found = expdb.open(tmp_path / "runs").curve("loss", run="long", width=4)
    assert not found.is_raw
    assert (found.num_points, found.lo.min(), found.hi.max()) == (40, 0.0, 39.0)
    with expdb.start(config, name="short", store=tmp_path / "runs") as run:
        run.log({"loss": 1.0}, 1)
    assert not (run.dir / "curves.parquet").exists()


@pytest.mark.parametrize("sealed", [False, True])
def test_a_step_that_is_logged_again_replaces_what_the_curve_has(
    layout: RunLayout, sealed: bool
) -> None:
    logged(layout, range(60, 70), attempt=2, close=sealed)  # it declares no resume
    for width in (1, 2, 4):
        found = curve(layout.root, "a", width=width)
        assert not found.is_raw
        require_right(found, [(step, value) for step, _, value in points_of(layout, "a")])
        assert found.num_points == 70
