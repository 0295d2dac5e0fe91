"""What is said below the matrix of the cell under the cursor: how it stands, and why.

Invariant: of a stale run every cause is named with its value then and now, or counted.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from expdb import digest
from expdb.model import Objective
from expdb.query.declared_results import Declaration
from expdb.query.matrix_results import MatrixRow
from expdb.query.status_results import Reason, StatusRow
from expdb.text import ago, config_value, decimals_for, metric, plain
from expdb_tui.ink import Piece, fit, titled
from expdb_tui.marks import Marks
from expdb_tui.session import now_ms

NAME = 26
VALUE_CELLS = 24


def detail_rows(
    row: MatrixRow,
    cell: StatusRow | None,
    seed: int | None,
    declared: Declaration,
    objective: Objective | None,
    *,
    width: int,
    height: int,
    marks: Marks,
) -> list[Sequence[Piece]]:
    """Return what is to be said of a cell, in `height` rows at most."""
    title: list[Piece] = [(f" {plain(row.name)}", "text+bold")]
    if row.fault:
        title.append(("  cannot be trained", "fail"))
        said: list[Sequence[Piece]] = [[(f"   {plain(row.fault)}", "text")]]
        said.append([("   expdb doctor --conf", "accent"), ("  says where", "dim")])
        return [titled(title, width - 1, marks.rule), *said][:height]
    if seed is not None:
        title.append((f"  seed {seed}", "text+bold"))
    if cell is None:
        title.append(("  not declared", "dim"))
        return [titled(title, width - 1, marks.rule)]
    run = cell.run
    title.append((f"  {cell.state}", "warn" if cell.state == "stale" else "dim"))
    tail: list[Piece] = [(run.id, "faint")] if run is not None else []
    out: list[Sequence[Piece]] = [titled(title, width - 1, marks.rule, tail)]
    most = max(1, height - 3)
    reasons = [_reason(one, row, declared, marks) for one in cell.reasons[:most]]
    if len(cell.reasons) > most:
        reasons[-1] = [(f"   and {len(cell.reasons) - most + 1} more", "dim")]
    out += reasons
    if run is not None:
        out.append(_last_run(cell, objective, marks))
        out.append([("   enter", "accent"), (" the runs of this cell", "dim")])
    else:
        out.append(_command(row, cell, declared))
    return out[:height]


def _reason(one: Reason, row: MatrixRow, declared: Declaration, marks: Marks) -> list[Piece]:
    if one.kind == "file":
        return [*_name(one.name, marks), ("edited since it was trained", "dim")]
    arrow = "->" if marks.rule == "-" else "→"
    old, new = (
        "-" if value is digest.ABSENT else config_value(value, VALUE_CELLS)
        for value in (one.old, one.new)
    )
    where = f"declared in conf/{declared.group}/{row.experiment}.yaml"
    if one.kind == "environment":
        where = f"from the environment variable {one.name}"
    moved: list[Piece] = [(f"{plain(old)} {arrow} ", "dim"), (plain(new), "text+bold")]
    return [*_name(one.key or one.name, marks), *moved, (f"   {plain(where)}", "dim")]


def _name(name: str, marks: Marks) -> list[Piece]:
    return fit([(f"   {plain(name)}", "text")], NAME + 3, ellipsis=marks.ellipsis)


def _last_run(cell: StatusRow, objective: Objective | None, marks: Marks) -> list[Piece]:
    run = cell.run
    assert run is not None
    out = _name("last run", marks)
    out[0] = (out[0][0], "dim")
    when = run.ended_at_ms or run.created_at_ms
    word = "began" if run.ended_at_ms is None else run.state.value
    out.append((f"{word} {ago(when, now_ms())}", "text"))
    if objective is not None and run.objective is not None and run.value is not None:
        value = metric(run.value, decimals_for([run.value]), key=run.objective.metric)
        role = "dim" if math.isfinite(run.value) else "fail"
        out.append((f"   {plain(run.objective.metric)} {value}", role))
    if run.last_step is not None:
        most = f"/{run.max_steps}" if run.max_steps else ""
        out.append((f"   step {run.last_step}{most}", "dim"))
    if run.reason:
        out.append((f"   {plain(run.reason)}", "fail"))
    if cell.lacks:
        out.append((f"   lacks {plain(', '.join(cell.lacks))}", "warn"))
    return out


def _command(row: MatrixRow, cell: StatusRow, declared: Declaration) -> list[Piece]:
    """Return how a run is trained that is missing."""
    script = declared.entry.script or "train.py"
    words = ["python", script, f"+{declared.group}={row.experiment}", *cell.overrides]
    return [("   " + plain(shlex.join(words)), "accent"), ("   or R: all that is missing", "dim")]
