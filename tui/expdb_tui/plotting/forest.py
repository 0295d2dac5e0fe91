"""Forest rows: of each evaluation the difference to another run, with its interval.

Invariant: pure; one shared scale with zero in its middle; a row is exactly as wide as asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from expdb.query.results import Outcome
from expdb.text import cells, plain, signed
from expdb_tui.ink import Piece, fit
from expdb_tui.marks import OUTCOME_ROLES, Marks

VALUES = 18
"""Cells of both values and the sign."""
WIDEST_NAME = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One evaluation of two runs."""

    name: str
    base: float | None
    value: float | None
    half: float | None
    """Half of the 95 % interval of the difference; None where it is not known."""
    outcome: Outcome | None

    @property
    def delta(self) -> float | None:
        """The difference."""
        return None if self.base is None or self.value is None else self.value - self.base


def forest_rows(
    rows: Sequence[Row], width: int, signs: Marks, *, place: int, ascii: bool
) -> list[list[Piece]]:
    """Return a row an evaluation, and the scale below them."""
    wide = min(WIDEST_NAME, max((cells(plain(row.name)) for row in rows), default=0))
    across = max(9, width - wide - VALUES - 4)
    across -= 1 - across % 2
    reach = max(
        (abs(row.delta) + (row.half or 0.0) for row in rows if row.delta is not None), default=0.0
    )
    reach = _round(reach)
    out: list[list[Piece]] = []
    for row in rows:
        name = fit([(plain(row.name), "text")], wide, ellipsis=signs.ellipsis)
        line = _line(row, across, reach, signs, place=place, ascii=ascii)
        out.append(fit([(" ", ""), *name, ("  ", ""), *line, *_values(row, signs)], width))
    middle = across // 2
    left, right = signed(-reach, 2), signed(reach, 2)
    gap = middle - len(left)
    scale: list[Piece] = [
        (" " * (wide + 3) + left + " " * gap + "0", "faint"),
        (" " * max(1, across - middle - 1 - len(right)) + right, "faint"),
    ]
    return [*out, fit(scale, width)] if rows else []


def _round(reach: float) -> float:
    for step in (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0):
        if reach <= step:
            return step
    return reach


def _line(
    row: Row, across: int, reach: float, signs: Marks, *, place: int, ascii: bool
) -> list[Piece]:
    middle = across // 2
    cells_of: list[Piece] = [
        (signs.grid if at % 4 == middle % 4 else " ", "rule") for at in range(across)
    ]
    cells_of[middle] = (signs.divider, "rule2")
    if row.delta is None:
        return cells_of

    def at(value: float) -> int:
        return max(0, min(across - 1, middle + round(value / reach * middle)))

    is_beyond = row.outcome in (Outcome.BETTER, Outcome.WORSE)
    role = OUTCOME_ROLES[row.outcome] if row.outcome is not None else "dim"
    if row.half is not None:
        bar = ("=" if is_beyond else "-") if ascii else ("━" if is_beyond else "─")
        for cell in range(at(row.delta - row.half), at(row.delta + row.half) + 1):
            cells_of[cell] = (bar, role if is_beyond else "dim")
    cells_of[at(row.delta)] = (signs.series[place], f"series{place}+bold")
    return cells_of


def _values(row: Row, signs: Marks) -> list[Piece]:
    base = "" if row.base is None else f"{row.base:.3f}"
    value = "" if row.value is None else f"{row.value:.3f}"
    sign = signs.outcomes[row.outcome] if row.outcome is not None else " "
    role = OUTCOME_ROLES[row.outcome] if row.outcome is not None else "dim"
    return [(f"{base:>7}", "dim"), (f"{value:>8} ", "text"), (f"{sign} ", role)]
