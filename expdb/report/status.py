"""`expdb status`: the work tree against HEAD, then experiments x seeds with their states.

Invariant: seeds of one experiment in the same state and for the same reason are one row; the states
of an experiment are ordered strongest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from expdb.query.results import RunRow
from expdb.query.status_results import StoreStatus, WorkTreeStatus
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.style import Style
from expdb.report.words import counted, label, step_of
from expdb.signs import STATE_GLYPHS
from expdb.text import decimals_for, metric, plain, size

STRONGEST_FIRST = (
    "running",
    "paused",
    "pending",
    "failed",
    "crashed",
    "lost",
    "preempted",
    "finished",
)
MAX_EDITS = 6


def render(status: StoreStatus, style: Style) -> list[str]:
    """Return the work tree, the store, the table and the counts."""
    runs = counted(status.num_runs, "run")
    lines = _work_tree(status.work_tree, style)
    lines.append(f"store      {style.say(status.store)}: {runs}, {size(status.bytes)}")
    if not status.rows:
        return lines
    counts = [
        f"{status.counts[word]:,} {word}"
        for word in STRONGEST_FIRST[::-1]
        if status.counts.get(word)
    ]
    return [*lines, "", *lay_out(_grid(status, style), style), "", ", ".join(counts)]


def _work_tree(tree: WorkTreeStatus, style: Style) -> list[str]:
    if not tree.in_git:
        reason = tree.reason or "not a git repository"
        return [f"work tree  {style.say(reason)}: runs keep config and weights, not code"]
    at = "no commit yet" if tree.commit is None else f"{tree.branch} {tree.commit[:7]}"
    if tree.branch == "detached" and tree.commit:
        at = f"detached at {tree.commit[:7]}"
    lines = [f"work tree  {style.say(at)}, {_against_head(tree, style)}"]
    if tree.edits:
        shown = [f"{letter} {plain(path)}" for letter, path in tree.edits[:MAX_EDITS]]
        more = len(tree.edits) - len(shown)
        lines.append(" " * 13 + "   ".join(shown) + (f"   and {more:,} more" if more > 0 else ""))
    if tree.unfinished:
        say = f"{style.say(tree.unfinished)}: --continue or --abort"
        lines.append(f"{style.paint('unfinished', 'yellow')} {say}")
    return lines


def _against_head(tree: WorkTreeStatus, style: Style) -> str:
    edited = counted(len(tree.edits), "file")
    if tree.head is None:
        state = f"{edited} edited" if tree.edits else "clean"
        parent = "has none" if tree.baseline is None else f"is {label(tree.baseline, style)}"
        return f"{state}; no rollback yet: the next run's parent {parent}"
    head = label(tree.head, style) + ("" if tree.head_step is None else f"@{tree.head_step}")
    if tree.equals_head:
        return f"clean, equals HEAD {head}"
    if tree.edits:
        return f"rolled back to {head}; since then {edited} edited"
    return f"clean, at another commit than HEAD {head}"


def _grid(status: StoreStatus, style: Style) -> Grid:
    columns = (
        Column(head="experiment", cut="middle"),
        Column(head="seed"),
        Column(head="state"),
        Column(head=style.say(status.metric or "objective"), right=True, leaves=0),
        Column(head="why", cut="end"),
    )
    groups = _groups(status.rows)
    decimals = decimals_for(row.value for row in status.rows if _counts(row, status))
    rows, marks = [], []
    before = ""
    for group in groups:
        first = group[0]
        look = STATE_GLYPHS[first.state.value]
        name = plain(first.name)
        shown = name if name != before or not style.terminal else ""
        before = name
        values = [r.value for r in group if _counts(r, status) and r.value is not None]
        mean = fmean(values) if values else None
        rows.append(
            (
                Cell(shown),
                Cell(seeds([row.seed for row in group])),
                Cell(first.state.value, look.colour if not style.terminal else ""),
                Cell(metric(mean, decimals, key=status.metric or "", absent="")),
                Cell(style.say(_why(first))),
            )
        )
        marks.append(style.paint(style.glyph(first.state.value), look.colour))
    return Grid(columns, tuple(rows), tuple(marks))


def _counts(row: RunRow, status: StoreStatus) -> bool:
    return row.objective is not None and row.objective.metric == status.metric


def _groups(rows: Sequence[RunRow]) -> list[list[RunRow]]:
    groups: dict[tuple[str, str, str, str], list[RunRow]] = {}
    for row in rows:
        alike = (row.experiment, row.variant, row.state.value, _why(row))
        groups.setdefault(alike, []).append(row)
    order = {state: at for at, state in enumerate(STRONGEST_FIRST)}
    return sorted(
        groups.values(),
        key=lambda group: (group[0].experiment, group[0].variant, order[group[0].state.value]),
    )


def _why(row: RunRow) -> str:
    at = step_of(row.last_step, row.max_steps)
    match row.state.value:
        case "finished":
            return ""
        case "running" | "paused" | "pending":
            return at
        case "failed":
            return row.reason or f"at {at}"
        case _:
            return f"at {at}" if at else row.reason


def seeds(values: Sequence[int | None]) -> str:
    """Return seeds with ranges folded: `0-2`, `0,2-4`; empty where a run has none."""
    known = sorted({value for value in values if value is not None})
    if not known:
        return ""
    ranges = [[known[0], known[0]]]
    for left, right in pairwise(known):
        if right == left + 1:
            ranges[-1][1] = right
        else:
            ranges.append([right, right])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def need_a_run(status: StoreStatus) -> list[str]:
    """Return the experiments whose newest run did not come to its end: `exp06_moe:s1`."""
    return [
        plain(row.name) + ("" if row.seed is None else f":s{row.seed}")
        for row in status.rows
        if row.state.value in ("failed", "crashed", "lost", "preempted")
    ]


def next_commands(status: StoreStatus, style: Style) -> list[tuple[str, str]]:
    """Return the command that takes up the newest run that was cut off."""
    cut_off = [row for row in status.rows if row.state.value in ("crashed", "preempted")]
    if not cut_off:
        return []
    newest = max(cut_off, key=lambda row: row.created_at_ms)
    return [("resume", f"expdb resume {style.run(newest.id)}")]
