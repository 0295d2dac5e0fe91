"""`expdb remote`: the remotes of a store, and what others call runs there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from expdb.report import json
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.style import Style
from expdb.text import plain

if TYPE_CHECKING:
    from expdb.actions.remote import RemoteRow
    from expdb.store.remotes import Remote


def render_remotes(rows: Sequence[RemoteRow], style: Style) -> list[str]:
    """Return the table of remotes, then one of the refs that others have there."""
    columns = (
        Column(head="remote", cut="middle"),
        Column(head="runs", right=True),
        Column(head="folder", cut="middle"),
    )
    cells = tuple(
        (
            Cell(plain(row.remote.name)),
            Cell("-" if row.runs is None else f"{row.runs:,}"),
            Cell(plain(str(row.remote.path))),
        )
        for row in rows
    )
    lines = lay_out(Grid(columns, cells), style)
    lines += [f"{plain(row.remote.name)}: {style.say(row.problem)}" for row in rows if row.problem]
    refs = tuple(
        (
            Cell(plain(ref.name)),
            Cell(style.run(ref.run)),
            Cell("" if ref.step is None else str(ref.step)),
        )
        for row in rows
        for ref in row.refs
    )
    if refs:
        heads = (Column(head="ref", cut="middle"), Column(head="run"))
        lines += ["", *lay_out(Grid((*heads, Column(head="step", right=True)), refs), style)]
    return lines


def said_of(remote: Remote, style: Style, *, is_new: bool) -> str:
    """Return what was named or forgotten."""
    name, path = plain(remote.name), plain(str(remote.path))
    if is_new:
        return f"remote {name} {style.signs.arrow} {path}"
    return f"remote {name} removed (was {path}); the folder stays as it is"


def json_of_remotes(rows: Sequence[RemoteRow]) -> json.Data:
    """Return `remote`, by name."""
    return json.document(
        remotes=[
            {
                **_of(row.remote),
                "runs": row.runs,
                "problem": row.problem or None,
                "refs": [
                    {"name": ref.name, "kind": ref.kind, "run": ref.run, "step": ref.step}
                    for ref in row.refs
                ],
            }
            for row in rows
        ]
    )


def json_of_remote(remote: Remote) -> json.Data:
    """Return a remote that was named or forgotten."""
    return json.document(**_of(remote))


def _of(remote: Remote) -> json.Data:
    return {"name": remote.name, "path": str(remote.path), "id": remote.id}
