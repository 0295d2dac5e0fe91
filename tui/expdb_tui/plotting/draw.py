"""A plot as rows of text: one row of title and events, the data with its axes, one row of x.

Order: grid, borders of attempts, tints, lines with the baseline first and the marked last, the
crosshair where no line is, marks. No frame, no legend on the data, no markup in any label.

Invariant: the rows are exactly as wide and as many as asked for, whatever the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from expdb_tui.ink import Piece, fit
from expdb_tui.marks import Marks
from expdb_tui.plotting.axis import Axis, label, labels, ticks, value_axis
from expdb_tui.plotting.edges import GUTTER, border_signs, cell_of, foot, title_row, x_axis_of
from expdb_tui.plotting.plot import Event as Event
from expdb_tui.plotting.plot import Line as Line
from expdb_tui.plotting.plot import Plot as Plot
from expdb_tui.plotting.raster import Raster
from expdb_tui.plotting.smooth import in_columns, smoothed

FEW: Final = 30
"""Points up to which each is a block of its own."""
MOST_TINTS: Final = 4
TALL: Final = 9
"""Rows from which on the axis of x has a line."""
DOTTED: Final = 2
"""One of so many dots is drawn of a reference."""
MARK_EVERY: Final = 22
NEAR_END: Final = 6
"""Cells before the end of a line that have no mark but that of its end."""

Dots = NDArray[np.float64]


def draw(plot: Plot, width: int, height: int, signs: Marks, *, ascii: bool) -> list[list[Piece]]:
    """Return the rows of a plot."""
    if height < 4 or width < GUTTER + 8:
        return [fit(plot.title if row == 0 else (), width) for row in range(height)]
    has_line = height >= TALL
    across, down = width - GUTTER - 1, height - 2 - has_line
    lows, highs, num_hidden = _extent(plot)
    if not lows:
        return _nothing(plot, width, height, signs)
    is_log = plot.is_log and min(lows) > 0
    title = list(plot.title)
    if num_hidden:
        title.append((f"  {num_hidden:,} values <= 0 not shown", "dim"))
    y_axis = value_axis(lows, highs, is_log=is_log, key=plot.key)
    x_axis = x_axis_of(plot)
    raster = Raster(across, down, ascii=ascii)
    _draw_tints(plot, raster, x_axis, y_axis)
    placed = _draw_lines(plot, raster, x_axis, y_axis, signs)
    if plot.crosshair is not None:
        _draw_crosshair(plot.crosshair, raster, x_axis, signs)
    if plot.has_marks:
        _draw_marks(placed, raster, signs)
    if plot.is_clipped:
        _draw_arrows(placed, raster, "^" if ascii else "↑")
    named = _rows_of(y_axis, down)
    body = raster.rows(_ground(named, raster, x_axis, plot, "!" if ascii else "┊", signs))
    out = [title_row(plot, title, x_axis, across, width, signs)]
    for row in range(down):
        text = named.get(row, "")
        left = [*fit([(text, "faint")], GUTTER - 1, right=True), (" ", "")]
        out.append([*left, (signs.tick if text else signs.axis, "rule2"), *body[row]])
    return out + foot(x_axis, across, plot, width, signs, has_line=has_line)


def _extent(plot: Plot) -> tuple[list[float], list[float], int]:
    """Return the least and greatest values of the lines within the range of x, and how many
    points a logarithm cannot show.
    """
    lows: list[float] = []
    highs: list[float] = []
    hidden = 0
    for line in plot.lines:
        inside = (line.x >= plot.x_low) & (line.x <= plot.x_high)
        low, high = line.low[inside], line.high[inside]
        low, high = low[np.isfinite(low)], high[np.isfinite(high)]
        if plot.is_log:
            hidden += int(np.count_nonzero(line.mid[inside] <= 0)) if not line.is_rest else 0
            low, high = low[low > 0], high[high > 0]
            low = low if len(low) else high
        if not len(high) or not len(low):
            continue
        is_clipped = plot.is_clipped and len(low) > 10
        lows.append(float(np.percentile(low, 1)) if is_clipped else float(low.min()))
        highs.append(float(np.percentile(high, 99)) if is_clipped else float(high.max()))
    if plot.is_log and not lows and hidden:
        return _straight(plot)
    return lows, highs, hidden


def _straight(plot: Plot) -> tuple[list[float], list[float], int]:
    """Return the range of a plot of which no value has a logarithm: it is drawn without one."""
    finite = [line.mid[np.isfinite(line.mid)] for line in plot.lines]
    finite = [values for values in finite if len(values)]
    return [float(v.min()) for v in finite], [float(v.max()) for v in finite], 0


def _nothing(plot: Plot, width: int, height: int, signs: Marks) -> list[list[Piece]]:
    """Return a plot of nothing finite, which says so in its middle."""
    first = min((x for line in plot.lines for x in line.gap_x), default=None)
    said = f"NaN from {plot.x_label} {label(first)}" if first is not None else "no points yet"
    out: list[list[Piece]] = [fit(plot.title, width)]
    for row in range(1, height):
        sign = signs.axis if row < height - 1 else " "
        pieces: list[Piece] = [(" " * GUTTER, ""), (sign, "rule2")]
        if row == height // 2:
            room = (width - GUTTER - 1 - len(said)) // 2
            pieces += [(" " * max(0, room), ""), (said, "dim")]
        out.append(fit(pieces, width))
    return out


def _draw_tints(plot: Plot, raster: Raster, x_axis: Axis, y_axis: Axis) -> None:
    across, down = raster.dots
    num_lines = len([line for line in plot.lines if not line.is_rest])
    is_told = plot.has_tints and num_lines <= MOST_TINTS
    for line in sorted(plot.lines, key=lambda line: not line.is_rest):
        if not (line.is_rest or line.is_band or (_is_noise(line) and is_told)):
            continue
        x = x_axis.place(line.x, across)
        # What lies below a logarithm is filled down to the axis.
        low = np.nan_to_num(y_axis.place(line.low, down), nan=0.0)
        high = y_axis.place(line.high, down)
        if line.is_band or line.is_rest:
            x, low, high = _each_column(x, low, high, across)
        role = "rule2" if line.is_rest else f"tint{line.place}"
        raster.tint(x, down - 1 - low, down - 1 - high, role)


def _is_noise(line: Line) -> bool:
    """Tell whether the columns of a line hold enough points to have a range of their own."""
    return line.num_points > 2 * len(line.x) and not line.is_reference


def _each_column(x: Dots, low: Dots, high: Dots, across: int) -> tuple[Dots, Dots, Dots]:
    """Return a band at every column of dots: that of a few points is one shape as well."""
    good = np.isfinite(x) & np.isfinite(low) & np.isfinite(high)
    if good.sum() < 2:
        return x, low, high
    x, low, high = x[good], low[good], high[good]
    columns = np.arange(max(0, int(x[0])), min(across, int(x[-1]) + 1), dtype=np.float64)
    return columns, np.interp(columns, x, low), np.interp(columns, x, high)


def _draw_lines(
    plot: Plot, raster: Raster, x_axis: Axis, y_axis: Axis, signs: Marks
) -> list[tuple[Line, Dots, Dots]]:
    """Draw the lines, and return those that have a mark, with their places in dots."""
    across, down = raster.dots
    placed = []
    order = sorted(plot.lines, key=lambda one: (not one.is_reference, one.place != 0, one.place))
    for line in order:
        if line.is_rest:
            continue
        window = in_columns(plot.window, len(line.x), line.num_points)
        breaks = [int(np.searchsorted(line.x, x)) for x, _ in line.borders]
        x = x_axis.place(line.x, across)
        y = down - 1 - y_axis.place(smoothed(line.mid, window, breaks), down)
        if line.is_reference:
            raster.line(x, y, "faint", ".", every=DOTTED)
            continue
        letter, role = signs.series[line.place], f"series{line.place}"
        raster.line(x, y, role, letter)
        if line.num_points <= FEW:
            raster.points(x, y, role, letter)
        placed.append((line, x, y))
    return placed


def _draw_marks(placed: Sequence[tuple[Line, Dots, Dots]], raster: Raster, signs: Marks) -> None:
    """Put the mark of each series on its line, every so often and at its end."""
    across, down = raster.dots
    taken: set[tuple[int, int]] = set()
    ends: list[tuple[int, int, Line]] = []
    for number, (line, x, y) in enumerate(placed):
        good = np.flatnonzero(np.isfinite(x) & np.isfinite(y) & (x >= 0) & (x < across))
        if not len(good):
            continue
        wanted = range(MARK_EVERY // 2 + 5 * number, across // 2, MARK_EVERY)
        places = {
            int(good[np.argmin(np.abs(x[good] / 2 - cell))])
            for cell in (wanted if len(placed) > 1 else ())
            if x[good[0]] / 2 <= cell <= x[good[-1]] / 2 - NEAR_END
        }
        last = int(good[-1])
        for at in sorted(places - {last}):
            cell, row = int(x[at]) // 2, int(np.clip(y[at], 0, down - 1)) // 4
            if (cell, row) not in taken:
                taken.add((cell, row))
                raster.put(cell, row, signs.series[line.place], f"series{line.place}+bold")
        ends.append((int(x[last]) // 2, int(np.clip(y[last], 0, down - 1)) // 4, line))
    _put_ends(ends, taken, raster, signs)


def _put_ends(
    ends: Sequence[tuple[int, int, Line]], taken: set[tuple[int, int]], raster: Raster, signs: Marks
) -> None:
    """Put the marks at the ends of lines: those of one place are pushed apart by whole rows."""
    used: set[tuple[int, int]] = set()
    for cell, row, line in sorted(ends, key=lambda end: end[1]):
        near = sorted(range(raster.height), key=lambda at: (abs(at - row), at < row))
        row = next((at for at in near if (cell, at) not in used), row)
        used.add((cell, row))
        raster.put(cell, row, signs.series[line.place], f"series{line.place}+bold")


def _draw_arrows(placed: Sequence[tuple[Line, Dots, Dots]], raster: Raster, sign: str) -> None:
    """Say in the first row where a line leaves the range."""
    across, _ = raster.dots
    for line, x, y in placed:
        with np.errstate(invalid="ignore"):
            over = x[(y < 0) & (x >= 0) & (x < across)]
        for cell in {int(at) // 2 for at in over}:
            raster.put(cell, 0, sign, f"series{line.place}+bold")


def _draw_crosshair(at: float, raster: Raster, x_axis: Axis, signs: Marks) -> None:
    cell = cell_of(x_axis, at, raster.width)
    for row in range(raster.height):
        if not raster.has_line(cell, row):
            raster.put(cell, row, signs.divider, "accent")


def _rows_of(axis: Axis, down: int) -> dict[int, str]:
    """Return row -> the tick that is named there."""
    values = ticks(axis, max(2, down // 3))
    places = axis.place(np.array(values, np.float64), down * 4)
    out: dict[int, str] = {}
    for text, dot in zip(labels(values), places.tolist(), strict=True):
        row = (down * 4 - 1 - int(np.clip(dot, 0, down * 4 - 1))) // 4
        if not out or all(abs(row - other) > 1 for other in out):
            out[row] = text
    return out


def _ground(
    named: dict[int, str], raster: Raster, x_axis: Axis, plot: Plot, dotted: str, signs: Marks
) -> dict[tuple[int, int], Piece]:
    """Return what stands behind the data: dots at the ticks' rows, borders, what events hang."""
    out: dict[tuple[int, int], Piece] = {
        (row, cell): (signs.grid, "rule") for row in named for cell in range(3, raster.width, 4)
    }
    cells = {cell: "rule2" for cell, _, _ in border_signs(plot, x_axis, raster.width)}
    cells |= {
        cell_of(x_axis, event.x, raster.width): event.role for event in plot.events if event.is_open
    }
    for cell, role in cells.items():
        if 0 <= cell < raster.width:
            out |= {(row, cell): (dotted, role) for row in range(raster.height)}
    return out
