"""A comparison that is too wide for columns: the runs become rows, the keys columns.

Invariant: the objective, its delta and the outcome are always shown; config keys as many as fit,
the rest is counted.
"""

from __future__ import annotations

from expdb.query.compare_results import Comparison, ConfigDiff
from expdb.query.results import ABSENT
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.style import Style
from expdb.report.words import OUTCOME_COLOURS, OUTCOME_WORDS, counted
from expdb.text import config_value, decimals_for, metric, plain, signed

MAX_KEYS_IN_ROWS = 12


def render_rows(comparison: Comparison, style: Style, *, all: bool = False) -> list[str]:
    """Return one line a run: its keys that differ, its objective, delta and outcome."""
    keys = list(comparison.config) if all else [d for d in comparison.config if d.differs]
    shown = min(len(keys), MAX_KEYS_IN_ROWS)
    while shown and _grid(comparison, keys[:shown], style).width(style) > style.width:
        shown -= 1
    lines = lay_out(_grid(comparison, keys[:shown], style), style)
    if shown < len(keys):
        rest = len(keys) - shown
        more = counted(rest, "more key") if shown else counted(rest, "key")
        lines.append(f"{more}: --config --json" if all else f"{more}: --config")
    return lines


def _grid(comparison: Comparison, keys: list[ConfigDiff], style: Style) -> Grid:
    columns = [Column(head=""), Column(head="", cut="middle")]
    columns += [Column(head=plain(diff.key), right=True) for diff in keys]
    objective = next((diff for diff in comparison.metrics if diff.is_objective), None)
    if objective is not None:
        columns.append(Column(head=plain(objective.key), right=True))
        columns.append(Column(head="delta", right=True))
    columns.append(Column(head="outcome"))
    decimals = decimals_for(objective.values) if objective else 3
    rows = []
    for at, run in enumerate(comparison.runs):
        row = [Cell(style.run(run.id), "dim"), Cell(plain(run.name))]
        row += [_value(diff, at, style) for diff in keys]
        if objective is not None:
            row.append(Cell(metric(objective.values[at], decimals, key=objective.key)))
            row.append(Cell(signed(objective.deltas[at], decimals, key=objective.key, absent="")))
        outcome = comparison.verdicts[at - 1].outcome if at else None
        row.append(Cell(OUTCOME_WORDS[outcome], OUTCOME_COLOURS[outcome]) if outcome else Cell())
        rows.append(tuple(row))
    return Grid(tuple(columns), tuple(rows))


def _value(diff: ConfigDiff, at: int, style: Style) -> Cell:
    value = diff.values[at]
    if value is ABSENT:
        return Cell("-", "dim")
    return Cell(config_value(value, ellipsis=style.signs.ellipsis))
