"""`compare --md` and `--csv`: the comparison as a table for documents and for other programs.

Invariant: the columns are the runs in order, then what is measured against the first; a row says in
its first cells what it is of. Values in CSV are whole, config values as YAML writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from expdb.query.compare_results import Comparison, MetricDiff
from expdb.query.results import ABSENT
from expdb.report.columns import AnyRow, FileRow, ValueRow
from expdb.report.comparison import rows_of
from expdb.report.listing import piped
from expdb.report.rows_out import in_markdown, markdown
from expdb.report.style import Style
from expdb.report.verdict import verdict_lines
from expdb.report.words import head_label
from expdb.text import config_value


def to_markdown(
    comparison: Comparison, style: Style, *, all: bool = False, config_only: bool = False
) -> list[str]:
    """Return the grid as a Markdown table, and the verdict under it."""
    flat = piped(style)
    names = [head_label(run, flat) for run in comparison.runs]
    two = len(names) == 2
    rows = rows_of(comparison, flat, all=all, config_only=config_only)
    has_deltas = any(isinstance(row, ValueRow) and row.deltas for row in rows)
    heads = ["", names[0]]
    for name in names[1:]:
        heads += [name, *(["delta"] if has_deltas else [])]
    heads += ["outcome"] if two and has_deltas else []
    cells = [_cells(row, len(names), has_deltas, two, flat) for row in rows]
    right = range(1, len(heads) - int(two and has_deltas))
    lines = markdown(heads, cells, right=right)
    if config_only:
        return lines
    said = [in_markdown(line.strip()) for line in verdict_lines(comparison, flat)]
    return [*lines, "", *(f"{line}  " for line in said[:-1]), *said[-1:]]


def _cells(row: AnyRow, num_runs: int, has_deltas: bool, two: bool, style: Style) -> list[str]:
    width = 1 + num_runs + (num_runs - 1 + int(two) if has_deltas else 0)
    if isinstance(row, ValueRow):
        cells = [row.label.strip()]
        for at, value in enumerate(row.values):
            cells.append(value.text)
            if at and has_deltas:
                cells.append(row.deltas[at - 1].text if row.deltas else "")
        if two and has_deltas:
            cells.append(row.outcome.text)
        return cells
    if isinstance(row, FileRow):
        label = " ".join(part for part in (row.label.strip(), row.added, row.removed) if part)
        label += f", {row.note}" if row.note else ""
    else:
        label = f"{row.label}: {row.head}" + (f", {row.text}" if row.text else "")
    return [style.say(label), *([""] * (width - 1))]


def table(
    comparison: Comparison, *, all: bool = False, config_only: bool = False
) -> tuple[list[str], list[list[Any]]]:
    """Return heads and rows for CSV: a section and a name, the value in each run, deltas.

    Columns are called after the ids of the runs; files that differ stand under `code`, with a
    status letter, and the lines added and removed.
    """
    ids = [run.id for run in comparison.runs]
    heads = ["section", "name", "step", *ids]
    for run in ids[1:]:
        heads += [f"delta {run}", f"outcome {run}"]
    rows = [_padded(row, len(heads)) for row in _rows(comparison, all=all, config_only=config_only)]
    return heads, rows


def _padded(row: list[Any], width: int) -> list[Any]:
    return row + [None] * (width - len(row))


def _rows(comparison: Comparison, *, all: bool, config_only: bool) -> Iterator[list[Any]]:
    for diff in comparison.config:
        if all or diff.differs:
            values = (None if v is ABSENT else config_value(v, None) for v in diff.values)
            yield ["config", diff.key, None, *values]
    if config_only:
        return
    if comparison.code.same_tree is None:
        yield ["code", comparison.code.note or "unknown"]
    for file in comparison.code.files:
        yield ["code", f"{file.status} {file.path}"]
    for section, named in (("environment", comparison.environment), ("data", comparison.data)):
        for item in named:
            if all or len(set(item.values)) > 1:
                yield [section, item.name, None, *item.values]
    for metric in comparison.metrics:
        yield ["metrics", *_measured(metric)]
    for metric in comparison.evals:
        yield ["evals", *_measured(metric)]
    yield from _gates(comparison)
    for severity in ("critical", "warn", "info"):
        counts = [counts.get(severity, 0) for counts in comparison.num_events]
        if any(counts):
            yield ["events", severity, None, *counts]
    objective = comparison.objective
    outcomes: list[Any] = ["verdict", objective.metric if objective else "", comparison.step]
    outcomes += [None] * len(comparison.runs)
    for verdict in comparison.verdicts:
        outcomes += [verdict.delta, verdict.outcome.value]
    yield outcomes


def _gates(comparison: Comparison) -> Iterator[list[Any]]:
    if not comparison.gates:
        return
    from expdb.report.gates import name_of  # few runs have gates

    for row in comparison.gates:
        yield ["gates", name_of(row[0].gate), None, *(str(one.outcome) for one in row)]


def _measured(diff: MetricDiff) -> list[Any]:
    row: list[Any] = [diff.key, diff.step, *diff.values]
    for delta, outcome in list(zip(diff.deltas, diff.outcomes, strict=True))[1:]:
        row += [delta, None if outcome is None else outcome.value]
    return row
