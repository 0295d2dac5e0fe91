"""`expdb compare`: config, code, environment, data, metrics and events of runs, then the verdict.

Invariant: the first run is the one measured against. Only what differs is listed unless all is
asked for; no row is dropped for width: percentages go, then names, then the runs become rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from expdb.model import Run
from expdb.query.compare_results import Comparison, ConfigDiff, MetricDiff, NamedDiff
from expdb.query.results import ABSENT
from expdb.report.columns import AnyRow, FileRow, SectionRow, ValueRow, lay_out, measure
from expdb.report.grid import Cell
from expdb.report.runs_as_rows import render_rows
from expdb.report.style import Style
from expdb.report.verdict import verdict_lines
from expdb.report.words import (
    OUTCOME_COLOURS,
    READINGS,
    SHORT_WORDS,
    code_line,
    code_short,
    counted,
    environment_line,
    head_label,
    short_digest,
)
from expdb.signs import Colour
from expdb.text import (
    CONFIG_CELLS,
    band,
    config_value,
    cut_middle,
    decimals_for,
    metric,
    percent,
    plain,
    signed,
)

MAX_FILES = 30
NARROW = 80
QUIET_PREFIXES = ("layer/", "group/", "sys/", "amp/")
"""Metrics by the hundred that say little side by side; `--all` lists them."""


def render(
    comparison: Comparison, style: Style, *, all: bool = False, config_only: bool = False
) -> list[str]:
    """Return the comparison as one grid, or with the runs as rows where it does not fit."""
    rows = rows_of(comparison, style, all=all, config_only=config_only)
    named = [head_label(run, style) for run in comparison.runs]
    bare = [style.run(run.id) for run in comparison.runs]
    lines = None
    for heads, with_percent in ((named, style.width > NARROW), (named, False), (bare, False)):
        widths = measure(rows, heads, with_percent=with_percent)
        if widths.total <= style.width:
            lines = lay_out([_said(row, style) for row in rows], heads, widths, style)
            break
    if lines is None:
        lines = render_rows(comparison, style, all=all or config_only)
    return lines if config_only else [*lines, "", *verdict_lines(comparison, style)]


def rows_of(
    comparison: Comparison, style: Style, *, all: bool = False, config_only: bool = False
) -> list[AnyRow]:
    """Return the rows of the grid, sections one after the other."""
    rows = _config(comparison, style, all=all)
    if config_only:
        return rows
    rows += _code(comparison, style, all=all)
    rows += _named("environment", comparison.environment, _environment(comparison), style, all=all)
    rows += _named("data", comparison.data, "", style, all=all)
    rows += _metrics(comparison, style, all=all)
    rows += _evals(comparison, style, all=all)
    rows += _gates(comparison, style)
    return rows + _events(comparison, all=all)


def _said(row: AnyRow, style: Style) -> AnyRow:
    if isinstance(row, SectionRow):
        return SectionRow(row.label, style.say(row.head), style.say(row.text))
    return row


def _shown(diff: NamedDiff) -> bool:
    return any(value != diff.values[0] for value in diff.values[1:])


def _config(comparison: Comparison, style: Style, *, all: bool) -> list[AnyRow]:
    differ = [diff for diff in comparison.config if diff.differs]
    total = len(comparison.config)
    if not differ:
        head: AnyRow = SectionRow("config", "same", counted(total, "key"))
    else:
        groups = len({diff.key.split(".")[0] for diff in differ})
        text = f"{len(differ):,} of {counted(total, 'key')}"
        text += f", {counted(groups, 'group')}" if len(differ) > 1 else ""
        head = SectionRow("config", text)
    return [head, *(_config_row(diff, style) for diff in (comparison.config if all else differ))]


def _config_row(diff: ConfigDiff, style: Style) -> ValueRow:
    ellipsis = style.signs.ellipsis
    values = tuple(
        Cell("-", "dim") if value is ABSENT else Cell(config_value(value, ellipsis=ellipsis))
        for value in diff.values
    )
    return ValueRow(f"  {plain(diff.key)}", values)


def _code(comparison: Comparison, style: Style, *, all: bool) -> list[AnyRow]:
    code = comparison.code
    pins = [run.pin for run in comparison.runs]
    if code.same_tree is None:
        return [SectionRow("code", "unknown", code.note)]
    if code.same_tree:
        return [SectionRow("code", "same", code_line(pins[0]))]
    sides = f" {style.signs.arrow} ".join(code_short(pin) for pin in pins)
    head = counted(len(code.files), "file") if code.files else "differs"
    rows: list[AnyRow] = [SectionRow("code", head, f"{sides}; {code.note}" if code.note else sides)]
    shown = code.files if all else code.files[:MAX_FILES]
    has_config = any(diff.differs for diff in comparison.config)
    for file in shown:
        note = "config, above" if has_config and file.path.startswith("conf/") else ""
        if file.num_added is None and file.num_removed is None:
            note = "binary"
        added = f"+{file.num_added}" if file.num_added else ""
        removed = f"-{file.num_removed}" if file.num_removed else ""
        rows.append(FileRow(f"  {file.status} {plain(file.path)}", added, removed, note))
    if len(code.files) > len(shown):
        rows.append(FileRow(f"  {len(code.files) - len(shown):,} more: --all", "", ""))
    return rows


def _environment(comparison: Comparison) -> str:
    attempt = comparison.runs[0].attempt
    return environment_line(attempt.environment) if attempt else ""


def _named(
    label: str, diffs: Sequence[NamedDiff], summary: str, style: Style, *, all: bool
) -> list[AnyRow]:
    differ = [diff for diff in diffs if _shown(diff)]
    if differ:
        verb = "differs" if len(differ) == 1 else "differ"
        head = SectionRow(label, f"{len(differ):,} {verb}")
    else:
        head = SectionRow(label, "same" if diffs or summary else "none recorded", summary)
    rows: list[AnyRow] = [head]
    for diff in diffs if all else differ:
        values = tuple(
            Cell("-", "dim") if value is None else Cell(_named_value(value, style))
            for value in diff.values
        )
        rows.append(ValueRow(f"  {plain(diff.name)}", values))
    return rows


def _named_value(value: str, style: Style) -> str:
    """Return a digest with its first 8 characters, and any other text cut in the middle."""
    return cut_middle(plain(short_digest(value)), CONFIG_CELLS, style.signs.ellipsis)


def _metrics(comparison: Comparison, style: Style, *, all: bool) -> list[AnyRow]:
    shown = [diff for diff in comparison.metrics if all or _worth_showing(diff)]
    if not comparison.metrics:
        return [SectionRow("metrics", "none in common")]
    reading = READINGS[comparison.objective.reading if comparison.objective else "last"]
    at = "" if comparison.step is None else f"step {comparison.step}, "
    if comparison.ends:
        at = f"steps {' and '.join(map(str, comparison.ends))}, "
    return [SectionRow("metrics", f"{at}{reading}"), *(metric_row(d, style) for d in shown)]


def _worth_showing(diff: MetricDiff) -> bool:
    if diff.is_objective:
        return True
    if diff.key.startswith(QUIET_PREFIXES):
        return False
    return any(value != diff.values[0] for value in diff.values[1:])


def metric_row(
    diff: MetricDiff, style: Style, *, is_eval: bool = False, with_band: bool = True
) -> ValueRow:
    """Return one metric: values, deltas, percentage, outcome."""
    decimals = decimals_for(diff.values)
    values = tuple(
        Cell(metric(value, decimals, key=diff.key), _value_colour(value)) for value in diff.values
    )
    deltas = []
    for delta, outcome in list(zip(diff.deltas, diff.outcomes, strict=True))[1:]:
        text = signed(delta, decimals, key=diff.key, absent="")
        deltas.append(Cell(text, OUTCOME_COLOURS[outcome] if outcome else ""))
    word = Cell()
    outcome = diff.outcomes[1] if len(diff.outcomes) == 2 else None
    if outcome is not None:
        text = SHORT_WORDS[outcome]
        if is_eval and with_band and diff.noise and diff.noise[-1] is not None:
            text += f" {band(diff.noise[-1], decimals, pm=style.signs.pm)}"
        word = Cell(text, OUTCOME_COLOURS[outcome])
    change = "" if is_eval or len(diff.values) != 2 else percent(diff.deltas_pct[1])
    label = f"  {plain(diff.key)}"
    return ValueRow(label, values, tuple(deltas), change, word, strong=diff.is_objective)


def _value_colour(value: float | None) -> Colour:
    return "" if value is None or math.isfinite(value) else "red"


def _evals(comparison: Comparison, style: Style, *, all: bool) -> list[AnyRow]:
    if not comparison.evals:
        return []
    steps = {diff.step for diff in comparison.evals}
    step = steps.pop() if len(steps) == 1 else None
    parts = [] if step is None else [f"step {step}"]
    sizes = {diff.n for diff in comparison.evals if diff.n}
    if len(sizes) == 1:
        parts.append(f"{sizes.pop():,} items")
    same = _same_items(comparison.runs, step)
    if same is not None:
        parts.append("the same items" if same else "other items")
    rows = [metric_row(diff, style, is_eval=True) for diff in comparison.evals]
    return [SectionRow("evals", ", ".join(parts)), *rows]


def _gates(comparison: Comparison, style: Style) -> list[AnyRow]:
    """Return each gate of the newest run, and how every run stands to it."""
    if not comparison.gates:
        return []
    from expdb.report.gates import cells_of, name_of  # few runs have gates

    newest = max(comparison.runs, key=lambda run: (run.created_at_ms, run.id))
    rows = [ValueRow(f"  {name_of(row[0].gate)}", cells_of(row, style)) for row in comparison.gates]
    return [SectionRow("gates", f"of {head_label(newest, style)}, at the end of each run"), *rows]


def _same_items(runs: Sequence[Run], step: int | None) -> bool | None:
    """Tell whether all runs were evaluated on the same items; None where it is not recorded."""
    digests = [
        {ev.task: ev.items_digest for ev in run.evals if step is None or ev.step == step}
        for run in runs
    ]
    tasks = set(digests[0]).intersection(*digests[1:])
    if not tasks or any(not found[task] for found in digests for task in tasks):
        return None
    return all(found[task] == digests[0][task] for found in digests for task in tasks)


def _events(comparison: Comparison, *, all: bool) -> list[AnyRow]:
    if not all and not any(sum(counts.values()) for counts in comparison.num_events):
        return []
    values = tuple(Cell(events_of(counts)) for counts in comparison.num_events)
    return [ValueRow("events", values)]


def events_of(counts: Mapping[str, int]) -> str:
    """Return events by severity: `1 warn`, `none`."""
    some = [f"{counts[word]} {word}" for word in ("critical", "warn", "info") if counts.get(word)]
    return ", ".join(some) or "none"
