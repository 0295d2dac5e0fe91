"""The tables of a comparison: metrics side by side, and evals as differences with intervals.

Invariant: what is beyond the noise has the colour of its outcome and its sign; what is within is
dim; a metric without a declared direction has neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from expdb.query.results import Outcome
from expdb.text import decimals_for, metric, percent, plain, signed
from expdb_tui.compare.measured import EVALS, Measured
from expdb_tui.compare.reading import Compared
from expdb_tui.ink import Piece, fit
from expdb_tui.marks import OUTCOME_ROLES, Marks

VALUE, DELTA, PERCENT = 8, 9, 8
LEAST_NAME = 12
AXIS_FROM, WIDEST_AXIS = 46, 61
"""Cells from which on evals have intervals."""


def num_shown(shown: Compared, width: int) -> int:
    """Return how many runs beside the first have a column."""
    return max(1, min(len(shown.places) - 1, (width - 20 - VALUE - 2) // (VALUE + 4)))


def metric_rows(
    shown: Compared, rows: Sequence[Measured], width: int, marks: Marks, *, first: int = 1
) -> list[Sequence[Piece]]:
    """Return metrics as a table with its head; `first` is the first run beside that of the base."""
    if not rows:
        return [[(" none in common", "dim")]]
    if len(shown.places) == 2:
        return [_pair_head(shown, width, marks), *(_pair_row(one, width, marks) for one in rows)]
    places = range(first, first + num_shown(shown, width))
    wide = [VALUE, *(VALUE + 2 for _ in places)]
    room = max(LEAST_NAME, width - 1 - sum(wide) - 2 * len(wide))
    head: list[Piece] = [(" " * (room + 1), "")]
    for at in (0, *places):
        head += [("  ", ""), *fit(_name(shown, at, marks, VALUE), VALUE, right=True)]
        head.append(("" if at == 0 else "  ", ""))
    return [head, *(_many_row(one, room, places, marks) for one in rows)]


def _name(shown: Compared, at: int, marks: Marks, width: int) -> list[Piece]:
    place = shown.places[at]
    name = plain(shown.names[at])
    if place == 0 and name == "baseline":
        name = "base"
    mark: list[Piece] = [(f"{marks.series[place]} ", f"series{place}")]
    return [
        *mark,
        *fit([(name, f"series{place}")], min(len(name), width - 2), ellipsis=marks.ellipsis),
    ]


def _pair_head(shown: Compared, width: int, marks: Marks) -> list[Piece]:
    is_ascii = marks.rule == "-"
    head: list[Piece] = [(" " * _room(width), "")]
    for at in (0, 1):
        head += [("  ", ""), *fit(_name(shown, at, marks, VALUE), VALUE, right=True)]
    sign = "delta" if is_ascii else "Δ"
    head += [("  ", ""), *fit([(sign, "dim")], DELTA, right=True)]
    if _has_percent(width):
        head += [("  ", ""), *fit([(f"{sign} %", "dim")], PERCENT, right=True)]
    return head


def _has_percent(width: int) -> bool:
    return width >= 58


def _room(width: int) -> int:
    fixed = 2 * (VALUE + 2) + DELTA + 2 + 2 + ((PERCENT + 2) if _has_percent(width) else 0)
    return max(LEAST_NAME, width - fixed)


def _value(one: Measured, at: int, decimals: int, role: str) -> Piece:
    value = one.values[at]
    text = metric(value, decimals, key=one.key)
    return (text, role if value is None or math.isfinite(value) else "fail")


def _pair_row(one: Measured, width: int, marks: Marks) -> list[Piece]:
    decimals = decimals_for(one.values)
    outcome, within = one.outcomes[1], one.is_within(1)
    role = OUTCOME_ROLES[outcome] if outcome in (Outcome.BETTER, Outcome.WORSE) else "dim"
    if within is not True and role == "dim":
        role = "text"
    bold = "+bold" if one.is_objective else ""
    room = _room(width)
    out: list[Piece] = [
        *fit([(f" {plain(one.key)}", f"text{bold}")], room, ellipsis=marks.ellipsis)
    ]
    out += [("  ", ""), *fit([_value(one, 0, decimals, "dim")], VALUE, right=True)]
    out += [("  ", ""), *fit([_value(one, 1, decimals, "text")], VALUE, right=True)]
    delta = signed(one.deltas[1], decimals, key=one.key, absent="")
    out += [("  ", ""), *fit([(delta, role)], DELTA, right=True)]
    if _has_percent(width):
        out += [("  ", ""), *fit([(percent(one.percent), role)], PERCENT, right=True)]
    return [*out, (" ", ""), _sign(one, 1, marks)]


def _sign(one: Measured, at: int, marks: Marks) -> Piece:
    outcome = one.outcomes[at]
    if outcome is not None:
        return (marks.outcomes[outcome], OUTCOME_ROLES[outcome])
    inside = marks.outcomes[Outcome.NO_DIFFERENCE]
    return (inside if one.is_within(at) else " ", "dim")


def _many_row(one: Measured, room: int, places: Sequence[int], marks: Marks) -> list[Piece]:
    decimals = decimals_for(one.values)
    bold = "+bold" if one.is_objective else ""
    out: list[Piece] = [
        *fit([(f" {plain(one.key)}", f"text{bold}")], room + 1, ellipsis=marks.ellipsis)
    ]
    out += [("  ", ""), *fit([_value(one, 0, decimals, "dim")], VALUE, right=True)]
    for at in places:
        outcome = one.outcomes[at]
        role = OUTCOME_ROLES[outcome] if outcome in (Outcome.BETTER, Outcome.WORSE) else "text"
        out += [("  ", ""), *fit([_value(one, at, decimals, role)], VALUE, right=True)]
        out += [(" ", ""), _sign(one, at, marks)]
    return out


def eval_rows(shown: Compared, width: int, marks: Marks) -> list[Sequence[Piece]]:
    """Return the evals of two runs as intervals of the difference; of more as a table."""
    rows = shown.evals
    if not rows:
        return []
    if len(shown.places) > 2 or width < AXIS_FROM:
        return metric_rows(shown, rows, width, marks)
    name_cells = min(16, max(len(_short(one)) for one in rows) + 1)
    # An odd number of cells has a middle one, for the zero line.
    across = min(WIDEST_AXIS, (width - name_cells - 20) // 2 * 2 + 1)
    limit = _limit(rows)
    out: list[Sequence[Piece]] = []
    for one in rows:
        decimals = decimals_for(one.values)
        line: list[Piece] = [
            *fit([(f" {_short(one)}", "text")], name_cells + 1, ellipsis=marks.ellipsis)
        ]
        line += [(" ", ""), *_interval(one, shown.places[1], across, limit, marks), (" ", "")]
        for at, role in ((0, "dim"), (1, "text")):
            line += fit([_value(one, at, decimals, role)], 7, right=True)
        out.append([*line, (" ", ""), _sign(one, 1, marks)])
    low, high = f"{-limit:+g}", f"{limit:+g}"
    foot = f"{low:<{across // 2}}0{high:>{across - across // 2 - 1}}"
    out.append([(" " * (name_cells + 2), ""), (foot, "dim")])
    return out


def _short(one: Measured) -> str:
    """Return the task, and the metric where it is another than the share of right answers."""
    name = plain(one.key.removeprefix(EVALS))
    return name.removesuffix("/acc")


def _limit(rows: Sequence[Measured]) -> float:
    """Return a round end of the axis that every interval fits into, but for the widest ones."""
    ends = [
        abs(delta) + (one.halves[1] or 0.0)
        for one in rows
        if (delta := one.deltas[1]) is not None and math.isfinite(delta)
    ]
    most = max(ends, default=0.0) or 0.01
    power = 10.0 ** math.floor(math.log10(most))
    return next(factor * power for factor in (1, 1.5, 2, 3, 5, 7.5, 10) if factor * power >= most)


def _interval(one: Measured, place: int, across: int, limit: float, marks: Marks) -> list[Piece]:
    """Return the difference on its axis: the interval as a line, the mark on it, the zero line."""
    middle = across // 2
    is_ascii = marks.rule == "-"
    cells: list[Piece] = [(" ", "") for _ in range(across)]
    for at in range(middle % 4, across, 4):
        cells[at] = (marks.grid, "rule")
    cells[middle] = (marks.divider, "rule2")
    delta, half = one.deltas[1], one.halves[1]
    if delta is None or not math.isfinite(delta):
        return cells

    def cell(value: float) -> int:
        return max(0, min(across - 1, middle + round(value / limit * middle)))

    outcome = one.outcomes[1]
    is_beyond = outcome in (Outcome.BETTER, Outcome.WORSE)
    if half is not None:
        line = "=" if is_ascii else "━"
        sign, role = (
            (line, OUTCOME_ROLES[outcome]) if is_beyond and outcome else (marks.rule, "dim")
        )
        for at in range(cell(delta - half), cell(delta + half) + 1):
            cells[at] = (sign, role)
    cells[cell(delta)] = (marks.series[place], f"series{place}")
    return cells
