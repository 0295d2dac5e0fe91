"""A comparison as rows for a width: one column with all parts, or two halves.

Invariant: every row fits its half; the plot takes what is left below the metrics, or is not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from expdb_tui.compare.reading import Compared
from expdb_tui.compare.sections import Section, sections
from expdb_tui.ink import Piece, cut, titled
from expdb_tui.marks import Marks
from expdb_tui.plotting.axis import is_log_by_nature
from expdb_tui.plotting.draw import Plot, draw
from expdb_tui.plotting.smooth import default_window

HALVES = 120
"""Cells from which on there are two halves."""
LEAST_PLOT, MOST_PLOT = 9, 40
LEFT = ("Metrics",)
RIGHT = ("Config", "Code", "Environment", "Evals")
ONE = ("Config", "Code", "Metrics", "Evals", "Environment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the rows depend on besides the comparison."""

    marks: Marks
    is_all: bool = False
    active: str = ""
    """The part that `tab` has come to."""
    first: int = 1
    """The first run beside that of the base."""


def left_width(shown: Compared, width: int) -> int:
    """Return how wide the left half is, of at least `HALVES` cells; more runs need more."""
    if len(shown.places) > 2:
        return min(width - 50, 26 + 12 * len(shown.places))
    return min(76, width * 53 // 100)


def stacked(
    names: Sequence[str], parts: Mapping[str, Section], width: int, look: Look
) -> tuple[list[Sequence[Piece]], dict[str, int]]:
    """Return parts one below the other, and the row at which each begins."""
    rows: list[Sequence[Piece]] = []
    starts: dict[str, int] = {}
    for name in names:
        part = parts.get(name)
        if part is None:
            continue
        if rows:
            rows.append([])
        starts[name] = len(rows)
        role = "accent+bold" if name == look.active else "text+bold"
        title: list[Piece] = [(name, role), (f"  {part.said}", "dim")]
        rows.append(titled(title, width, look.marks.rule))
        rows += [cut(row, width, look.marks.ellipsis) for row in part.rows]
    return rows, starts


def one_column(
    shown: Compared, width: int, look: Look
) -> tuple[list[Sequence[Piece]], dict[str, int]]:
    """Return all parts in one column."""
    parts = sections(shown, width, look.marks, is_all=look.is_all, first=look.first)
    return stacked(ONE, parts, width, look)


def halves(
    shown: Compared, left: int, right: int, look: Look
) -> tuple[list[Sequence[Piece]], list[Sequence[Piece]], dict[str, int]]:
    """Return the rows of both halves, and where each part begins in its own."""
    here = sections(shown, left, look.marks, is_all=look.is_all, first=look.first)
    there = sections(shown, right, look.marks, is_all=look.is_all, first=look.first)
    rows, starts = stacked(LEFT, here, left, look)
    others, more = stacked(RIGHT, there, right, look)
    return rows, others, starts | more


def with_plot(
    shown: Compared, rows: list[Sequence[Piece]], width: int, height: int, look: Look
) -> list[Sequence[Piece]]:
    """Return rows with the overlay of the training curve below, where there is room for it."""
    room = height - len(rows) - 1
    if room < LEAST_PLOT or not shown.lines:
        return rows
    return [*rows, [], *plot_rows(shown, width, min(room, MOST_PLOT), look.marks)]


def plot_rows(shown: Compared, width: int, height: int, marks: Marks) -> list[list[Piece]]:
    """Return the curves of all runs, or of the means over seeds with their band."""
    is_log = is_log_by_nature(shown.key)
    window = default_window(max(len(line.x) for line in shown.lines))
    seeds = max(shown.num_seeds)
    title: list[Piece] = [(shown.key, "text+bold"), (" log" if is_log else "", "dim")]
    title.append((f"  band = {seeds} seeds" if shown.seeds is not None else "", "dim"))
    plot = Plot(
        key=shown.key,
        lines=shown.lines,
        is_log=is_log,
        title=title,
        window=window,
        x_high=max(float(line.x[-1]) for line in shown.lines),
    )
    return draw(plot, width, height, marks, ascii=marks.rule == "-")
