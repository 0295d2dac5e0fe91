"""`expdb rank`: best first, the group that noise cannot tell apart, and whether there is a winner.

Invariant: the deciding line stands last; runs that cannot win are named with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from expdb.query.results import Ranking, RunRow
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.listing import delta_cells
from expdb.report.style import Style
from expdb.report.words import direction, label, noise_band, with_refs
from expdb.text import age, decimals_for, metric, signed

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
    lines = lay_out(_grid(ranking, style), style)
    tied = ranking.num_tied
    if style.terminal and 1 < tied < len(ranking.rows):
        lines.insert(1 + tied, f"  {style.paint(style.signs.dot, 'dim')}")
    return lines


def _grid(ranking: Ranking, style: Style) -> Grid:
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


def next_commands(ranking: Ranking) -> list[tuple[str, str]]:
    """Return what to do next: how noise becomes known where it is not."""
    if ranking.noise is None and len(ranking.rows) > 1:
        metric_name = ranking.objective.metric
        return [
            ("hint", f"declare the noise you know, in conf/expdb: noise: {{{metric_name}: SD}}")
        ]
    return []
