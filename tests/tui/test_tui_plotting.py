from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len

from expdb_tui.marks import marks
from expdb_tui.plotting.axis import Axis, label, labels, ticks, value_axis, x_text
from expdb_tui.plotting.draw import draw
from expdb_tui.plotting.plot import Event, Line, Plot
from expdb_tui.plotting.raster import Raster
from expdb_tui.plotting.smooth import default_window, in_columns, next_window, smoothed

NAN = math.nan


def line(values, *, x=None, place=1, points=None, **more) -> Line:
    mid = np.array(values, np.float64)
    at = np.arange(len(mid), dtype=np.float64) if x is None else np.array(x, np.float64)
    return Line(
        x=at, low=mid, high=mid, mid=mid, place=place,
        num_points=len(mid) if points is None else points, **more,
    )  # fmt: skip


def plot(*lines, is_log=False, x_high=None, **more) -> Plot:
    far = max((float(one.x[-1]) for one in lines if len(one.x)), default=1.0)
    return Plot(
        key=more.pop("key", "train/loss"), lines=lines, is_log=is_log,
        x_high=far if x_high is None else x_high, **more,
    )  # fmt: skip


def shown(what: Plot, width=60, height=16, *, ascii=False) -> list[str]:
    rows = draw(what, width, height, marks(ascii), ascii=ascii)
    assert len(rows) == height
    for row in rows:
        assert cell_len("".join(text for text, _ in row)) == width
    return ["".join(text for text, _ in row) for row in rows]


def roles(what: Plot, width=60, height=16) -> set[str]:
    return {role for row in draw(what, width, height, marks(False), ascii=False) for _, role in row}


# ------------------------------------------------------------------------------------- raster


def dots_of(raster: Raster) -> set[tuple[int, int]]:
    found = set()
    bits = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]]
    for row, pieces in enumerate(raster.rows()):
        for cell, char in enumerate("".join(text for text, _ in pieces)):
            code = ord(char) - 0x2800
            for down in range(4):
                for right in range(2):
                    if code > 0 and code & bits[down][right]:
                        found.add((cell * 2 + right, row * 4 + down))
    return found


def test_a_line_has_the_dots_on_its_way():
    raster = Raster(4, 2)
    raster.line(np.array([0.0, 7.0]), np.array([0.0, 7.0]), "text")
    assert dots_of(raster) == {(at, at) for at in range(8)}


def test_a_nan_breaks_a_line_and_a_point_alone_is_seen():
    raster = Raster(4, 1)
    raster.line(np.array([0.0, 1, 2, 3, 4, 7]), np.array([0.0, 0, NAN, 0, NAN, 0]), "text")
    assert dots_of(raster) == {(0, 0), (1, 0), (3, 0), (7, 0)}


def test_a_line_from_far_outside_keeps_its_slope():
    raster = Raster(10, 5)
    raster.line(np.array([-10.0, 30.0]), np.array([-10.0, 30.0]), "text")
    assert dots_of(raster) == {(at, at) for at in range(20)}
    steep = Raster(10, 5)
    steep.line(np.array([5.0, 6.0, 7.0]), np.array([10.0, 1e300, 10.0]), "text")
    assert {(5, at) for at in range(10, 20)} <= dots_of(steep)
    assert not any(y < 9 for _, y in dots_of(steep))


def test_a_dotted_line_has_every_third_dot():
    raster = Raster(6, 1)
    raster.line(np.array([0.0, 11.0]), np.array([0.0, 0.0]), "faint", every=3)
    assert dots_of(raster) == {(0, 0), (3, 0), (6, 0), (9, 0)}


def test_a_tint_gives_way_to_a_line_and_the_later_line_gives_the_colour():
    raster = Raster(2, 1)
    column = np.array([0.0, 1, 2, 3])
    raster.tint(column, np.full(4, 3.0), np.zeros(4), "tint1")
    raster.line(np.array([0.0, 1.0]), np.array([0.0, 0.0]), "series1")
    raster.line(np.array([0.0, 1.0]), np.array([3.0, 3.0]), "series2")
    (row,) = raster.rows()
    assert row[0] == (chr(0x2800 + 0x01 + 0x08 + 0x40 + 0x80), "series2")
    assert row[1][1] == "tint1"


def test_in_ascii_a_cell_is_one_letter():
    raster = Raster(3, 1, ascii=True)
    raster.line(np.array([0.0, 3.0]), np.array([0.0, 0.0]), "series1", "b")
    assert "".join(text for text, _ in raster.rows()[0]) == "bb "


# --------------------------------------------------------------------------------------- axis


@pytest.mark.parametrize(
    ("low", "high", "is_log"),
    [
        (0.0, 1.0, False), (-1e308, 1e308, False), (1e308, 1e308, False), (0.0, 0.0, False),
        (5e-324, 5e-324, False), (0.0, 5e-324, False), (-3.0, -3.0, False), (1e-320, 1e308, True),
        (2.0, 2.0, True), (1e308, 1.7e308, True), (1.0, 1.0 + 1e-15, False), (1.7, 5.6, True),
    ],
)  # fmt: skip
def test_an_axis_holds_its_values_and_has_finite_ticks(low, high, is_log):
    axis = value_axis([low], [high], is_log=is_log, key="x")
    places = axis.place(np.array([low, high]), 40)
    assert np.isfinite(places).all()
    assert (places >= -0.01).all()
    assert (places <= 39.01).all()
    found = ticks(axis, 5)
    assert found
    assert all(math.isfinite(value) for value in found)
    assert len(found) <= 8


def test_a_log_axis_has_the_coarsest_round_ticks():
    assert ticks(Axis(0.9, 1100.0, True), 8) == [1, 10, 100, 1000]
    assert ticks(Axis(1.5, 6.0, True), 8) == [1.5, 2, 3, 5]
    assert ticks(Axis(1.5, 6.0, True), 2) == [2, 5]


def test_shares_rates_and_sizes_begin_at_zero():
    for key in ("moe/dead_share", "train/tokens_per_s", "train/step_time_s", "sys/mem_bytes"):
        assert value_axis([90.0], [100.0], is_log=False, key=key).low == 0.0
    assert value_axis([90.0], [100.0], is_log=False, key="val/loss").low > 80.0


def test_the_ends_of_an_axis_move_in_steps():
    highs = {value_axis([0.0], [100 + at / 10], is_log=False, key="x").high for at in range(10)}
    assert len(highs) <= 2


def test_ticks_are_short_and_told_apart():
    assert [label(v) for v in (0, 0.5, 3e-4, 20_000, 1.2e6, 3.4e9, 1e308)] == [
        "0", "0.5", "3e-4", "20k", "1.2M", "3.4B", "1e308",
    ]  # fmt: skip
    assert labels([1.0001, 1.0002, 1.0003]) == ["1.0001", "1.0002", "1.0003"]
    assert labels([-0.1, -1.4e-17, 0.1]) == ["-0.1", "0", "0.1"]
    assert [x_text(v, "time") for v in (45, 60, 95, 4800, 90_000)] == [
        "45s", "1m", "1m35", "1h20", "1d01h",
    ]  # fmt: skip
    assert [x_text(v, "step") for v in (0, 300, 12_000, 2e6)] == ["0", "300", "12000", "2M"]


# ------------------------------------------------------------------------------------- smooth


def test_a_centred_mean_does_not_lag_and_keeps_gaps():
    values = np.array([1.0, 2, 3, NAN, 10, 20])
    found = smoothed(values, 3)
    np.testing.assert_allclose(found, [1.5, 2, 2.5, NAN, 15, 15])


def test_a_mean_does_not_cross_a_border_of_attempts():
    found = smoothed(np.array([1.0, 1, 1, 9, 9, 9]), 5, breaks=[3])
    np.testing.assert_allclose(found, [1, 1, 1, 9, 9, 9])


def test_a_spike_leaves_what_is_behind_it_as_it_was():
    values = np.array([1.0] * 10 + [1e300] + [1.0] * 30)
    np.testing.assert_allclose(smoothed(values, 5)[13:], 1.0)
    assert np.isfinite(smoothed(np.full(9, 1.5e308), 5)).all()


def test_windows_go_by_the_points():
    assert default_window(300) == 15
    assert [next_window(15, 1), next_window(1, -1), next_window(150_001, 1)] == [51, 1, 150_001]
    assert in_columns(50_001, 200, 1_000_000) == 9
    assert in_columns(15, 200, 1_000_000) == 1


# --------------------------------------------------------------------------------------- draw

ODD = {
    "empty": plot(),
    "no points": plot(line([])),
    "nan only": plot(line([NAN] * 5, gap_x=(143.0,))),
    "one point": plot(line([2.0])),
    "constant": plot(line([3.0] * 40)),
    "zero": plot(line([0.0] * 40), is_log=True),
    "huge": plot(line([1e308, -1e308, 1e308])),
    "huge log": plot(line([1e-300, 1e308, 1.0]), is_log=True),
    "negative log": plot(line([-1.0, -2.0, 3.0, 4.0]), is_log=True),
    "all negative log": plot(line([-1.0, -2.0]), is_log=True),
    "infinite": plot(line([1.0, math.inf, 2.0, -math.inf])),
    "no width": plot(line([1.0, 2.0], x=[5, 5]), x_high=0.0),
    "wide name": plot(line([1.0, 2.0]), title=[("負荷/損失 値", "text+bold")], key="負荷/損失"),
    "long title": plot(line([1.0, 2.0]), title=[("x" * 200, "text")]),
    "markup": plot(line([1.0, 2.0]), title=[("time [/s] [red]x", "text")]),
    "control": plot(line([1.0, 2.0]), title=[("a\x1b[31mb", "text")]),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("size", [(60, 16), (58, 9), (20, 5), (16, 4), (10, 3), (200, 50)])
@pytest.mark.parametrize("ascii", [False, True])
def test_whatever_the_values_the_rows_are_as_wide_as_asked(name, size, ascii):
    for more in ({}, {"crosshair": 1.0, "is_clipped": True, "has_borders": True}):
        shown(replace(ODD[name], **more), *size, ascii=ascii)


def test_ascii_draws_in_ascii_alone():
    rows = shown(
        plot(line(np.linspace(5, 1, 50)), line(np.linspace(4, 2, 50), place=0)), ascii=True
    )
    assert all(row.isascii() for row in rows)


def test_nothing_finite_says_since_when():
    assert any("NaN from step 143" in row for row in shown(ODD["nan only"]))
    assert any("no points yet" in row for row in shown(ODD["empty"]))


def test_what_a_logarithm_cannot_show_is_counted():
    assert "2 values <= 0 not shown" in shown(ODD["negative log"])[0]
    assert "not shown" not in shown(ODD["all negative log"])[0]


def test_the_worst_of_several_events_in_one_cell_is_shown():
    events = [
        Event(x=50, role="fail", sign="!", weight=2), Event(x=50, role="warn", sign="w", weight=1),
    ]  # fmt: skip
    row = draw(plot(line(np.ones(100)), events=events), 60, 16, marks(False), ascii=False)[0]
    assert ("!", "fail+bold") in row
    assert "w" not in "".join(text for text, _ in row)


def test_a_gap_has_its_sign_over_it_and_the_title_wins():
    gap = plot(line([1, 2, NAN, 2, 1], gap_x=(2.0,)))
    (at,) = [at for at, char in enumerate(shown(gap)[0]) if char == "×"]
    assert at == 7 + 1 + (60 - 8) // 2 - 1
    assert "×" not in shown(replace(gap, title=[("x" * 40, "text")]))[0]


def test_a_border_of_attempts_is_named_and_drawn():
    two = plot(line(np.ones(100), borders=((50.0, "a2"),)))
    assert "a2" not in shown(two)[0]
    rows = shown(replace(two, has_borders=True))
    assert "a2" in rows[0]
    assert sum("┊" in row for row in rows) > 8


def test_a_clipped_spike_has_an_arrow_in_the_first_row():
    values = [1.0 + at % 7 / 10 for at in range(300)]
    values[150] = 500.0
    assert "↑" not in "".join(shown(plot(line(values))))
    assert "↑" in shown(plot(line(values), is_clipped=True))[1]


def test_ends_at_one_place_are_pushed_apart():
    lines = [line(np.ones(50), place=place) for place in range(4)]
    rows = shown(plot(*lines))
    for sign in "●■◆★":
        assert sum(row.rstrip().endswith(sign) for row in rows) == 1


def test_the_crosshair_has_its_place_at_the_foot_and_hides_ticks_near_it():
    rows = draw(
        plot(line(np.linspace(1, 2, 301)), crosshair=205.0), 60, 16, marks(False), ascii=False
    )
    assert (" 205 ", "bg+on-accent") in rows[-1]
    assert "200" not in "".join(text for text, _ in rows[-1])
    assert sum("│" in text for row in rows[1:-2] for text, role in row if role == "accent") > 5


def test_the_crosshair_hides_no_mark():
    lines = [line(np.ones(50), place=place) for place in range(4)]
    rows = shown(plot(*lines, crosshair=49.0))
    assert all(sum(sign in row for row in rows) for sign in "●■◆★")


def test_a_reference_is_dotted_and_has_no_mark():
    reference = plot(line(np.linspace(5, 1, 50), place=0, is_reference=True))
    assert "faint" in roles(reference)
    assert "●" not in "".join(shown(reference))


def test_envelopes_are_left_out_above_four_lines():
    def noisy(place):
        mid = np.linspace(5, 1, 50)
        return replace(line(mid, place=place, points=500), low=mid * 0.8, high=mid * 1.2)

    assert "tint3" in roles(plot(*[noisy(place) for place in range(4)]))
    assert not [r for r in roles(plot(*[noisy(place) for place in range(5)])) if "tint" in r]


def test_a_band_is_filled_at_every_column():
    mid = np.array([1.0, 2.0, 3.0])
    band = replace(line(mid), low=mid - 0.9, high=mid + 0.9, is_band=True)
    rows = draw(plot(band), 60, 16, marks(False), ascii=False)
    cells = sum(len(text) for row in rows for text, role in row if role == "tint1")
    assert cells > 200


def test_six_curves_with_envelopes_draw_in_a_few_milliseconds():
    import time

    rng = np.random.default_rng(1)
    mid = 2 + 3 * np.exp(-np.linspace(0, 6, 240)) + rng.normal(0, 0.1, 240)
    lines = [
        replace(line(mid + place / 10, place=place, points=9999), low=mid * 0.9, high=mid * 1.1)
        for place in range(4)
    ]
    what = plot(*lines, is_log=True, window=15)
    begun = time.process_time()
    for _ in range(5):
        draw(what, 120, 34, marks(False), ascii=False)
    assert (time.process_time() - begun) / 5 < 0.2
