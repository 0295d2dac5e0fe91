"""Forest rows: of each evaluation the difference to another run, with its interval.

Invariant: pure; one shared scale with zero in its middle; a row is exactly as wide as asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from expdb.query.results import Outcome
from expdb.text import cells, metric, plain, signed
from expdb_tui.ink import Piece, fit
from expdb_tui.marks import OUTCOME_ROLES, Marks

VALUES = 18
"""Cells of both values and the sign."""
WIDEST_NAME = 18
ASIDE = ("_stderr", "/chance", "/n")
"""Ends of the keys of an evaluation that are no scores."""


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
        """The difference; None where it is no number."""
        if self.base is None or self.value is None:
            return None
        found = self.value - self.base
        return found if math.isfinite(found) else None

    @property
    def reach(self) -> float:
        """How far its interval goes from zero."""
        return abs(self.delta or 0.0) + self.known_half

    @property
    def known_half(self) -> float:
        """Half of the interval; 0 where it is not known."""
        return self.half if self.half is not None and math.isfinite(self.half) else 0.0


def forest_rows(
    rows: Sequence[Row], width: int, signs: Marks, *, place: int, ascii: bool
) -> list[list[Piece]]:
    """Return a row an evaluation, and the scale below them."""
    wide = min(WIDEST_NAME, max((cells(plain(row.name)) for row in rows), default=0))
    across = max(9, width - wide - VALUES - 4)
    across -= 1 - across % 2
    if all(row.base is None for row in rows):
        return _score_rows(rows, wide, across, width, signs, ascii=ascii)
    reach = _round(max((row.reach for row in rows), default=0.0))
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


def _score_rows(
    rows: Sequence[Row], wide: int, across: int, width: int, signs: Marks, *, ascii: bool
) -> list[list[Piece]]:
    """Return each score as a bar from 0 to 1, where all are such: there is nothing to compare."""
    is_share = all(row.value is None or 0 <= row.value <= 1 for row in rows)
    out: list[list[Piece]] = []
    for row in rows:
        name = fit([(plain(row.name), "text")], wide, ellipsis=signs.ellipsis)
        full = round((row.value or 0.0) * across) if is_share else 0
        bar: list[Piece] = [
            (("=" if ascii else "━") * full, "accent"), (signs.rule * (across - full), "rule"),
        ]  # fmt: skip
        line = bar if is_share else [(" " * across, "")]
        out.append(fit([(" ", ""), *name, ("  ", ""), *line, *_values(row, signs)], width))
    return out


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
        half = row.known_half
        for cell in range(at(row.delta - half), at(row.delta + half) + 1):
            cells_of[cell] = (bar, role if is_beyond else "dim")
    cells_of[at(row.delta)] = (signs.series[place], f"series{place}+bold")
    return cells_of


def _values(row: Row, signs: Marks) -> list[Piece]:
    base, value = (metric(one, 3, absent="") for one in (row.base, row.value))
    sign = signs.outcomes[row.outcome] if row.outcome is not None else " "
    role = OUTCOME_ROLES[row.outcome] if row.outcome is not None else "dim"
    return [(f"{base:>7}", "dim"), (f"{value:>8} ", "text"), (f"{sign} ", role)]
