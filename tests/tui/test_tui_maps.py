from __future__ import annotations

import math

import numpy as np
import pytest
from rich.cells import cell_len

from expdb.query.results import Outcome
from expdb_tui.marks import marks
from expdb_tui.palette import ALL
from expdb_tui.plotting.forest import Row, forest_rows
from expdb_tui.plotting.heat import (
    EMPTY,
    LEVELS,
    NAN,
    Heat,
    Series,
    gridded,
    heat_rows,
    levels_of,
    shades_of,
    short_module,
)
from expdb_tui.plotting.radar import Polygon, above_chance, fits, radar_rows
from expdb_tui.run.texts import wrapped

NAN_F = math.nan


def series(name: str, values, *, every: int = 1) -> Series:
    return Series(
        name=name,
        steps=np.arange(len(values), dtype=np.int64) * every,
        values=np.array(values, np.float64),
    )


def texts(rows) -> list[str]:
    return ["".join(text for text, _ in row) for row in rows]


# --------------------------------------------------------------------------------------- heat


def test_a_column_is_the_mean_of_its_steps():
    grid = gridded([series("a", [1, 3, 5, 7])], 2, is_z=False)
    assert grid.values.tolist() == [[2, 6]]
    assert grid.width == 2


def test_what_is_logged_every_tenth_step_has_no_stripes_and_a_hole_stays_one():
    whole = gridded([series("a", [1, 2, 3], every=10)], 100, is_z=False)
    assert np.isfinite(whole.values).all()
    steps = np.array([0, 1, 2, 20, 21], np.int64)
    torn = gridded([Series(name="a", steps=steps, values=np.ones(5))], 100, is_z=False)
    assert np.isnan(torn.values[0, 5:18]).all()


def test_nan_has_its_own_level_and_so_has_nothing():
    bad = Series(name="b", steps=np.array([1], np.int64), values=np.array([NAN_F]))
    grid = gridded([series("a", [1, 10, 100, 1000]), bad], 4, is_z=False)
    levels, low, high = levels_of(grid, is_log=True)
    assert levels[0, 0] == 0
    assert levels[0, -1] == LEVELS - 1
    assert levels[1].tolist() == [EMPTY, NAN, EMPTY, EMPTY]
    assert 1 <= low < high <= 1000


@pytest.mark.parametrize(
    "values",
    [[], [0.0] * 5, [NAN_F] * 5, [1e308, 1e-308, 1.0], [-1.0, -2.0], [math.inf, 1.0], [1.0]],
)
@pytest.mark.parametrize("size", [(80, 20), (120, 6), (40, 3), (200, 50)])
@pytest.mark.parametrize("ascii", [False, True])
def test_whatever_the_values_the_map_is_as_large_as_asked(values, size, ascii):
    width, height = size
    heat = Heat(
        series=[series("負荷.0.注意", values), series("head", values)], column=0, cursor=1,
        events=[(3, "!", "fail"), (10**9, "!", "warn")],
    )  # fmt: skip
    palette = ALL["dark", "true"]
    for is_log, is_z in ((True, False), (False, False), (True, True)):
        heat = Heat(
            series=heat.series, column=0, cursor=1, events=heat.events, is_log=is_log, is_z=is_z
        )
        shades = [] if ascii else shades_of("true", palette.heat)
        rows, _ = heat_rows(heat, width, height, marks(ascii), shades, ascii=ascii)
        assert len(rows) <= height
        assert all(cell_len(text) == width for text in texts(rows))


def test_more_modules_than_rows_stand_two_in_a_cell_with_the_cursor_s_name():
    many = [series(f"m{at}", [at + 1.0, 100.0 - at]) for at in range(30)]
    shades = shades_of("true", ALL["dark", "true"].heat)
    heat = Heat(series=many, cursor=7)
    rows, _ = heat_rows(heat, 80, 17, marks(False), shades, ascii=False)
    shown = texts(rows)
    assert len(rows) == 17
    assert any("▀" in row for row in shown)
    assert any("▌m7 " in row for row in shown)
    assert not any(" m6 " in row for row in shown)


def test_each_depth_of_colours_has_its_shades():
    for (_ground, depth), palette in ALL.items():
        shades = shades_of(depth, palette.heat)
        assert len(shades) == (0 if depth == "16" else LEVELS)
        if depth == "256":
            assert set(shades) <= set(palette.heat)
    assert short_module("blocks.10.attn.q") == "b10.attn.q"
    assert short_module("model.layers.2.mlp") == "l2.mlp"
    assert short_module("blocks.norm") == "blocks.norm"


# -------------------------------------------------------------------------------------- radar


def test_a_radar_says_something_only_with_room_and_axes():
    assert fits(5, 40, 11)
    assert not fits(2, 80, 30)
    assert not fits(9, 80, 30)
    assert not fits(5, 39, 30)
    assert not fits(5, 80, 10)


def test_the_centre_is_chance_and_the_rim_is_one():
    assert above_chance(0.25, 0.25) == 0
    assert above_chance(1.0, 0.25) == 1
    assert above_chance(0.625, 0.25) == 0.5
    axes = ["up", "right", "left"]
    rim = radar_rows(axes, [Polygon(place=1, scores=[1, 1, 1])], 60, 20, marks(False), ascii=False)
    at = [row for row, text in enumerate(texts(rim)) if "■" in text]
    assert min(at) <= 2
    middle = radar_rows(
        axes, [Polygon(place=1, scores=[0, 0, 0])], 60, 20, marks(False), ascii=False
    )
    assert [row for row, text in enumerate(texts(middle)) if "■" in text] in ([9], [10])


def test_a_missing_score_breaks_the_polygon():
    whole = Polygon(place=1, scores=[1, 1, 1, 1])
    torn = Polygon(place=1, scores=[1, None, 1, 1])

    def blue(polygon):
        rows = radar_rows(["a", "b", "c", "d"], [polygon], 60, 20, marks(False), ascii=False)
        return sum(len(text) for row in rows for text, role in row if role == "series1")

    assert blue(torn) < blue(whole)
    assert blue(torn) < blue(Polygon(place=1, scores=[1, 0, 1, 1]))


@pytest.mark.parametrize("size", [(40, 11), (60, 20), (120, 40)])
@pytest.mark.parametrize(
    "axes", [["負荷試験の長い名前", "b", "c"], [f"task{at}" for at in range(8)]]
)
def test_a_radar_is_as_large_as_asked(size, axes):
    for ascii in (False, True):
        scores = [0.5, NAN_F, 7.0, -1.0, None, 0.1, 0.2, 0.3][: len(axes)]
        polygons = [Polygon(place=at, scores=scores) for at in (1, 0)]
        rows = radar_rows(axes, polygons, *size, marks(ascii), ascii=ascii)
        assert len(rows) == size[1]
        assert all(cell_len(text) == size[0] for text in texts(rows))


# ------------------------------------------------------------------------------------- forest


def row(name, base, value, half=None, outcome=None) -> Row:
    return Row(name=name, base=base, value=value, half=half, outcome=outcome)


def test_a_row_beyond_the_noise_is_thick_and_one_inside_is_thin():
    rows = [
        row("cloze", 0.5, 0.4, 0.05, Outcome.WORSE),
        row("arith", 0.5, 0.49, 0.05, Outcome.NO_DIFFERENCE),
        row("alone", None, 0.3),
    ]
    shown = texts(forest_rows(rows, 80, marks(False), place=1, ascii=False))
    assert "━" in shown[0]
    assert "▼" in shown[0]
    assert "─" in shown[1]
    assert "━" not in shown[1]
    assert "■" not in shown[2]
    assert "0.300" in shown[2]
    zero = shown[3].index("0", shown[3].index("-0.15") + 5)
    assert shown[0].index("■") < zero
    assert {cell_len(text) for text in shown} == {80}


@pytest.mark.parametrize("width", [40, 57, 80, 200])
def test_forest_rows_fit_whatever_the_values(width):
    rows = [
        row("負荷 [x]", 0.0, 0.0, 0.0, Outcome.NO_DIFFERENCE),
        row("x" * 60, 1e9, -1e9, 5.0, Outcome.WORSE), row("nan", 0.1, NAN_F, 0.1, None),
    ]  # fmt: skip
    for ascii in (False, True):
        shown = texts(forest_rows(rows, width, marks(ascii), place=2, ascii=ascii))
        assert {cell_len(text) for text in shown} == {width}


# --------------------------------------------------------------------------------------- text


@pytest.mark.parametrize(
    "text", ["", "a", "    indented", "a b c", "x" * 90, "日本語" * 20, "a  b"]
)
@pytest.mark.parametrize("width", [4, 7, 40])
def test_wrapped_text_fits_and_loses_nothing(text, width):
    rows = wrapped(text, width)
    assert all(cell_len(part) <= width for part in rows)
    assert "".join(rows).replace(" ", "") == text.replace(" ", "")
