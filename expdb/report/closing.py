"""The table that ends a training run: its main numbers against those of its parent.

Invariant: at most the objective, the training loss, the evals, the throughput and the events; the
verdict stands last.
"""

from __future__ import annotations

from collections import Counter

from expdb.model import Run
from expdb.query.compare_results import Comparison, MetricDiff
from expdb.report.at_once import line_of
from expdb.report.at_once import next_commands as at_once_next
from expdb.report.columns import AnyRow, ValueRow, lay_out, measure
from expdb.report.comparison import events_of, metric_row
from expdb.report.grid import Cell
from expdb.report.style import Style, next_line
from expdb.report.verdict import seeds_differ, verdict_lines
from expdb.report.words import head_label
from expdb.text import decimals_for, metric, plain

BEFORE_EVALS = ("train/loss",)
AFTER_EVALS = ("train/tokens_per_s",)
SPREAD = "_stderr"
"""Metrics that only say how sure another one is."""


def end_lines(run: Run, comparison: Comparison | None, style: Style) -> list[str]:
    """Return what ends the training of a run: its table, and what to do next."""
    if comparison is None:
        lines, commands = alone_lines(run, style), [("look", f"expdb show {style.run(run.id)}")]
    else:
        lines, commands = closing_lines(comparison, style), next_commands(comparison, style)
    return [*lines, "", *(next_line(label, command, style) for label, command in commands)]


def closing_lines(comparison: Comparison, style: Style) -> list[str]:
    """Return the table of a run against its parent, and the verdict."""
    metrics = {diff.key: diff for diff in comparison.metrics}
    objective = [diff for diff in comparison.metrics if diff.is_objective]
    evals = [diff for diff in comparison.evals if not diff.key.endswith(SPREAD)]
    rows: list[AnyRow] = [
        *(metric_row(diff, style) for diff in [*objective, *_named(metrics, BEFORE_EVALS)]),
        *(metric_row(diff, style, is_eval=True, with_band=False) for diff in evals),
        *(metric_row(diff, style) for diff in _named(metrics, AFTER_EVALS)),
        ValueRow("  events", tuple(Cell(events_of(c)) for c in comparison.num_events)),
    ]
    named = [head_label(run, style) for run in comparison.runs]
    bare = [style.run(run.id) for run in comparison.runs]
    lines = []
    for heads, with_percent in ((named, True), (named, False), (bare, False)):
        widths = measure(rows, heads, with_percent=with_percent)
        lines = lay_out(rows, heads, widths, style)
        if widths.total <= style.width:
            break
    said = line_of(comparison, style)
    notes = [*_seed_lines(comparison, style), *([said] if said else [])]
    return [*lines, "", *verdict_lines(comparison, style)[:1], *notes]


def _seed_lines(comparison: Comparison, style: Style) -> list[str]:
    """Return that the run is measured against another seed, and why."""
    said = seeds_differ(comparison)
    if not said:
        return []
    base, run = comparison.runs
    lacks = "" if run.fork else f"; no {plain(base.name)} with seed {run.seed} has finished"
    return [style.say(f"{said}{lacks}")]


def _named(metrics: dict[str, MetricDiff], keys: tuple[str, ...]) -> list[MetricDiff]:
    return [metrics[key] for key in keys if key in metrics and not metrics[key].is_objective]


def alone_lines(run: Run, style: Style) -> list[str]:
    """Return the table of a run that has no parent."""
    objective = [run.objective.metric] if run.objective is not None else []
    evals = [key for key in sorted(run.series) if key.startswith("eval/")]
    evals = [key for key in evals if not key.endswith(SPREAD)]
    keys = dict.fromkeys([*objective, *BEFORE_EVALS, *evals, *AFTER_EVALS])
    rows: list[AnyRow] = []
    for key in keys:
        if key in run.series:
            value = run.series[key].last
            text = metric(value, decimals_for([value]), key=key)
            strong = key in objective
            rows.append(ValueRow(f"  {plain(key)}", (Cell(text),), strong=strong))
    events = Counter(str(event.severity) for event in run.events)
    rows.append(ValueRow("  events", (Cell(events_of(events)),)))
    heads = [head_label(run, style)]
    return lay_out(rows, heads, measure(rows, heads, with_percent=False), style)


def next_commands(comparison: Comparison, style: Style) -> list[tuple[str, str]]:
    """Return what to do next, as (label, command)."""
    parent, run = comparison.runs[0], comparison.runs[1]
    return [
        ("compare", f"expdb compare {style.run(parent.id)} {style.run(run.id)}"),
        *at_once_next(comparison, style),
        ("go back", "expdb rollback"),
    ]
