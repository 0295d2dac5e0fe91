"""The first and the last row of a plot: its title with the lane of events, and the axis of x.

Invariant: both are exactly as wide as asked for; what is wide in a title takes two cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from expdb.text import plain
from expdb_tui.ink import Piece, between, fit, width_of
from expdb_tui.marks import Marks
from expdb_tui.plotting.axis import Axis, clock_ticks, ticks, x_text
from expdb_tui.plotting.plot import Plot

GUTTER: Final = 7
"""Cells left of the axis, for the ticks."""
X_TICK: Final = 12
"""Cells from one tick of x to the next, at least."""
TITLE_AT: Final = 1
AFTER_TITLE: Final = 2


def x_axis_of(plot: Plot) -> Axis:
    """Return the axis of x; one of no width is made one."""
    return Axis(plot.x_low, plot.x_high if plot.x_high > plot.x_low else plot.x_low + 1)


def cell_of(axis: Axis, x: float, across: int) -> int:
    """Return the cell of an x; one outside is below 0, or at or over `across`."""
    place = float(axis.place(np.array([x], np.float64), across * 2)[0])
    return int(np.clip(np.floor(place), -2, across * 2)) // 2


def x_at(plot: Plot, column: int, width: int) -> float:
    """Return the x of a cell of a plot that is `width` cells wide, counted from its left end."""
    across = max(1, width - GUTTER - 1)
    dot = min(across * 2 - 1, max(0, (column - GUTTER - 1) * 2 + 1))
    return x_axis_of(plot).value(dot, across * 2)


def border_signs(plot: Plot, axis: Axis, across: int) -> list[tuple[int, str, str]]:
    """Return (cell, sign, role) of the beginnings of attempts, where they are shown."""
    if not plot.has_borders:
        return []
    return [
        (cell_of(axis, x, across), sign, f"series{line.place}")
        for line in plot.lines
        for x, sign in line.borders
    ]


def title_row(
    plot: Plot, title: Sequence[Piece], axis: Axis, across: int, width: int, signs: Marks
) -> list[Piece]:
    """Return the title, with the events in the same row where it leaves room."""
    lane: dict[int, tuple[int, Piece]] = {}

    def put(cell: int, weight: int, piece: Piece) -> None:
        if 0 <= cell < across and weight >= lane.get(cell, (-1, piece))[0]:
            lane[cell] = (weight, piece)

    for cell, sign, role in border_signs(plot, axis, across):
        for at, char in enumerate(sign):
            put(cell + at, 0, (char, role))
    for line in plot.lines:
        if not line.is_reference:
            for x in line.gap_x:
                put(cell_of(axis, x, across), 1, (signs.nonfinite, f"series{line.place}+bold"))
    for event in plot.events:
        put(cell_of(axis, event.x, across), event.weight + 1, (event.sign, f"{event.role}+bold"))
    lead: list[Piece] = [(" " * TITLE_AT, ""), *[(plain(text), role) for text, role in title]]
    used = min(width, width_of(lead) + AFTER_TITLE) if title else 0
    shown = sorted((cell + GUTTER + 1, piece) for cell, (_, piece) in lane.items())
    end = width - width_of(plot.extra) - bool(plot.extra)
    out: list[Piece] = fit(lead, used)
    for at, piece in shown:
        if used <= at < end:
            out += [(" " * (at - used), ""), piece]
            used = at + 1
    return between(out, plot.extra, width) if plot.extra else fit(out, width)


def foot(
    axis: Axis, across: int, plot: Plot, width: int, signs: Marks, *, has_line: bool
) -> list[list[Piece]]:
    """Return the axis of x with its ticks, and below it their names; without a line the names."""
    most = max(2, across // X_TICK)
    straight = Axis(axis.low, axis.high)
    found = clock_ticks(axis, most) if plot.x_label == "time" else ticks(straight, most)
    found = [value for value in found if axis.low <= value <= axis.high]
    if plot.x_label == "step":
        found = [value for value in found if value == int(value)]
    names = _names(axis, found, across, plot, width)
    if not has_line:
        return [names]
    row = [signs.rule] * across
    for value in found:
        row[min(across - 1, cell_of(axis, value, across))] = signs.foot
    return [fit([(" " * GUTTER, ""), (signs.corner + "".join(row), "rule2")], width), names]


def _names(axis: Axis, found: Sequence[float], across: int, plot: Plot, width: int) -> list[Piece]:
    shown: list[tuple[int, str, str]] = []
    if plot.crosshair is not None:
        text = f" {x_text(plot.crosshair, plot.x_label)} "
        at = cell_of(axis, plot.crosshair, across) + GUTTER + 1 - len(text) // 2
        shown.append((max(0, min(width - len(text), at)), text, "bg+on-accent"))
    for value in found:
        text = x_text(value, plot.x_label)
        at = cell_of(axis, value, across) + GUTTER + 1
        at = min(max(at - (len(text) - 1) // 2, GUTTER), width - len(text))
        apart = (
            at >= start + len(said) + 2 or start >= at + len(text) + 2 for start, said, _ in shown
        )
        if all(apart):
            shown.append((at, text, "faint"))
    pieces: list[Piece] = []
    at = 0
    for start, text, role in sorted(shown):
        pieces += [(" " * (start - at), ""), (text, role)]
        at = start + len(text)
    return fit(pieces, width)
