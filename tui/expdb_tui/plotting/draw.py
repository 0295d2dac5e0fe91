"""A plot as rows of text: one row of title and events, the data with its axes, one row of x.

Order: grid, tints, lines with the baseline first and the marked last, marks, crosshair. No frame,
no legend on the data, no markup in any label.

Invariant: the rows are exactly as wide and as many as asked for, whatever the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from expdb.text import plain
from expdb_tui.ink import Piece, between, fit
from expdb_tui.marks import Marks
from expdb_tui.plotting.axis import Axis, label, ticks, value_axis
from expdb_tui.plotting.raster import Raster
from expdb_tui.plotting.smooth import smoothed

GUTTER: Final = 7
"""Cells left of the axis, for the ticks."""
FEW: Final = 30
"""Points up to which each is a block of its own."""
MOST_TINTS: Final = 4
X_TICK: Final = 14
"""Cells from one tick of x to the next, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series on a plot; all arrays are [n], in the order of x."""

    x: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    mid: NDArray[np.float64]
    """NaN where no value is finite."""
    place: int
    """Its place among the series, which gives colour and mark; 0 is the baseline's."""
    num_points: int
    num_nonfinite: int = 0
    gap_x: tuple[float, ...] = ()
    """Where values are not finite."""
    is_reference: bool = False
    """Whether it is only there to be compared with: faint and dotted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at an x."""

    x: float
    role: str
    sign: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What a plot shows."""

    key: str
    lines: Sequence[Line]
    is_log: bool
    title: Sequence[Piece] = ()
    window: int = 1
    x_low: float = 0.0
    x_high: float = 1.0
    events: Sequence[Event] = ()
    borders: Sequence[float] = ()
    """Where attempts begin."""
    crosshair: float | None = None
    is_clipped: bool = False
    has_tints: bool = True
    has_marks: bool = True
    x_label: str = "step"
    extra: Sequence[Piece] = field(default=())
    """At the right end of the title."""


def draw(plot: Plot, width: int, height: int, signs: Marks, *, ascii: bool) -> list[list[Piece]]:
    """Return the rows of a plot."""
    if height < 4 or width < GUTTER + 8:
        return [fit(plot.title, width) if row == 0 else fit((), width) for row in range(height)]
    across, down = width - GUTTER - 1, height - 2
    lows, highs = _extent(plot)
    title = list(plot.title)
    if not lows:
        return _nothing(plot, title, width, height, signs)
    hidden = sum(int(np.count_nonzero(line.mid <= 0)) for line in plot.lines) if plot.is_log else 0
    is_log = (plot.is_log and min(lows) > 0) or (plot.is_log and _positive(plot))
    if is_log and min(lows) <= 0:
        lows = [value for value in lows if value > 0] or [min(v for v in highs if v > 0)]
        highs = [value for value in highs if value > 0]
    if hidden:
        title.append((f"  {hidden} values <= 0 not shown", "dim"))
    y_axis = value_axis(lows, highs, is_log=is_log, key=plot.key)
    x_axis = Axis(plot.x_low, plot.x_high if plot.x_high > plot.x_low else plot.x_low + 1)
    raster = Raster(across, down, ascii=ascii)
    _draw_lines(plot, raster, x_axis, y_axis, signs)
    named = _rows_of(y_axis, down)
    body = raster.rows(_grid(named, raster, x_axis, plot, signs))
    out = [_title_row(plot, title, x_axis, across, width, signs)]
    for row in range(down):
        text = named.get(row, "")
        sign = signs.tick if text else signs.axis
        out.append([(f"{text:>{GUTTER - 1}} ", "faint"), (sign, "rule2"), *body[row]])
    out.append(_foot(x_axis, across, plot, signs))
    return out


def _extent(plot: Plot) -> tuple[list[float], list[float]]:
    """Return the least and greatest values of the lines within the range of x."""
    lows: list[float] = []
    highs: list[float] = []
    for line in plot.lines:
        inside = (line.x >= plot.x_low) & (line.x <= plot.x_high)
        low, high = line.low[inside], line.high[inside]
        low, high = low[np.isfinite(low)], high[np.isfinite(high)]
        if not len(low):
            continue
        if plot.is_clipped and len(low) > 10:
            lows.append(float(np.percentile(low, 1)))
            highs.append(float(np.percentile(high, 99)))
        else:
            lows.append(float(low.min()))
            highs.append(float(high.max()))
        if plot.is_log and lows[-1] <= 0 and (low > 0).any():
            lows[-1] = float(low[low > 0].min())
    return lows, highs


def _positive(plot: Plot) -> bool:
    return any(bool((line.high > 0).any()) for line in plot.lines)


def _nothing(
    plot: Plot, title: list[Piece], width: int, height: int, signs: Marks
) -> list[list[Piece]]:
    """Return a plot of nothing finite, which says so in its middle."""
    first = min((x for line in plot.lines for x in line.gap_x), default=None)
    said = f"NaN from {plot.x_label} {label(first)}" if first is not None else "no points yet"
    out: list[list[Piece]] = [fit(title, width)]
    for row in range(1, height):
        is_middle = row == height // 2
        pieces: list[Piece] = [
            (" " * GUTTER, ""),
            (signs.axis if row < height - 1 else " ", "rule2"),
        ]
        if is_middle:
            room = (width - GUTTER - 1 - len(said)) // 2
            pieces += [(" " * max(0, room), ""), (said, "dim")]
        out.append(fit(pieces, width))
    return out


def _draw_lines(plot: Plot, raster: Raster, x_axis: Axis, y_axis: Axis, signs: Marks) -> None:
    across, down = raster.dots
    ordered = sorted(
        plot.lines, key=lambda line: (not line.is_reference, line.place != 0, line.place)
    )
    if plot.has_tints and len(plot.lines) <= MOST_TINTS:
        for line in ordered:
            if line.num_points > 2 * len(line.x) and not line.is_reference:
                x = x_axis.place(line.x, across)
                low = down - 1 - y_axis.place(line.low, down)
                high = down - 1 - y_axis.place(line.high, down)
                raster.tint(x, low, high, f"tint{line.place}")
    for line in ordered:
        x = x_axis.place(line.x, across)
        y = down - 1 - y_axis.place(smoothed(line.mid, plot.window), down)
        letter = signs.series[line.place]
        if line.is_reference:
            raster.line(
                x[::2], np.where(np.arange(len(y[::2])) % 2 == 0, y[::2], np.nan), "faint", "."
            )
            continue
        raster.line(x, y, f"series{line.place}", letter)
        if line.num_points <= FEW:
            raster.points(x, y, f"series{line.place}", letter)
    if plot.has_marks:
        _draw_marks(ordered, raster, x_axis, y_axis, plot, signs)
    if plot.crosshair is not None:
        cell = int(x_axis.place(np.array([plot.crosshair]), across)[0]) // 2
        for row in range(raster.height):
            if not raster.has_line(cell, row):
                raster.put(cell, row, signs.divider, "accent")


def _draw_marks(
    lines: Sequence[Line], raster: Raster, x_axis: Axis, y_axis: Axis, plot: Plot, signs: Marks
) -> None:
    """Put the mark of each series on its line, every so often and at its end."""
    across, down = raster.dots
    shown = [line for line in lines if not line.is_reference]
    taken: set[tuple[int, int]] = set()
    every = 22
    for number, line in enumerate(shown):
        x = x_axis.place(line.x, across)
        y = down - 1 - y_axis.place(smoothed(line.mid, plot.window), down)
        good = np.flatnonzero(np.isfinite(x) & np.isfinite(y) & (x >= 0) & (x < across))
        if not len(good):
            continue
        wanted = range(every // 2 + 5 * number, across // 2, every) if len(shown) > 1 else ()
        places = {int(good[np.argmin(np.abs(x[good] / 2 - cell))]) for cell in wanted}
        for at in sorted({*places, int(good[-1])}):
            cell, row = int(x[at]) // 2, int(np.clip(y[at], 0, down - 1)) // 4
            if (cell, row) in taken and at != good[-1]:
                continue
            while (cell, row) in taken and row > 0:
                row -= 1
            taken.add((cell, row))
            raster.put(cell, row, signs.series[line.place], f"series{line.place}+bold")


def _rows_of(axis: Axis, down: int) -> dict[int, str]:
    """Return row -> the tick that is named there."""
    values = ticks(axis, max(2, down // 3))
    places = axis.place(np.array(values, np.float64), down * 4)
    out: dict[int, str] = {}
    for value, place in zip(values, places, strict=True):
        if np.isfinite(place):
            row = (down * 4 - 1 - round(float(place))) // 4
            if 0 <= row < down:
                out.setdefault(row, label(value))
    return out


def _grid(
    named: dict[int, str], raster: Raster, x_axis: Axis, plot: Plot, signs: Marks
) -> dict[tuple[int, int], Piece]:
    """Return what stands behind the data: dots at the ticks' rows, and borders of attempts."""
    out: dict[tuple[int, int], Piece] = {
        (row, cell): (signs.grid, "rule") for row in named for cell in range(3, raster.width, 4)
    }
    for x in plot.borders:
        cell = int(x_axis.place(np.array([x]), raster.width * 2)[0]) // 2
        if 0 <= cell < raster.width:
            out |= {(row, cell): (signs.divider, "rule") for row in range(raster.height)}
    return out


def _title_row(
    plot: Plot, title: list[Piece], x_axis: Axis, across: int, width: int, signs: Marks
) -> list[Piece]:
    """Return the title, with the events in the same row where it leaves room."""
    lane: dict[int, Piece] = {}
    for line in plot.lines:
        for x in line.gap_x:
            lane[_cell(x_axis, x, across)] = (signs.nonfinite, f"series{line.place}+bold")
    for event in plot.events:
        lane[_cell(x_axis, event.x, across)] = (event.sign, event.role)
    head = between([(" " * GUTTER, ""), *title], plot.extra, width)
    used = GUTTER + sum(len(text) for text, _ in title) + 2
    free = width - sum(len(text) for text, _ in plot.extra)
    cells = {GUTTER + 1 + cell: piece for cell, piece in lane.items()}
    cells = {at: piece for at, piece in cells.items() if used <= at < free}
    return _laid_over(head, cells) if cells else head


def _cell(axis: Axis, x: float, across: int) -> int:
    return int(axis.place(np.array([x], np.float64), across * 2)[0]) // 2


def _laid_over(row: list[Piece], cells: dict[int, Piece]) -> list[Piece]:
    """Return a row with single cells replaced; what they replace is blank."""
    chars = [(char, role) for text, role in row for char in plain(text)]
    for at, piece in cells.items():
        if at < len(chars):
            chars[at] = piece
    return chars


def _foot(x_axis: Axis, across: int, plot: Plot, signs: Marks) -> list[Piece]:
    """Return the axis of x and its ticks in one row."""
    row = [" "] * (GUTTER + 1 + across)
    values = [
        value
        for value in ticks(Axis(x_axis.low, x_axis.high), max(2, across // X_TICK))
        if x_axis.low <= value <= x_axis.high
    ]
    free_from = GUTTER
    shown: list[tuple[int, str, str]] = []
    if plot.crosshair is not None:
        text = f" {x_text(plot.crosshair, plot.x_label)} "
        at = _cell(x_axis, plot.crosshair, across) + GUTTER + 1 - len(text) // 2
        shown.append((max(GUTTER, min(len(row) - len(text), at)), text, "bg+on-accent"))
    for value in values:
        text = x_text(value, plot.x_label)
        at = _cell(x_axis, value, across) + GUTTER + 1
        at = min(at, len(row) - len(text))
        touches = any(
            at < start + len(said) + 1 and start < at + len(text) + 1 for start, said, _ in shown
        )
        if at >= free_from and not touches:
            shown.append((at, text, "faint"))
            free_from = at + len(text) + 2
    pieces: list[Piece] = []
    at = 0
    for start, text, role in sorted(shown):
        pieces += [(" " * (start - at), ""), (text, role)]
        at = start + len(text)
    pieces.append((" " * max(0, len(row) - at), ""))
    return pieces


def x_text(value: float, kind: str) -> str:
    """Return a place on the axis of x: a step, tokens, or a time."""
    if kind == "time":
        minutes, seconds = divmod(int(value), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}h{minutes:02d}" if hours else f"{minutes}m{seconds:02d}"
    return label(value) if abs(value) >= 10_000 or value != int(value) else str(int(value))
