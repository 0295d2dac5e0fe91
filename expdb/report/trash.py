"""`expdb rm`: what goes to the trash, what is in it, and what came back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expdb.report import json
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.style import Style
from expdb.report.words import counted, label
from expdb.text import age, id_length, plain, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expdb.actions.results import RemovePlan, RemoveResult
    from expdb.store.trash import Trashed

SHOWN = 5
"""So many children of a run are named; the others are counted."""


def render_removal(plan: RemovePlan, style: Style) -> list[str]:
    """Return the runs that would go, a row each, and their total."""
    columns = (
        Column(head="run"),
        Column(head="experiment", cut="middle"),
        Column(head="state"),
        Column(head="size", right=True),
        Column(head="parent of", cut="end"),
    )
    rows = tuple(
        (
            Cell(style.run(run.id)),
            Cell(plain(run.name)),
            Cell(style.state(run.state)),
            Cell(size(plan.bytes.get(run.id, 0))),
            Cell(_children(plan.children.get(run.id, ()), style)),
        )
        for run in plan.runs
    )
    total = f"{counted(len(plan.runs), 'run')}, {size(plan.total)}"
    return [*lay_out(Grid(columns, rows), style), "", f"would remove {total}, to the trash"]


def _children(children: Sequence[str], style: Style) -> str:
    if not children:
        return ""
    names = " ".join(style.run(run) for run in children[:SHOWN])
    more = f" and {len(children) - SHOWN:,} more" if len(children) > SHOWN else ""
    return f"{counted(len(children), 'run')}: {names}{more}"


def render_removed(result: RemoveResult, plan: RemovePlan, style: Style) -> list[str]:
    """Return what went to the trash, and which other runs have it as parent."""
    one = label(plan.runs[0], style) if len(plan.runs) == 1 else counted(len(plan.runs), "run")
    lines = [f"removed {one} to the trash, {size(result.bytes)}  (op {result.op})"]
    for run in plan.runs:
        children = plan.children.get(run.id)
        if children:
            lines.append(f"  {style.run(run.id)} is the parent of {_children(children, style)}")
    return lines


def render_restored(result: RemoveResult, style: Style) -> list[str]:
    """Return what came back from the trash."""
    names = [f"{style.run(run)} {plain(name)}" for run, name in result.runs]
    one = names[0] if len(names) == 1 else counted(len(names), "run")
    line = f"restored {one}, {size(result.bytes)}  (op {result.op})"
    kept = [
        f"  {style.run(run)} was in the store again, with the same content" for run in result.kept
    ]
    return [line, *kept]


def render_trash(entries: Sequence[Trashed], style: Style) -> list[str]:
    """Return what is in the trash, the newest first, with its total."""
    cells = max(style.id_cells, id_length(one.run for one in entries))
    short = id_length(one.op for one in entries)
    columns = (
        Column(head="run"),
        Column(head="experiment", cut="middle"),
        Column(head="size", right=True),
        Column(head="age", right=True),
        Column(head="op"),
    )
    rows = tuple(
        (
            Cell(one.run[:cells]),
            Cell(plain(one.name)),
            Cell(size(one.bytes)),
            Cell(age(one.removed_at_ms, style.now_ms), "dim"),
            Cell(one.op[:short] if one.op else ""),
        )
        for one in entries
    )
    total = sum(one.bytes for one in entries)
    lines = lay_out(Grid(columns, rows), style)
    return [*lines, "", f"{counted(len(entries), 'run')}, {size(total)}"]


def json_of_removal(plan: RemovePlan, done: RemoveResult | None) -> json.Data:
    """Return `rm`, or with `--dry-run` what it would do."""
    return json.document(
        op=None if done is None else done.op,
        bytes=plan.total,
        runs=[
            {
                "id": run.id,
                "experiment": run.experiment,
                "variant": run.variant,
                "state": run.state.value,
                "bytes": plan.bytes.get(run.id, 0),
                "parent_of": list(plan.children.get(run.id, ())),
            }
            for run in plan.runs
        ],
    )


def json_of_restored(result: RemoveResult) -> json.Data:
    """Return `rm --restore`."""
    runs = [{"id": run, "name": name, "was_there": run in result.kept} for run, name in result.runs]
    return json.document(op=result.op, bytes=result.bytes, runs=runs)


def json_of_trash(entries: Sequence[Trashed]) -> json.Data:
    """Return `rm --list`, the newest first."""
    return json.document(
        trash=[
            {
                "id": one.run,
                "name": one.name,
                "path": one.path,
                "bytes": one.bytes,
                "removed_at": json.utc(one.removed_at_ms),
                "op": one.op or None,
            }
            for one in entries
        ]
    )
