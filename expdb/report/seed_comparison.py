"""`compare --over seed`: metrics of groups of runs as mean and spread over their seeds.

Invariant: the first group is the one measured against; the verdict stands last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from expdb.query.results import Outcome
from expdb.query.seed_results import SeedComparison, SeedGroup, SeedMetric
from expdb.report.gates import cells_of, name_of
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.listing import grid_markdown, piped
from expdb.report.seeds import delta_cells, delta_parts, named, note
from expdb.report.style import Style
from expdb.report.words import OUTCOME_COLOURS, OUTCOME_WORDS, counted
from expdb.text import cells, decimals_for, metric, plain


def render_comparison(found: SeedComparison, style: Style) -> list[str]:
    """Return every metric of every group as mean and spread, then the verdicts."""
    lines = lay_out(comparison_grid(found, style), style)
    values = [value for one in found.metrics if one.is_objective for v in one.values for value in v]
    said = note([group.delta for group in found.groups[1:]], found.noise, values, style)
    gates = _gate_lines(found, style)
    return [*lines, "", *gates, *([said, ""] if said else []), *_verdicts(found, style)]


def _gate_lines(found: SeedComparison, style: Style) -> list[str]:
    """Return how the mean of every group stands to each gate, and an empty line behind them."""
    return [*lay_out(gates_grid(found, style), style), ""] if found.gates else []


def gates_grid(found: SeedComparison, style: Style) -> Grid:
    """Return one row for each gate, one column for each group."""
    columns = (
        Column(head="gate"),
        *(Column(head=named(group, style), right=True) for group in found.groups),
    )
    rows = tuple(
        (Cell(style.say(name_of(row[0].gate))), *cells_of(row, style)) for row in found.gates
    )
    return Grid(columns, rows)


def comparison_grid(found: SeedComparison, style: Style) -> Grid:
    """Return one row for each metric of each group."""
    names = [named(group, style) for group in found.groups]
    columns = (
        Column(head="metric"),
        Column(head="experiment", cut="middle"),
        Column(head="seeds", right=True),
        Column(head="mean", right=True),
        Column(head="sd", right=True),
        Column(head=f"vs {plain(found.groups[0].name)}"),
    )
    rows: list[tuple[Cell, ...]] = []
    for one in found.metrics:
        rows += _metric_rows(one, names, style)
    return Grid(columns, tuple(rows))


def _metric_rows(one: SeedMetric, names: Sequence[str], style: Style) -> list[tuple[Cell, ...]]:
    decimals = decimals_for(value for values in one.values for value in values)
    deltas = delta_cells(one.deltas, decimals, one.key, style)
    rows: list[tuple[Cell, ...]] = []
    for at, name in enumerate(names):
        is_first = at == 0 or not style.terminal
        rows.append(
            (
                Cell(plain(one.key) if is_first else "", "bold" if one.is_objective else ""),
                Cell(name),
                Cell(str(len(one.values[at]))),
                Cell(metric(one.means[at], decimals, key=one.key)),
                Cell(metric(one.sds[at], decimals, key=one.key)),
                deltas[at],
            )
        )
    return rows


def _verdicts(found: SeedComparison, style: Style) -> list[str]:
    base, others = found.groups[0], found.groups[1:]
    width = max(cells(plain(group.name)) for group in others)
    key = found.objective.metric if found.objective is not None else ""
    decimals = decimals_for(value for group in found.groups for value in group.values)
    words = max(len(OUTCOME_WORDS[outcome_of(group)]) for group in others)
    lines = []
    for group in others:
        lead = "" if len(others) == 1 else plain(group.name).ljust(width) + "  "
        delta = group.delta
        outcome = outcome_of(group)
        word = style.paint(OUTCOME_WORDS[outcome], OUTCOME_COLOURS[outcome], "bold")
        if not key:
            why = "no objective is declared"
        elif delta is None:
            lacks = group if not group.values else base
            why = f"{plain(lacks.name)} has no finished run with a finite {plain(key)}"
        else:
            number, half, _ = delta_parts(delta, decimals, key, style)
            sizes = counted(len(group.values), "seed") + f" against {len(base.values)}"
            where = {
                Outcome.NO_DIFFERENCE: f", inside noise {half}",
                Outcome.INCONCLUSIVE: ": no noise is known",
            }.get(outcome, f", beyond noise {half}")
            why = f"{plain(key)} {number}, {sizes}{where}"
        pad = " " * (words - len(OUTCOME_WORDS[outcome]))
        lines.append(f"{lead}{word}{pad}  {style.say(why)}")
    return lines


def outcome_of(group: SeedGroup) -> Outcome:
    """Return how a group stands against the one it is measured against."""
    if group.delta is None or group.delta.outcome is None:
        return Outcome.INCONCLUSIVE
    return group.delta.outcome


def comparison_table(found: SeedComparison) -> tuple[list[str], list[list[Any]]]:
    """Return heads and rows for CSV, one row for each metric of each group, then one for each gate
    of each; the outcome is `better` or `worse` of the objective, `pass` or `fail` of a gate.
    """
    heads = [
        "metric", "experiment", "config_digest", "seeds", "mean", "sd", "delta", "half_width",
        "outcome",
    ]  # fmt: skip
    rows: list[list[Any]] = []
    for one in found.metrics:
        for at, group in enumerate(found.groups):
            delta = one.deltas[at]
            numbers = [len(one.values[at]), one.means[at], one.sds[at]]
            ends = [delta.value, delta.half_width] if delta else [None, None]
            outcome = str(outcome_of(group)) if at and one.is_objective else None
            rows.append([one.key, group.name, group.digest, *numbers, *ends, outcome])
    for row in found.gates:
        for group, held in zip(found.groups, row, strict=True):
            about = [name_of(held.gate), group.name, group.digest, held.num_seeds, held.value]
            rows.append([*about, None, None, held.half_width, str(held.outcome)])
    return heads, rows


def to_markdown(found: SeedComparison, style: Style) -> list[str]:
    """Return the table as Markdown, and under it that of the gates."""
    flat = piped(style)
    lines = grid_markdown(comparison_grid(found, flat))
    return [*lines, "", *grid_markdown(gates_grid(found, flat))] if found.gates else lines
