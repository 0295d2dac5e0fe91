"""A heat map: one row a thing, one column a stretch of steps, colour for how much.

Fewer rows than things put two of them into one cell, one above the other. What is not finite has
its sign on the ground, what is missing is the ground. Without colours a letter stands for the
height.

Invariant: pure; the rows are exactly as wide and as many as asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from expdb.text import cells, cut_middle, plain
from expdb_tui.ink import Piece, fit
from expdb_tui.marks import Marks
from expdb_tui.plotting.axis import label

LETTERS: Final = " .:-=+*#%@"
LEVELS: Final = 28
"""Colours between the first and the last: more cannot be told apart."""
NAMES: Final = 20
BAR: Final = 10
"""Cells of the scale at the right, with its values."""
LOW_PCT, HIGH_PCT = 2.0, 99.5
NAN, EMPTY = -2, -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The points of one thing, in the order of steps."""

    name: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """What a heat map shows."""

    series: Sequence[Series]
    is_log: bool = True
    is_z: bool = False
    """Whether each thing is shown against its own history."""
    cursor: int = 0
    column: int | None = None
    events: Sequence[tuple[int, str, str]] = ()
    """(step, sign, role), above the map."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Values in columns of steps."""

    values: NDArray[np.float64]
    """[things, columns]: the mean of the finite values, NaN without one."""
    is_bad: NDArray[np.bool_]
    """[things, columns]: points, but none of them finite."""
    edges: NDArray[np.float64]
    """[columns + 1] steps."""

    @property
    def width(self) -> float:
        """Steps of one column."""
        return float(self.edges[1] - self.edges[0])


def gridded(series: Sequence[Series], columns: int, *, is_z: bool) -> Grid:
    """Return the means of series in columns of equal numbers of steps."""
    spans = [(int(one.steps[0]), int(one.steps[-1])) for one in series if len(one.steps)]
    low, high = min((a for a, _ in spans), default=0), max((b for _, b in spans), default=1)
    columns = max(1, min(columns, high - low + 1))
    edges = np.linspace(low, high + 1, columns + 1)
    values = np.full((len(series), columns), np.nan)
    bad = np.zeros((len(series), columns), bool)
    for at, one in enumerate(series):
        place = np.clip(np.searchsorted(edges, one.steps, side="right") - 1, 0, columns - 1)
        raw = _against_itself(one.values) if is_z else one.values
        finite = np.isfinite(raw)
        counts = np.bincount(place[finite], minlength=columns)
        with np.errstate(all="ignore"):
            sums = np.bincount(place[finite], raw[finite], columns)
            values[at] = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        bad[at] = (np.bincount(place[~finite], minlength=columns) > 0) & (counts == 0)
        if len(one.steps) > 1:
            usual = float(np.median(np.diff(one.steps))) / float(edges[1] - edges[0])
            _fill(values[at], bad[at], math.ceil(usual * 1.5 - 1e-9) - 1)
    return Grid(values=values, is_bad=bad, edges=edges)


def _against_itself(values: NDArray[np.float64]) -> NDArray[np.float64]:
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore", invalid="ignore"):
        sd = float(finite.std()) if len(finite) > 1 else 0.0
    if not sd or not math.isfinite(sd):
        return np.where(np.isfinite(values), 0.0, values)
    found: NDArray[np.float64] = (values - float(finite.mean())) / sd
    return found


def _fill(row: NDArray[np.float64], bad: NDArray[np.bool_], most: int) -> None:
    """Let a value reach over the next columns without a point, `most` at the most: of what is
    logged every tenth step, single steps would be stripes.
    """
    known = np.isfinite(row) | bad
    last = np.maximum.accumulate(np.where(known, np.arange(len(row)), -1))
    away = np.arange(len(row)) - last
    reached = ~known & (last >= 0) & (away <= most)
    row[reached] = row[last[reached]]


def levels_of(grid: Grid, *, is_log: bool) -> tuple[NDArray[np.int64], float, float]:
    """Return a level for each cell (NAN, EMPTY, or 0 to LEVELS - 1), and the range of values."""
    values = grid.values
    good = values[np.isfinite(values) & (values > 0 if is_log else True)]
    if not len(good):
        return np.where(grid.is_bad, NAN, EMPTY), 0.0, 1.0
    low, high = np.percentile(good, [LOW_PCT, HIGH_PCT]).tolist()
    with np.errstate(all="ignore"):
        scaled = np.log10(values) if is_log else values
    first, last = (math.log10(low), math.log10(high)) if is_log else (low, high)
    span = (last - first) or 1.0
    found = np.where(np.isneginf(scaled), first, scaled)
    share = np.clip(np.nan_to_num((found - first) / span, nan=0.0), 0.0, 1.0)
    level = np.minimum((share * LEVELS).astype(np.int64), LEVELS - 1)
    level = np.where(np.isnan(values), EMPTY, level)
    return np.where(grid.is_bad, NAN, level), low, high


def colours(heat: Sequence[str]) -> list[str]:
    """Return the colours of all levels, as straight ways between those of a palette."""
    if len(set(heat)) < 2:
        return []
    points = np.array([[int(one[at : at + 2], 16) for at in (1, 3, 5)] for one in heat])
    where = np.linspace(0, len(heat) - 1, LEVELS)
    mixed = [np.interp(where, np.arange(len(heat)), points[:, at]) for at in range(3)]
    return ["#" + "".join(f"{round(v):02x}" for v in rgb) for rgb in zip(*mixed, strict=True)]


def nearest(heat: Sequence[str]) -> list[str]:
    """Return the colours of all levels where only those of the palette exist."""
    return [heat[round(at * (len(heat) - 1) / (LEVELS - 1))] for at in range(LEVELS)]


def heat_rows(
    heat: Heat, width: int, height: int, signs: Marks, shades: Sequence[str], *, ascii: bool
) -> tuple[list[Sequence[Piece]], Grid]:
    """Return the rows: events, the map with its names and its scale, the steps; and the grid."""
    columns = max(8, width - NAMES - BAR - 3)
    grid = gridded(heat.series, columns, is_z=heat.is_z)
    columns = grid.values.shape[1]
    each = max(1, (width - NAMES - BAR - 3) // columns)
    levels, low, high = levels_of(grid, is_log=heat.is_log and not heat.is_z)
    room = max(1, height - 2)
    shown = shades if not ascii else []
    doubled = len(heat.series) > room and bool(shown)
    per_row = 2 if doubled else 1
    first = _first_row(heat.cursor // per_row, room, -(-len(heat.series) // per_row))
    out: list[Sequence[Piece]] = [_lane(heat, grid, each, width)]
    last = min(room, -(-len(heat.series) // per_row) - first)
    for row in range(last):
        at = (first + row) * per_row
        pieces = list(_name(heat, at, per_row, signs))
        upper = levels[at]
        lower = levels[at + 1] if doubled and at + 1 < len(levels) else None
        for column in range(columns):
            is_cursor = column == heat.column and at <= heat.cursor < at + per_row
            below = None if lower is None else int(lower[column])
            piece = _cell(int(upper[column]), below, shown, signs, is_double=doubled)
            if is_cursor:
                ink = "bg" if shown and int(upper[column]) > LEVELS // 2 else "text"
                piece = ("+" if ascii else "◉", f"{ink}+bold{_ground(piece[1])}")
            pieces.append((piece[0] * each, piece[1]))
        bar = _scale(row, last, low, high, shown, is_log=heat.is_log and not heat.is_z)
        pieces = [*fit(_joined(pieces), NAMES + 1 + columns * each), ("  ", ""), *bar]
        out.append(fit(pieces, width))
    out.append(_steps(grid, each, width))
    return out, grid


def _first_row(cursor: int, room: int, num: int) -> int:
    return max(0, min(cursor - room // 2, num - room))


def _name(heat: Heat, at: int, per_row: int, signs: Marks) -> list[Piece]:
    here = at <= heat.cursor < at + per_row
    name = plain(heat.series[heat.cursor if here else at].name)
    text = cut_middle(name, NAMES - 1, signs.ellipsis)
    lead = signs.cursor if here else " "
    pad = " " * max(0, NAMES - cells(text))
    return [(lead, "accent"), (f"{text}{pad}", "text+bold" if here else "dim")]


def _ground(role: str) -> str:
    name = role.split("+")[0]
    return f"+on-{name}" if name.startswith("#") else ""


def _cell(
    upper: int, lower: int | None, shades: Sequence[str], signs: Marks, *, is_double: bool
) -> Piece:
    if not shades:
        if upper == NAN:
            return signs.nonfinite, "fail+bold"
        return (" " if upper < 0 else LETTERS[upper * len(LETTERS) // LEVELS]), "text"
    if NAN in (upper, lower):
        return signs.nonfinite, "fail+bold"
    top = shades[upper] if upper >= 0 else "bg"
    foot = top if not is_double else shades[lower] if lower is not None and lower >= 0 else "bg"
    if top == foot:
        return (" ", "") if top == "bg" else ("█", top)
    return "▀", f"{top}+on-{foot}"


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    out: list[Piece] = []
    for text, role in pieces:
        if out and out[-1][1] == role:
            out[-1] = (out[-1][0] + text, role)
        else:
            out.append((text, role))
    return out


def _scale(
    row: int, num: int, low: float, high: float, shades: Sequence[str], *, is_log: bool
) -> list[Piece]:
    """Return one row of the scale: its colour, and its value in every fourth row."""
    share = 1.0 - row / max(1, num - 1)
    level = min(LEVELS - 1, int(share * LEVELS))
    text = "██" if shades else LETTERS[level * len(LETTERS) // LEVELS] * 2
    value = low * (high / low) ** share if is_log and low > 0 else low + (high - low) * share
    said = f" {label(value, 2)}" if row % 4 == 0 else ""
    return [(text, shades[level] if shades else "text"), (said, "dim")]


def _lane(heat: Heat, grid: Grid, each: int, width: int) -> list[Piece]:
    row: dict[int, Piece] = {}
    span = float(grid.edges[-1] - grid.edges[0])
    cells_all = grid.values.shape[1] * each
    for step, sign, role in heat.events:
        at = NAMES + 1 + int((step - grid.edges[0]) / span * cells_all)
        if NAMES < at < width:
            row[at] = (sign, f"{role}+bold")
    out: list[Piece] = []
    used = 0
    for at in sorted(row):
        out += [(" " * (at - used), ""), row[at]]
        used = at + 1
    return fit(out, width)


def _steps(grid: Grid, each: int, width: int) -> list[Piece]:
    cells_all = grid.values.shape[1] * each
    out: list[Piece] = [(" " * (NAMES + 1), "")]
    used = 0
    for at in range(0, cells_all, max(12, cells_all // 4 - 1)):
        text = str(int(grid.edges[0] + (grid.edges[-1] - grid.edges[0]) * at / cells_all))
        if at >= used and at + len(text) <= cells_all:
            out += [(" " * (at - used), ""), (text, "faint")]
            used = at + len(text)
    return fit(out, width)


def short_module(name: str) -> str:
    """Return the name of a module as the map shows it: `blocks.0.attn` as `b0.attn`."""
    for word in ("blocks.", "layers.", "h."):
        before, found, rest = name.partition(word)
        if found and rest[:1].isdigit() and (not before or before.endswith(".")):
            return f"{word[0]}{rest}"
    return name


def shades_of(depth: str, heat: Sequence[str]) -> list[str]:
    """Return the colours of all levels for a depth of colours; none where letters have to do."""
    if not heat:
        return []
    return colours(heat) if depth == "true" else nearest(heat)
