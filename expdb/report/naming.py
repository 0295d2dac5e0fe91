"""`expdb tag`, `label` and `note`: what has a name, and what was named.

Invariant: names, labels and notes are text that somebody typed; they are shown as plain text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from expdb.report import json
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.style import Style
from expdb.report.words import counted, label
from expdb.text import age, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expdb.actions.results import MarkResult, TagResult, TagRow
    from expdb.model import RunAt


def render_tags(rows: Sequence[TagRow], style: Style) -> list[str]:
    """Return the table of tags, by name."""
    columns = (
        Column(head="tag", cut="middle"),
        Column(head="run"),
        Column(head="experiment", cut="middle"),
        Column(head="step", right=True),
        Column(head="age", right=True),
    )
    made = []
    for row in rows:
        name = "not in this store" if row.run is None else plain(row.run.name)
        made_at = row.created_at_ms
        made.append(
            (
                Cell(plain(row.name)),
                Cell(style.run(row.at.run)),
                Cell(name, "" if row.run else "yellow"),
                Cell("" if row.at.step is None else str(row.at.step)),
                Cell("" if made_at is None else age(made_at, style.now_ms), "dim"),
            )
        )
    return lay_out(Grid(columns, tuple(made)), style)


def render_tag(result: TagResult, style: Style) -> list[str]:
    """Return what a tag names now, or what it named."""
    name = plain(result.name)
    if result.after is None:
        return [f"tag {name} removed (was {_at(result.before, result, style)})"]
    return [f"tag {name} {style.signs.arrow} {_at(result.after, result, style)}"]


def _at(at: RunAt | None, result: TagResult, style: Style) -> str:
    if at is None:
        return "none"
    who = style.run(at.run) if result.run is None else label(result.run, style)
    return who if at.step is None else f"{who}@{at.step}"


def render_labels(counts: Sequence[tuple[str, int]], style: Style) -> list[str]:
    """Return every label with the number of its runs."""
    columns = (Column(head="label", cut="middle"), Column(head="runs", right=True))
    rows = tuple((Cell(plain(word)), Cell(f"{number:,}")) for word, number in counts)
    return lay_out(Grid(columns, rows), style)


def render_mark(result: MarkResult, style: Style) -> list[str]:
    """Return what was labelled or noted, and how many were so already."""
    runs = result.runs or result.same
    where = label(runs[0], style) if len(runs) == 1 else counted(len(runs), "run")
    if result.kind == "note":
        return [f"noted on {where}  ({counted(len(runs[0].notes) + 1, 'note')})"]
    word = plain(result.text)
    how = "off" if result.removed else "on"
    if result.op is None:
        return [f"label {word} {how} {where} (as it was)"]
    lacked = "lacked it" if result.removed else "had it already"
    others = f"; {len(result.same):,} {lacked}" if result.same else ""
    return [f"label {word} {how} {where}{others}"]


def note_lines(notes: Sequence[str]) -> list[str]:
    """Return the notes of a run, oldest first; further lines of one are indented."""
    lines: list[str] = []
    for note in notes:
        first, *rest = note.split("\n")
        lines += [plain(first), *(f"  {plain(line)}" for line in rest)]
    return lines


def json_of_tags(rows: Sequence[TagRow]) -> json.Data:
    """Return `tag`, by name."""
    return json.document(
        tags=[
            {
                "name": row.name,
                "run": row.at.run,
                "step": row.at.step,
                "experiment": row.run.name if row.run else None,
                "created_at": json.utc(row.created_at_ms),
            }
            for row in rows
        ]
    )


def json_of_tag(result: TagResult) -> json.Data:
    """Return a tag that was made or removed."""
    before, after = json.run_at(result.before), json.run_at(result.after)
    return json.document(name=result.name, before=before, after=after, op=result.op)


def json_of_mark(result: MarkResult) -> json.Data:
    """Return a label or a note that was put on runs or taken off."""
    return json.document(
        kind=result.kind,
        text=result.text,
        removed=result.removed,
        runs=[run.id for run in result.runs],
        op=result.op,
    )
