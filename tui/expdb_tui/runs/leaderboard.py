"""Runs as a leaderboard: by the objective, best first; what cannot win comes last, with why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from expdb.index.reader import Reader
from expdb.model import RunAt
from expdb.query.rank import ranking
from expdb.query.results import Ranking, RunRow
from expdb.signs import STATE_GLYPHS
from expdb.text import decimals_for, metric, plain, signed
from expdb_tui.columns import Column
from expdb_tui.ink import Piece
from expdb_tui.marks import OUTCOME_ROLES, Marks
from expdb_tui.runs.cells import ROLES
from expdb_tui.runs.fixed import FixedLines

MOST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One row: a run with its number, or one that cannot win."""

    number: int | None
    row: RunRow
    why: str = ""


def read_leaderboard(
    reader: Reader, *, head: RunAt | None, where: str, params: Sequence[object]
) -> Ranking:
    """Return the ranking.

    Raises:
        NotFound: nothing can be ranked.
    """
    return ranking(reader, limit=MOST, head=head, where=where, params=params)


def lines_of(
    found: Ranking, marks: Marks, places: dict[str, int], *, ascii: bool
) -> FixedLines[Ranked]:
    """Return the rows of a ranking."""
    rows = [Ranked(number=at, row=row) for at, row in enumerate(found.rows, 1)]
    rows += [Ranked(number=None, row=row, why=why) for row, why in found.not_ranked]
    decimals = decimals_for(row.value for row in found.rows)
    key, base = found.objective.metric, found.baseline

    def mark(one: Ranked) -> Sequence[Piece]:
        if base is not None and one.row.id == base.id:
            return [(marks.series[0], "series0")]
        place = places.get(one.row.id)
        return [(marks.series[place], f"series{place}")] if place is not None else []

    def number(one: Ranked) -> Sequence[Piece]:
        if one.number is None:
            return []
        is_tied = one.number <= found.num_tied
        return [(str(one.number), "text+bold" if is_tied else "dim")]

    def state(one: Ranked) -> Sequence[Piece]:
        look = STATE_GLYPHS[one.row.state.value]
        return [(look.ascii if ascii else look.glyph, ROLES[look.colour])]

    def name(one: Ranked) -> Sequence[Piece]:
        run = one.row
        out: list[Piece] = [
            (plain(run.experiment), "text+bold" if run.refs else "text"),
            (plain(run.variant), "dim"),
        ]
        for ref in run.refs:
            out += [(" ", ""), (f" {plain(ref)} ", "accent+on-surface")]
        if one.why:
            out.append((f"  {plain(one.why)}", "warn"))
        return out

    def value(one: Ranked) -> Sequence[Piece]:
        if one.row.value is None:
            return []
        text = metric(one.row.value, decimals, key=key, absent="")
        return [(text, "text" if math.isfinite(one.row.value) else "fail")]

    def delta(one: Ranked) -> Sequence[Piece]:
        if base is not None and one.row.id == base.id:
            return [("0", "dim")]
        found_delta = one.row.delta
        return (
            [] if found_delta is None else [(signed(found_delta.value, decimals, key=key), "text")]
        )

    def sign(one: Ranked) -> Sequence[Piece]:
        outcome = one.row.delta.outcome if one.row.delta is not None else None
        return [] if outcome is None else [(marks.outcomes[outcome], OUTCOME_ROLES[outcome])]

    def step(one: Ranked) -> Sequence[Piece]:
        return [("" if one.row.value_step is None else f"@{one.row.value_step}", "dim")]

    columns: list[Column[Ranked]] = [
        Column(name="mark", head="", width=1, cell=mark),
        Column(name="number", head="#", width=3, gap=1, is_right=True, cell=number),
        Column(name="state", head="", width=1, gap=1, cell=state),
        Column(name="experiment", head="experiment", width=12, fills=True, cell=name),
        Column(
            name="seed", head="s", width=3, gap=1, is_right=True, since=60,
            cell=lambda one: [("" if one.row.seed is None else str(one.row.seed), "dim")],
        ),
        Column(
            name="step", head="step", width=7, is_right=True, since=72,
            cell=step,
        ),
        Column(
            name="objective", head=plain(key), width=max(8, min(14, len(key))), is_right=True,
            cell=value,
        ),
        Column(
            name="delta", head="delta" if ascii else "Δ base", width=7, is_right=True, since=52,
            cell=delta,
        ),
        Column(name="sign", head="", width=1, gap=1, cell=sign),
        Column(name="id", head="id", width=10, since=104, cell=lambda one: [(one.row.id, "faint")]),
    ]  # fmt: skip
    return FixedLines(rows, [one.row.id for one in rows], columns, marks, sorted_by="objective")
