from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from expdb.index.reader import open_reader
from expdb.model import Event
from expdb.store.store import open_store
from expdb_tui.marks import marks
from expdb_tui.plot.legend import LegendLook, legend_lines, legend_rows, value_of
from expdb_tui.plot.overlay import Asked, Entry, Overlay, banded, read_overlay
from expdb_tui.plot.view import View, plot_of, zoomed
from expdb_tui.plotting.plot import Line
from expdb_tui.session import Session
from expdb_tui.widgets.plotview import PlotView
from tests.tui.driving import drive, press, screen_of, settle

pytestmark = pytest.mark.slow

MANY = """\
import expdb

for at in range(10):
    for seed in (0, 1):
        cfg = {"seed": seed, "at": at, "objective": {"metric": "val/loss"}}
        with expdb.start(cfg, name=f"exp{at}" if at else "baseline", store="runs") as run:
            for step in range(1, 31):
                bad = at == 2 and step > 20
                loss = float("nan") if bad else 2.0 + at / 10 + seed / 100 + 3 / step
                run.log({"train/loss": loss, "train/tokens": 1000 * step}, step=step)
            run.log({"val/loss": 2.0 + at / 10}, step=30)
            if at == 3 and seed == 0:
                run.event(17, "warn", "loss_spike", "up")
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import os
    import subprocess
    import sys

    folder = tmp_path_factory.mktemp("many")
    (folder / "train.py").write_text(MANY)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(
        [sys.executable, "train.py"], cwd=folder, env=env, capture_output=True, check=True
    )
    return folder


@pytest.fixture
def session(many: Path) -> Session:
    return Session(store=open_store(many / "runs"), directory=many)


def text_of(app) -> str:
    return "\n".join(screen_of(app))


def of(values, *, place=1, x=None) -> Line:
    mid = np.array(values, np.float64)
    at = np.arange(len(mid), dtype=np.float64) if x is None else np.array(x, np.float64)
    return Line(x=at, low=mid, high=mid, mid=mid, place=place, num_points=len(mid))


def entry(values, *, place=1, label="exp", **more) -> Entry:
    return Entry(
        run=f"run{place}", label=label, place=place, line=of(values, place=place), is_live=False,
        **more,
    )  # fmt: skip


def overlay(*entries, **more) -> Overlay:
    return Overlay(
        key="train/loss", keys=("train/loss",), x="step", entries=entries,
        num_runs=len(entries), **more,
    )  # fmt: skip


def said(rows) -> str:
    return "\n".join("".join(text for text, _ in row) for row in rows)


# --------------------------------------------------------------------------------------- pure


def test_a_band_is_the_median_with_the_least_and_the_greatest():
    band = banded([of([1, 2, 3]), of([3, 4, 5]), of([2, 3, 10])], 100, 4)
    assert band is not None
    np.testing.assert_allclose(band.mid, [2, 3, 5])
    np.testing.assert_allclose(band.low, [1, 2, 3])
    np.testing.assert_allclose(band.high, [3, 4, 10])
    assert band.is_band
    assert band.place == 4


def test_a_band_goes_on_with_the_runs_that_are_longer():
    band = banded([of([1, 1, 1, 1, 1]), of([3, 3])], 100, 1)
    assert band is not None
    np.testing.assert_allclose(band.mid, [2, 2, 1, 1, 1])


def test_the_legend_has_the_value_at_the_crosshair_and_its_difference_to_the_baseline():
    what = overlay(entry([4, 3, 2], place=0, label="baseline"), entry([5, 4, 3.5], label="exp01"))
    rows = said(legend_rows(what, LegendLook(crosshair=1.0), 40, 20, marks(False)))
    assert "at step 1" in rows
    assert "3.000" in rows
    assert "+1.000" in rows
    rows = said(legend_rows(what, LegendLook(), 40, 20, marks(False)))
    assert "+1.500" in rows


def test_a_value_is_that_of_a_point_and_none_behind_the_end():
    one = entry([4, math.nan, 2])
    assert value_of(one, 0.2) == 4
    assert math.isnan(value_of(one, 1.0) or 0)
    assert value_of(one, 60.0) is None


def test_events_of_a_hidden_run_are_not_in_the_legend():
    event = Event(step=17, severity="warn", rule="loss_spike", message="up")
    what = overlay(entry([1, 2], events=(event,)))
    assert "loss_spike" in said(legend_rows(what, LegendLook(), 40, 20, marks(False)))
    hidden = LegendLook(hidden={"run1"})
    assert "loss_spike" not in said(legend_rows(what, hidden, 40, 20, marks(False)))


def test_above_the_plot_two_rows_say_how_many_more_there_are():
    what = overlay(*(entry([1, 2], place=at % 7, label=f"experiment{at}") for at in range(7)))
    rows = legend_lines(what, LegendLook(), 60, marks(False))
    assert len(rows) == 2
    assert said(rows).rstrip().endswith("+3")
    assert all(sum(len(text) for text, _ in row) <= 60 for row in rows)


def test_a_zoom_keeps_the_place_under_the_pointer_and_ends_at_the_whole():
    what = overlay(entry(np.ones(101)))
    near = zoomed(View(), what, 25.0, 1)
    assert near.zoom == (12.5, 62.5)
    assert zoomed(near, what, 25.0, -1).zoom is None
    deep = View()
    for _ in range(60):
        deep = zoomed(deep, what, 25.0, 1)
    assert deep.zoom is not None
    assert deep.zoom[1] - deep.zoom[0] >= 0.01


def test_a_live_run_has_the_axis_up_to_its_planned_end():
    assert plot_of(overlay(entry([1, 2, 3]), planned=300.0), View(), marks(False)).x_high == 300


# -------------------------------------------------------------------------------------- store


def test_more_than_six_runs_are_one_line_a_variant_and_the_rest_is_counted(session):
    with open_reader(session.store) as reader:
        rows = reader.rows("SELECT id, experiment, seed FROM runs ORDER BY experiment, seed")
        base = next(run for run, name, seed in rows if name == "baseline" and seed == 1)
        places = {run: 0 if run == base else 1 + at % 6 for at, (run, _, _) in enumerate(rows)}
        found = read_overlay(reader, Asked(runs=places, key=None), None, None)
    assert found.key == "train/loss"
    # The configs of two seeds differ in the seed alone, so they are one variant.
    assert [one.label for one in found.entries] == ["baseline", *(f"exp{at}" for at in range(1, 7))]
    assert [one.place for one in found.entries] == list(range(7))
    assert {one.num_seeds for one in found.entries} == {2}
    assert found.num_rest == 6
    assert found.rest is not None
    assert found.num_runs == 20
    band = found.entries[1].line
    assert band is not None
    np.testing.assert_allclose(band.high - band.low, 0.01, atol=1e-9)


def test_the_marked_runs_are_laid_over_each_other_and_answer_every_key(session):
    async def story(app, pilot):
        await press(app, pilot, "space", "down", "space", "4")
        assert app.screen.NUMBER == 4
        shown = text_of(app)
        assert "● " in shown
        assert "3 runs" in screen_of(app)[1]
        assert "train/loss   log" in screen_of(app)[1]
        view = app.screen.view
        for key in ("y", "plus", "v", "e", "A", "O"):
            before = app.screen.view
            await pilot.press(key)
            assert app.screen.view != before, key
        await settle(app, pilot)
        await pilot.press("y", "minus", "v", "e", "e", "A", "O")
        await settle(app, pilot)
        assert app.screen.view.has_bands == view.has_bands
        await press(app, pilot, "home")
        assert "at step 1 " in text_of(app)
        await press(app, pilot, "shift+right")
        assert "at step 11 " in text_of(app)
        await press(app, pilot, "greater_than_sign")
        assert "zoom" in screen_of(app)[1]
        await pilot.press("escape", "escape")
        await settle(app, pilot)
        assert "zoom" not in screen_of(app)[1]
        await press(app, pilot, "tab")
        assert "val/loss" in screen_of(app)[1]
        await press(app, pilot, "shift+tab", "x")
        assert "x tokens" in screen_of(app)[1]
        await press(app, pilot, "x")
        assert "x time" in screen_of(app)[1]
        await press(app, pilot, "x", "down", "space")
        plot = app.screen.query_one(PlotView).plot
        assert plot is not None
        assert len(plot.lines) == 2
        await press(app, pilot, "enter")
        assert app.screen.NUMBER == 2

    drive(session, story, size=(120, 36))


def test_the_mouse_names_a_place_zooms_and_drags(session):
    async def story(app, pilot):
        await press(app, pilot, "4")
        await pilot.click("#plot-view", offset=(30, 8))
        await settle(app, pilot)
        at = app.screen.view.crosshair
        assert at is not None
        assert 3 < at < 20
        await pilot.mouse_down("#plot-view", offset=(20, 8))
        await pilot.hover("#plot-view", offset=(40, 8))
        await pilot.mouse_up("#plot-view", offset=(40, 8))
        await settle(app, pilot)
        zoom = app.screen.view.zoom
        assert zoom is not None
        assert 0 < zoom[0] < zoom[1] < 30
        assert "loss_spike" not in text_of(app)

    drive(session, story)


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_it_fits_and_is_plain_on_a_poor_terminal(session, size):
    async def story(app, pilot):
        await press(app, pilot, "space", "space", "space", "4", "left")
        assert all(char.isascii() for char in text_of(app))
        assert "4 runs" in screen_of(app)[1]

    drive(session, story, size=size, ascii=True, depth="16")
