"""`expdb rank`: best first, the group that noise cannot tell apart, and whether there is a winner.

Invariant: the deciding line stands last; runs that cannot win are named with the reason.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from expdb.query.results import Outcome, Ranking, RunRow
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.json import utc
from expdb.report.listing import delta_cells, delta_values, grid_markdown, piped
from expdb.report.style import Style
from expdb.report.words import direction, label, noise_band, with_refs
from expdb.store.candidates import ResolveRow, say
from expdb.text import age, decimals_for, metric, plain, signed

NAMED = 8
"""How many runs that are not ranked are named before the rest is counted."""


def render(ranking: Ranking, style: Style, *, is_whole: bool = True) -> list[str]:
    """Return the ranking: what is ranked, the table, who is left out, the verdict.

    `is_whole` says that no row was left out by a limit.
    """
    lines = [_head(ranking, style), "", *_table(ranking, style)]
    left_out = _left_out(ranking, style)
    if left_out:
        lines += ["", *left_out]
    return [*lines, "", _verdict(ranking, style, is_whole=is_whole)]


def _values(ranking: Ranking) -> list[float | None]:
    return [row.value for row in ranking.rows]


def _head(ranking: Ranking, style: Style) -> str:
    known = ranking.noise
    if known is None:
        noise = "noise not known"
    else:
        noise = f"noise {noise_band(known, _values(ranking), style)}"
    return f"{style.say(direction(ranking.objective))}; {noise}"


def _table(ranking: Ranking, style: Style) -> list[str]:
    lines = lay_out(grid(ranking, style), style)
    tied = ranking.num_tied
    if style.terminal and 1 < tied < len(ranking.rows):
        lines.insert(1 + tied, f"  {style.paint(style.signs.dot, 'dim')}")
    return lines


def grid(ranking: Ranking, style: Style) -> Grid:
    """Return the table of `rank`."""
    key = ranking.objective.metric
    extra = ranking.extra_metrics
    columns = [
        Column(head="#", right=True, min_cells=3),
        Column(head="run"),
        Column(head="experiment", cut="middle"),
        Column(head="seed", right=True, leaves=2),
        Column(head=style.say(key), right=True),
        Column(head="vs baseline"),
        *(Column(head=style.say(name), right=True, leaves=0) for name in extra),
        Column(head="age", right=True, leaves=1),
    ]
    decimals = decimals_for(_values(ranking))
    extra_decimals = {
        name: decimals_for(row.metrics.get(name) for row in ranking.rows) for name in extra
    }
    rows = []
    for at, (row, delta) in enumerate(
        zip(ranking.rows, delta_cells(ranking.rows, decimals, key), strict=True)
    ):
        further = (
            metric(row.metrics.get(name), extra_decimals[name], key=name, absent="")
            for name in extra
        )
        cells_of_row = [
            Cell(str(at + 1)),
            Cell(style.run(row.id), "dim"),
            Cell(with_refs(row, style), "bold" if row.is_head else ""),
            Cell("" if row.seed is None else str(row.seed)),
            Cell(metric(row.value, decimals, key=key, absent="")),
            delta,
            *(Cell(text) for text in further),
            Cell(age(row.created_at_ms, style.now_ms), "dim"),
        ]
        rows.append(tuple(cells_of_row))
    return Grid(tuple(columns), tuple(rows))


def _left_out(ranking: Ranking, style: Style) -> list[str]:
    lines = []
    if ranking.not_ranked:
        named = [f"{style.run(row.id)} {style.say(why)}" for row, why in ranking.not_ranked]
        lines.append(f"not ranked  {_some(named)}")
    if ranking.apart:
        named = [f"{style.run(row.id)} {_objective(row, style)}" for row in ranking.apart]
        lines.append(f"apart       {_some(named)} (another objective)")
    return lines


def _objective(row: RunRow, style: Style) -> str:
    return "without an objective" if row.objective is None else style.say(row.objective.metric)


def _some(named: Sequence[str]) -> str:
    rest = len(named) - NAMED
    return ", ".join(named[:NAMED]) + (f" and {rest:,} more" if rest > 0 else "")


def _verdict(ranking: Ranking, style: Style, *, is_whole: bool) -> str:
    rows = ranking.rows
    key = ranking.objective.metric
    if not rows:
        word = style.paint("no winner", "yellow", "bold")
        return f"{word}  no run can be ranked by {style.say(key)}"
    first = label(rows[0], style)
    if ranking.num_tied > 1:
        word = style.paint("no winner", "dim", "bold")
        tied = "1 and 2" if ranking.num_tied == 2 else f"1 to {ranking.num_tied}"
        return f"{word}  {tied} cannot be told apart by one seed each"
    if len(rows) == 1:
        alone = ", the only one ranked" if is_whole else ""
        return f"{style.paint('best', 'green', 'bold')}  {first}{alone}"
    ahead = _ahead(ranking)
    if ranking.noise is None:
        word = style.paint("inconclusive", "yellow", "bold")
        if ahead is None:
            return f"{word}  {first} comes first and the next has no finite value"
        return f"{word}  {first} is ahead of the next by {ahead}; its noise is not known"
    noise = noise_band(ranking.noise, _values(ranking), style)
    word = style.paint("best", "green", "bold")
    return f"{word}  {first}, ahead of the next by {ahead}, beyond noise {noise}"


def _ahead(ranking: Ranking) -> str | None:
    first, second = ranking.rows[0].value, ranking.rows[1].value
    if first is None or second is None:
        return None
    text = signed(abs(second - first), decimals_for(_values(ranking)), key=ranking.objective.metric)
    return text.lstrip("+")


def next_commands(ranking: Ranking, metric_name: str | None = None) -> list[tuple[str, str]]:
    """Return what to do next: how noise becomes known, or where seeds tell more.

    `metric_name` is the metric that was asked for.
    """
    if ranking.noise is None and len(ranking.rows) > 1:
        key = ranking.objective.metric
        return [("hint", f"declare the noise you know, in conf/expdb: noise: {{{key}: SD}}")]
    names = [row.name for row in ranking.rows]
    if ranking.num_tied > 1 and len(set(names)) < len(names):
        named = "" if metric_name is None else f" {shlex.quote(plain(metric_name))}"
        return [("seeds", f"expdb rank{named} --over seed")]
    return []


def said_of_baseline(row: RunRow | None, *, is_ref: bool) -> str:
    """Return the resolution line of what runs are measured against; empty where there is none."""
    if row is None:
        return ""
    named = ResolveRow(
        id=row.id,
        experiment=row.experiment,
        variant=row.variant,
        seed=row.seed,
        state=row.state,
        created_at_ms=row.created_at_ms,
    )
    return say("baseline", named, None, how="ref baseline" if is_ref else "")


def best_line(ranking: Ranking, style: Style) -> str:
    """Return the best run: `g2z8r5n1fs  exp07_zloss  seed 0  val/loss 1.839 @300`."""
    row, key = ranking.rows[0], ranking.objective.metric
    parts = [row.id, style.say(row.name)]
    if row.seed is not None:
        parts.append(f"seed {row.seed}")
    value = f"{style.say(key)} {metric(row.value, key=key)}"
    parts.append(value if row.value_step is None else f"{value} @{row.value_step}")
    return "  ".join(parts)


def best_hint(ranking: Ranking, style: Style, *, rolls_back: bool) -> str:
    """Return why the best run is not better than the baseline; empty where it is.

    `rolls_back` says that a rollback without a word would weigh these runs and take the baseline.
    """
    row, base = ranking.rows[0], ranking.baseline
    outcome = row.delta.outcome if row.delta is not None else None
    if base is None or outcome is None or outcome is Outcome.BETTER:
        return ""
    decimals = decimals_for([row.value, base.value])
    value, seed = base.value, ""
    if row.delta is not None and row.delta.against not in ("", base.id):
        value, seed = (row.value or 0.0) - row.delta.value, f" seed {row.seed}"
    named = f"baseline{seed} ({metric(value, decimals, key=ranking.objective.metric)})"
    end = "; rollback would take baseline" if rolls_back else ""
    if ranking.noise is None:
        return f"against {named} nothing can be said: its noise is not known{end}"
    noise = noise_band(ranking.noise, [row.value, base.value], style)
    if outcome is Outcome.WORSE:
        return f"worse than {named} beyond noise {noise}{end}"
    return f"not better than {named} beyond noise {noise}{end}"


def table(ranking: Ranking) -> tuple[list[str], list[list[Any]]]:
    """Return heads and rows for CSV: whole ids, numbers unrounded, times in UTC."""
    extra = ranking.extra_metrics
    heads = ["rank", "run", "experiment", "seed", ranking.objective.metric, "step", "delta"]
    heads += ["outcome", *extra, "created_at"]
    rows = []
    for at, row in enumerate(ranking.rows):
        values: list[Any] = [at + 1, row.id, row.name, row.seed, row.value, row.value_step]
        values += [*delta_values(row)[:2], *(row.metrics.get(name) for name in extra)]
        rows.append([*values, utc(row.created_at_ms)])
    return heads, rows


def to_markdown(ranking: Ranking, style: Style) -> list[str]:
    """Return the table as Markdown, as it is shown in a pipe of any width."""
    return grid_markdown(grid(ranking, piped(style)))
