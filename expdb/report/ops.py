"""`expdb ops`, `undo` and `baseline`: what was changed, and how it is taken back.

Invariant: an op's id is written as short as the ids of the list allow; ops are newest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.style import Style
from expdb.report.words import counted
from expdb.text import age, id_length, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expdb.actions.results import BaselineResult, OpRow, UndoResult
    from expdb.model import RunAt


def render_ops(rows: Sequence[OpRow], style: Style) -> list[str]:
    """Return the table of ops; a mark where this work tree stands."""
    short = id_length(row.id for row in rows)
    columns = (
        Column(head="op"),
        Column(head="age", right=True),
        Column(head="what", cut="end"),
        Column(head="paths", right=True),
        Column(head="undo"),
    )
    made = []
    for row in rows:
        made.append(
            (
                Cell(row.id[:short]),
                Cell(age(row.created_at_ms, style.now_ms), "dim"),
                Cell(style.say(row.what)),
                Cell("-" if row.num_paths is None else str(row.num_paths)),
                _undo_cell(row, short, style),
            )
        )
    return lay_out(
        Grid(columns, tuple(made), tuple("*" if r.is_here else " " for r in rows)), style
    )


def _undo_cell(row: OpRow, short: int, style: Style) -> Cell:
    if row.state == "unfinished":
        return Cell("unfinished: expdb rollback --continue or --abort", "yellow")
    if row.state == "aborted":
        return Cell("taken back", "dim")
    if row.undone_by:
        return Cell(f"undone by {row.undone_by[:short]}", "dim")
    if row.kind == "worktree":
        return Cell("git worktree remove DIR", "dim")
    if row.other_work_tree and not row.can_undo:
        return Cell("in another work tree", "dim")
    return Cell(f"expdb undo {row.id[:short]}") if row.can_undo else Cell("-", "dim")


def render_undo(result: UndoResult, style: Style) -> list[str]:
    """Return what an undo brought back."""
    undone = result.undone
    lines = [
        f"{style.paint('undid', 'green')} {style.say(undone.what)}  "
        f"(op {undone.id}; this undo is op {result.op})"
    ]
    if result.record is not None:
        name, what = result.record
        lines.append(f"  {plain(name):<8} {plain(what)}")
        return lines
    if result.ref:
        lines.append(f"  {plain(result.ref):<8} {_at(result.ref_after, style)}, as before")
        return lines
    lines.append(f"  {'code':<9}{_restored(result)}")
    head = "follows baseline" if result.head is None else _at(result.head, style)
    return [*lines, f"  {'HEAD':<9}{head}, as before"]


def _restored(result: UndoResult) -> str:
    kinds = (
        (result.num_changed, "changed"),
        (result.num_created, "created"),
        (result.num_deleted, "deleted"),
    )
    some = ", ".join(f"{number:,} {word}" for number, word in kinds if number)
    text = f"{counted(result.num_paths, 'path')} restored" + (f": {some}" if some else "")
    return text + (f"; {result.num_staged:,} staged as it was" if result.num_staged else "")


def _at(at: RunAt | None, style: Style) -> str:
    if at is None:
        return "none"
    return style.run(at.run) + ("" if at.step is None else f"@{at.step}")


def named_baseline(result: BaselineResult) -> str:
    """Return which run is the baseline: `k3f9x2m7qd  baseline  seed 0`."""
    if result.after is None:
        return "none"
    at = "" if result.after.step is None else f"@{result.after.step}"
    if result.run is None:
        return f"{result.after.run}{at}  not in this store"
    seed = "" if result.run.seed is None else f"  seed {result.run.seed}"
    return f"{result.run.id}{at}  {plain(result.run.name)}{seed}"


def render_baseline(result: BaselineResult, style: Style) -> list[str]:
    """Return the ref `baseline` after the call, and what it was."""
    name = f" {plain(result.run.name)}" if result.run is not None else ""
    after = f"{_at(result.after, style)}{name}" if result.after else "none"
    if result.op is None:
        return [f"baseline {style.signs.arrow} {after} (as it was)"]
    return [f"baseline {style.signs.arrow} {after} (was {_at(result.before, style)})"]
