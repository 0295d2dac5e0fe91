"""`expdb push` and `pull`: what was copied, what stayed behind, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from expdb.report import json
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.style import Style
from expdb.report.words import counted
from expdb.text import plain, size

if TYPE_CHECKING:
    from expdb.actions.exchange import Exchanged, Moved

SHOWN: Final = 20
"""So many runs of a kind are named; the others are counted."""
WORDS: Final = {"new": "new", "updated": "more of it", "skipped": "later", "refused": "refused"}


def render_plan(done: Exchanged, style: Style) -> list[str]:
    """Return what would be copied, a row a run, and the total."""
    columns = (
        Column(head="run"),
        Column(head="experiment", cut="middle"),
        Column(head="what"),
        Column(head="size", right=True),
        Column(head="why", cut="end"),
    )
    due = done.of("new", "updated")
    rows = tuple(
        (
            Cell(style.run(one.run)),
            Cell(plain(one.name)),
            Cell(WORDS[one.outcome], "yellow" if one.outcome in ("skipped", "refused") else ""),
            Cell(size(one.bytes) if one in due else ""),
            Cell(plain(one.why)),
        )
        for one in (*due, *done.of("skipped", "refused"))
    )
    lines = lay_out(Grid(columns, rows), style) if rows else []
    gap = [""] if rows else []
    total = f"would {done.verb} {counted(len(due), 'run')}, {size(done.bytes)}"
    return [*lines, *gap, total + _code(done.commits)]


def render_done(done: Exchanged, style: Style) -> list[str]:
    """Return what was copied, and what stayed behind."""
    name, due = plain(done.remote.name), done.of("new", "updated")
    if due or done.commits:
        past, way = ("pushed", "to") if done.verb == "push" else ("pulled", "from")
        op = f"  (op {done.op})" if done.op else ""
        one = f"{style.run(due[0].run)} {plain(due[0].name)}" if len(due) == 1 else ""
        what = one or counted(len(due), "run")
        lines = [f"{past} {what} {way} {name}, {size(done.bytes)}{_code(done.commits)}{op}"]
    else:
        lines = [_nothing(done, name)]
    names = [(done.refs, "ref"), (done.ops, "op")]
    changed = ", ".join(counted(number, word) for number, word in names if number)
    lines += [f"  {changed} {'written' if done.verb == 'push' else 'of others'}"] if changed else []
    lines += _some("later", done.of("skipped"), style)
    behind = [
        f"  {style.run(one.run)} {plain(one.name)} has more in {name}:"
        f" expdb pull {name} {style.run(one.run)}"
        for one in done.of("behind")
    ]
    lines += behind[:SHOWN] if done.verb == "push" else []
    if done.no_code:
        runs = " ".join(style.run(run) for run in done.no_code[:SHOWN])
        more = f" and {len(done.no_code) - SHOWN:,} more" if len(done.no_code) > SHOWN else ""
        where = f"{name} has not" if done.verb == "push" else "is not here"
        head = f"code of {counted(len(done.no_code), 'run')}"
        lines.append(f"  {head} {where}: {runs}{more}")
    return lines + [
        f"  left as it is there: {style.run(item.run)} {plain(path)}"
        for item in done.runs
        for path in item.kept
    ]


def _nothing(done: Exchanged, name: str) -> str:
    if not done.runs:
        return f"no runs in {name}" if done.verb == "pull" else "no runs to push"
    there = len(done.of("same", "behind"))
    if done.verb == "push":
        return f"nothing to push: {name} has {counted(there, 'run')} already"
    return f"nothing new in {name}: {counted(there, 'run')} of it here already"


def _code(commits: int) -> str:
    return f", code of {counted(commits, 'commit')}" if commits else ""


def _some(head: str, runs: Sequence[Moved], style: Style) -> list[str]:
    lines = [f"  {head}: {_named(one, style)}" for one in runs[:SHOWN]]
    return lines + ([f"  and {len(runs) - SHOWN:,} more"] if len(runs) > SHOWN else [])


def _named(one: Moved, style: Style) -> str:
    return f"{style.run(one.run)} {plain(one.name)}: {style.say(one.why)}"


def said_of_refused(done: Exchanged) -> str:
    """Return the error of the runs that were refused."""
    number = len(done.of("refused"))
    rest = "nothing of them was changed" if number > 1 else "nothing of it was changed"
    return f"{counted(number, 'run')} of {plain(done.remote.name)} refused; {rest}"


def details(runs: Sequence[Moved], style: Style) -> tuple[str, ...]:
    """Return each of some runs with the reason."""
    lines = [_named(one, style) for one in runs[:SHOWN]]
    more = [f"and {len(runs) - SHOWN:,} more"] if len(runs) > SHOWN else []
    return (*lines, *more)


def json_of(done: Exchanged) -> json.Data:
    """Return `push` or `pull`, or with `--dry-run` what it would do."""
    return json.document(
        remote=done.remote.name,
        path=str(done.remote.path),
        dry_run=done.dry_run,
        op=done.op,
        bytes=done.bytes,
        commits=done.commits,
        refs=done.refs,
        ops=done.ops,
        runs=[
            {
                "id": one.run,
                "name": one.name,
                "outcome": one.outcome,
                "bytes": one.bytes,
                "why": one.why or None,
                "kept": list(one.kept),
            }
            for one in done.runs
        ],
        no_code=list(done.no_code),
        notes=list(done.notes),
    )
