"""One event: four plots around its step, and beside them what the store knows of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from expdb.text import plain
from expdb_tui.ink import Piece, fit
from expdb_tui.marks import Marks
from expdb_tui.plotting.plot import Event as Sign
from expdb_tui.plotting.plot import Plot
from expdb_tui.run.curve_plots import NON_FINITE, WEIGHTS
from expdb_tui.run.event_around import Around
from expdb_tui.run.event_said import TABLE, event_rows
from expdb_tui.run.facts import Facts, is_log
from expdb_tui.run.grid import grid_rows

TALL = 36
SIDE = 46
BESIDE = 100


def around_rows(
    around: Around, facts: Facts, width: int, height: int, signs: Marks, *, ascii: bool
) -> list[Sequence[Piece]]:
    """Return the plots, and right of them or above them what is known."""
    side = SIDE if width >= BESIDE else 0
    said = event_rows(around, facts, side or width - 2, signs, ascii=ascii)
    if not side:
        said = [
            [(" ", ""), *row] for row in said[: _table_at(said) if height < TALL else height // 2]
        ]
        return [*said, *_plots(around, width, height - len(said), signs, ascii=ascii)]
    left = _plots(around, width - side - 3, height, signs, ascii=ascii)
    blank: Sequence[Piece] = ()
    return [
        [*fit(row, width - side - 3), (f" {signs.divider} ", "rule"), *fit(right, side)]
        for row, right in zip(left, [*said, *[blank] * height], strict=False)
    ]


def _table_at(rows: Sequence[Sequence[Piece]]) -> int:
    """Return how many rows stand before the values at the step."""
    return next((at - 1 for at, row in enumerate(rows) if row and row[0][0] == TABLE), len(rows))


def _plots(
    around: Around, width: int, height: int, signs: Marks, *, ascii: bool
) -> list[Sequence[Piece]]:
    role, weight = WEIGHTS[around.event.severity]
    sign = signs.nonfinite if around.event.rule == NON_FINITE else signs.event
    plots = []
    for key, line in around.lines.items():
        plots.append(
            Plot(
                key=key,
                lines=[replace(line, num_points=max(line.num_points, 31))],
                is_log=is_log(key, frozenset()),
                title=[(plain(key), "text+bold")],
                x_low=float(around.since),
                x_high=float(min(around.until, max(around.since + 1, int(line.x[-1])))),
                crosshair=float(around.event.step),
                events=[Sign(x=float(around.event.step), role=role, sign=sign, weight=weight)],
                has_marks=False,
            )
        )
    across = 2 if len(plots) > 1 and width >= 70 else 1
    down = max(1, min(-(-len(plots) // across), height // 6))
    return grid_rows(plots, (down, across), width, height, signs, ascii=ascii)
