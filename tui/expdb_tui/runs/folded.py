"""Runs folded over seeds: one row a config, with the mean and spread of its seeds."""

from __future__ import annotations

from collections.abc import Sequence

from expdb.index.reader import Reader
from expdb.model import RunAt
from expdb.query.seed_results import SeedGroup, SeedGroups
from expdb.query.seeds import over_seeds
from expdb.signs import STATE_GLYPHS
from expdb.text import age, decimals_for, metric, plain, signed
from expdb_tui.columns import Column
from expdb_tui.ink import Piece
from expdb_tui.marks import OUTCOME_ROLES, Marks
from expdb_tui.runs.cells import ROLES
from expdb_tui.runs.fixed import FixedLines
from expdb_tui.session import now_ms

LOUDEST = ("running", "paused", "failed", "crashed", "lost", "preempted", "pending", "finished")


def read_groups(
    reader: Reader, *, head: RunAt | None, where: str, params: Sequence[object]
) -> SeedGroups:
    """Return the groups, newest first.

    Raises:
        NotFound: no objective is declared.
    """
    return over_seeds(reader, head=head, where=where, params=params, newest_first=True)


def lines_of(found: SeedGroups, marks: Marks, *, ascii: bool) -> FixedLines[SeedGroup]:
    """Return the rows of groups; a group stands for the run of its lowest seed."""
    decimals = decimals_for(group.mean for group in found.groups)
    key = found.objective.metric
    now = now_ms()
    pm = "+-" if ascii else "±"

    def state(group: SeedGroup) -> Sequence[Piece]:
        loudest = next((word for word in LOUDEST if group.states.get(word)), None)
        if loudest is None:
            return []
        look = STATE_GLYPHS[loudest]
        return [(look.ascii if ascii else look.glyph, ROLES[look.colour])]

    def name(group: SeedGroup) -> Sequence[Piece]:
        bold = "+bold" if group.refs or group.is_baseline else ""
        out: list[Piece] = [
            (plain(group.experiment), f"text{bold}"), (plain(group.variant), "dim"),
        ]  # fmt: skip
        for ref in group.refs:
            out += [(" ", ""), (f" {plain(ref)} ", "accent+on-surface")]
        if group.shares_name:
            out.append((f"  {group.digest[:6]}", "faint"))
        return out

    def mean(group: SeedGroup) -> Sequence[Piece]:
        if group.mean is None:
            return []
        spread = "" if group.sd is None else f" {pm}{metric(group.sd, decimals, key=key)}"
        return [(metric(group.mean, decimals, key=key), "text"), (spread, "dim")]

    def delta(group: SeedGroup) -> Sequence[Piece]:
        if group.is_baseline:
            return [("0", "dim")]
        return (
            [] if group.delta is None else [(signed(group.delta.value, decimals, key=key), "text")]
        )

    def sign(group: SeedGroup) -> Sequence[Piece]:
        outcome = group.delta.outcome if group.delta is not None else None
        if outcome is None or group.is_baseline:
            return []
        return [(marks.outcomes[outcome], OUTCOME_ROLES[outcome])]

    columns: list[Column[SeedGroup]] = [
        Column(
            name="mark", head="", width=1,
            cell=lambda group: [(marks.series[0], "series0")] if group.is_baseline else [],
        ),
        Column(name="state", head="", width=1, gap=1, cell=state),
        Column(name="experiment", head="experiment", width=12, fills=True, cell=name),
        Column(
            name="n", head="n", width=3, gap=1, is_right=True,
            cell=lambda group: [(str(sum(group.states.values())), "dim")],
        ),
        Column(
            name="objective", head=f"{plain(key)} {pm} sd", width=max(18, len(key) + 5),
            is_right=True, cell=mean,
        ),
        Column(
            name="delta", head="delta" if ascii else "Δ base", width=7, is_right=True, since=52,
            cell=delta,
        ),
        Column(name="sign", head="", width=1, gap=1, cell=sign),
        Column(
            name="age", head="age", width=4, is_right=True, since=60,
            cell=lambda group: [(age(group.newest_ms, now), "dim")],
        ),
    ]  # fmt: skip
    runs = [group.runs[0] if group.runs else None for group in found.groups]
    return FixedLines(found.groups, runs, columns, marks, sorted_by="")
