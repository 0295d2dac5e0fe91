"""The matrix as rows: cells of runs, means, differences, and where the seeds lie.

Invariant: a cell has its glyph and what fits behind it; what is not declared is blank, and what is
missing is its glyph alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from expdb import digest
from expdb.query.matrix_results import Matrix, MatrixRow
from expdb.query.results import Outcome
from expdb.query.status_results import StatusRow
from expdb.signs import STATE_GLYPHS
from expdb.text import band, cells, config_value, decimals_for, metric, plain, signed
from expdb_tui.ink import Piece, fit
from expdb_tui.marks import OUTCOME_ROLES, Marks
from expdb_tui.plotting.axis import Axis
from expdb_tui.runs.cells import ROLES

CELL = 8
WIDE, WHY, SPREAD, MEANS, DELTAS = 100, 158, 116, 64, 50
"""Widths from which on cells have more air, and why a row is stale, the spread, means and
differences are shown.
"""
NAME = (12, 28)
MEAN_CELLS, DELTA_CELLS = 14, 8
STATES = (
    "up to date", "stale", "missing", "running", "paused", "pending",
    "failed", "crashed", "lost", "preempted", "invalid",
)  # fmt: skip
"""What a declared run can be, in the order of the counts; each has the glyph of its cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """How a matrix is laid out in a width."""

    name: int
    gap: int
    """Before each cell."""
    num_seeds: int
    """Of the seeds, how many have a column."""
    has_mean: bool
    has_delta: bool
    spread: int
    """Cells of the spread; 0 shows none."""
    why: int = 0
    """Cells of why a row is stale; 0 shows none."""


def grid_of(matrix: Matrix, width: int) -> Grid:
    """Return the layout for a width; the first seeds are shown, as many as fit."""
    gap = 4 if width >= WIDE else 1
    has_mean, has_delta = width >= MEANS, width >= DELTAS
    taken = (MEAN_CELLS + 2 if has_mean else 0) + (DELTA_CELLS + 4 if has_delta else 2)
    longest = max([NAME[0], *(cells(plain(row.name)) for row in matrix.rows)])
    name = min(longest, NAME[1] if width >= WIDE else 20)
    room = width - 3 - taken
    fitting = max(1, (room - name) // (CELL + gap))
    shown = min(len(matrix.seeds), fitting)
    more = 4 if shown < len(matrix.seeds) else 0
    if more and shown > 1 and room - name - shown * (CELL + gap) < more:
        shown -= 1
    left = room - name - shown * (CELL + gap) - more
    spread = min(44, left - 3) if width >= SPREAD and left >= 14 else 0
    why = left - spread - 4 if width >= WHY and spread and left - spread >= 24 else 0
    if not spread:
        name = min(max(name, longest), name + max(0, left))
    return Grid(
        name=name, gap=gap, num_seeds=shown, has_mean=has_mean, has_delta=has_delta,
        spread=spread, why=why,
    )  # fmt: skip


def counts_of(matrix: Matrix, ascii: bool) -> list[Piece]:
    """Return how many declared runs stand how, each with its glyph."""
    out: list[Piece] = []
    for name in STATES:
        if count := matrix.counts.get(name, 0):
            look = STATE_GLYPHS[name]
            glyph = look.ascii if ascii else look.glyph
            role = "dim" if name in ("up to date", "missing") else ROLES[look.colour]
            word = " invalid" if name == "invalid" else ""
            out += [("   ", ""), (glyph, role), (f" {count}{word}", "text")]
    return out


def head_of(matrix: Matrix, grid: Grid, marks: Marks) -> list[Piece]:
    """Return the line above the rows."""
    is_ascii = marks.rule == "-"
    out: list[Piece] = [("   ", ""), *fit([("experiment", "dim")], grid.name)]
    for seed in matrix.seeds[: grid.num_seeds]:
        word = "no seed" if seed is None else f"seed {seed}"
        out += [(" " * grid.gap, ""), *fit([(word, "dim")], CELL, right=True)]
    more = len(matrix.seeds) - grid.num_seeds
    out.append((f"{f'+{more}':>4}" if more else "", "dim"))
    if grid.has_mean:
        mean = "mean +- sd" if is_ascii else "mean ± sd"
        out += [("  ", ""), *fit([(mean, "dim")], MEAN_CELLS, right=True)]
    if grid.has_delta:
        delta = "d base" if is_ascii else "Δ base"
        out += [("  ", ""), *fit([(delta, "dim")], DELTA_CELLS, right=True)]
    out.append(("  ", ""))
    if grid.spread:
        said = [("  spread, log   ", "dim"), (marks.divider, "rule2"), (" baseline", "dim")]
        out += fit(said, grid.spread + 2)
    if grid.why:
        out += [("  ", ""), *fit([("why stale", "dim")], grid.why)]
    return out


def line_of(
    matrix: Matrix,
    row: MatrixRow,
    grid: Grid,
    marks: Marks,
    *,
    cursor: int | None,
    ascii: bool,
    places: Mapping[str, int] | None = None,
) -> list[Piece]:
    """Return one row; `cursor` is the place of the cell that has the cursor, `places` are those of
    marked runs among the series.
    """
    bold = "+bold" if row.is_baseline or cursor is not None else ""
    first = (marks.series[0] if row.is_baseline else " ", "series0")
    name: list[Piece] = [(plain(row.experiment), f"text{bold}"), (plain(row.variant), "dim")]
    out: list[Piece] = [first, (" ", ""), *fit(name, grid.name, ellipsis=marks.ellipsis)]
    if row.fault:
        ground = "+on-sel" if cursor is not None else ""
        glyph = STATE_GLYPHS["invalid"]
        out += [
            (" " * grid.gap, ""),
            (f"{glyph.ascii if ascii else glyph.glyph} ", f"fail{ground}"),
        ]
        return [*out, (plain(row.fault), f"dim{ground}")]
    decimals = _decimals(matrix)
    for at, cell in enumerate(row.cells[: grid.num_seeds]):
        ground = "+on-sel" if at == cursor else ""
        place = (
            (places or {}).get(cell.run.id) if cell is not None and cell.run is not None else None
        )
        mark = (" ", "") if place is None else (marks.series[place], f"series{place}")
        out += [(" " * (grid.gap - 1), ""), mark]
        made = cell_of(cell, matrix, decimals, ascii=ascii)
        out += [(text, f"{role}{ground}") for text, role in made]
    out.append(("    " if len(matrix.seeds) > grid.num_seeds else "", ""))
    if grid.has_mean:
        out += [("  ", ""), *fit(_mean(matrix, row, decimals, ascii), MEAN_CELLS, right=True)]
    if grid.has_delta:
        out += [("  ", ""), *fit(_delta(matrix, row, decimals), DELTA_CELLS, right=True)]
    out += [(" ", ""), _sign(row, marks)]
    if grid.spread:
        out += [("  ", ""), *spread_of(matrix, row, grid.spread, marks)]
    if grid.why:
        out += [("  ", ""), *fit(_why(row, marks), grid.why, ellipsis=marks.ellipsis)]
    return out


def _why(row: MatrixRow, marks: Marks) -> list[Piece]:
    """Return the first cause of the first stale run of a row, and how many more there are."""
    reasons = next((cell.reasons for cell in row.cells if cell and cell.reasons), ())
    if not reasons:
        return []
    first = reasons[0]
    out: list[Piece] = [(plain(first.key or first.name), "text")]
    if first.kind == "file":
        out.append((" edited", "dim"))
    else:
        arrow = "->" if marks.rule == "-" else "→"
        old, new = (
            "-" if value is digest.ABSENT else config_value(value, 16)
            for value in (first.old, first.new)
        )
        out += [(f" {plain(old)} {arrow} ", "dim"), (plain(new), "text")]
    if len(reasons) > 1:
        out.append((f"  and {len(reasons) - 1} more", "dim"))
    return out


def _decimals(matrix: Matrix) -> int:
    return decimals_for(value for row in matrix.rows for _, value in row.values)


def cell_of(cell: StatusRow | None, matrix: Matrix, decimals: int, *, ascii: bool) -> list[Piece]:
    """Return a cell of 8: its glyph, and the objective or how far it came."""
    if cell is None:
        return [(" " * CELL, "")]
    look = STATE_GLYPHS[cell.state]
    glyph = look.ascii if ascii else look.glyph
    said, role = _said(cell, matrix, decimals)
    sign = "dim" if cell.state in ("missing", "pending") else ROLES[look.colour]
    return [(glyph, sign), *fit([(said, role)], CELL - 1, right=True)]


def _said(cell: StatusRow, matrix: Matrix, decimals: int) -> tuple[str, str]:
    run = cell.run
    if run is None or cell.state in ("missing", "pending"):
        return "", ""
    if run.state.is_alive:
        share = run.last_step / run.max_steps if run.last_step and run.max_steps else None
        return (f"{share:.0%}" if share is not None else str(run.last_step or 0)), "accent"
    if cell.state in ("failed", "crashed", "lost", "preempted"):
        role = "warn" if cell.state in ("lost", "preempted") else "fail"
        return (f"@{run.last_step}" if run.last_step is not None else ""), role
    key = matrix.objective.metric if matrix.objective is not None else ""
    is_of = run.objective is not None and run.objective.metric == key
    if not is_of or run.value is None:
        return "", ""
    role = "fail" if not math.isfinite(run.value) else "warn" if cell.state == "stale" else "text"
    return metric(run.value, decimals, key=key), role


def _mean(matrix: Matrix, row: MatrixRow, decimals: int, ascii: bool) -> list[Piece]:
    key = matrix.objective.metric if matrix.objective is not None else ""
    said = metric(row.mean, decimals, key=key, absent="")
    if row.sd is None:
        return [(said, "dim")]
    return [
        (said, "text"),
        (" " + band(row.sd, decimals, pm="+-" if ascii else "±", key=key), "dim"),
    ]


def _delta(matrix: Matrix, row: MatrixRow, decimals: int) -> list[Piece]:
    if row.is_baseline:
        return [("0", "dim")]
    if row.delta is None:
        return []
    key = matrix.objective.metric if matrix.objective is not None else ""
    outcome = row.delta.outcome
    role = OUTCOME_ROLES[outcome] if outcome in (Outcome.BETTER, Outcome.WORSE) else "dim"
    return [(signed(row.delta.value, decimals, key=key), role)]


def _sign(row: MatrixRow, marks: Marks) -> Piece:
    outcome = row.delta.outcome if row.delta is not None else None
    return (marks.outcomes[outcome], OUTCOME_ROLES[outcome]) if outcome is not None else (" ", "")


def axis_of(matrix: Matrix) -> Axis | None:
    """Return the axis that all rows share: from the 5th to the 95th percentile of all values."""
    values = [value for row in matrix.rows for _, value in row.values]
    if not values or min(values) <= 0:
        return None
    low, high = (float(np.percentile(values, share)) for share in (5, 95))
    if matrix.base is not None and matrix.base > 0:
        low, high = min(low, matrix.base), max(high, matrix.base)
    return Axis(low / 1.02, high * 1.02, True)


def spread_of(matrix: Matrix, row: MatrixRow, width: int, marks: Marks) -> list[Piece]:
    """Return where the seeds lie on the axis of all: a dot a seed, the baseline as a line."""
    axis = axis_of(matrix)
    is_ascii = marks.rule == "-"
    out: list[Piece] = [(" ", "") for _ in range(width)]
    for at in range(2, width - 1, 4):
        out[at] = (marks.grid, "rule")
    if axis is None:
        return out

    def place(value: float) -> int:
        return round(float(axis.place(np.array([value]), width)[0]))

    if matrix.base is not None and 0 <= place(matrix.base) < width:
        out[place(matrix.base)] = (marks.divider, "rule2")
    dot, before, beyond = ("o", "<", ">") if is_ascii else ("•", "‹", "›")
    for at, value in row.values:
        cell = row.cells[at]
        role = "warn" if cell is not None and cell.state == "stale" else "text"
        where = place(value)
        sign = before if where < 0 else beyond if where >= width else dot
        out[max(0, min(width - 1, where))] = (sign, role)
    return out
