"""`expdb notify`, and the lines of `expdb events --watch`.

Invariant: no address is shown, only the name of the variable or file that has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from expdb.report import json
from expdb.report.events import SEVERITY_COLOURS
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.style import Style
from expdb.report.words import counted
from expdb.signs import Colour
from expdb.text import age, ago, cells, plain

if TYPE_CHECKING:
    from expdb.actions.watch import Look, Told
    from expdb.notify.answer import Answer
    from expdb.notify.channel import Channel
    from expdb.notify.item import Item
    from expdb.query.channels import ChannelRow, Declared

LABEL_CELLS: Final = 24
RULE_CELLS: Final = 16


def render_channels(rows: Sequence[ChannelRow], style: Style) -> list[str]:
    """Return the table of channels: what each is told and needs; below it what each lacks."""
    columns = (
        Column(head="channel", cut="middle"),
        Column(head="kind"),
        Column(head="state"),
        Column(head="needs", cut="middle"),
        Column(head="told of", cut="end"),
        Column(head="last", right=True, leaves=0),
    )
    cells_of = tuple(
        (
            Cell(plain(row.channel.name)),
            Cell(row.channel.kind),
            Cell(*_state(row)),
            Cell(plain(_needs(row))),
            Cell(style.say(_told_of(row.channel))),
            Cell("" if row.last_post_ms is None else age(row.last_post_ms, style.now_ms), "dim"),
        )
        for row in rows
    )
    lines = lay_out(Grid(columns, cells_of), style)
    said = [style.say(line) for row in rows if (line := _trouble(row, style))]
    return [*lines, "", *said] if said else lines


def nothing(declared: Declared) -> tuple[str, str]:
    """Return the line where there is no channel, and how to make one."""
    where = f" in {plain(declared.where)}" if declared.where else ""
    hint = "expdb: {notify: {team: {kind: wecom, url_env: EXPDB_WECOM_URL}}}; docs/monitoring.md"
    return f"no channel is declared{where}", hint


def _told_of(channel: Channel) -> str:
    said: str = channel.min_severity
    said += "" if channel.min_severity == "critical" else " and worse"
    said += f" of {' '.join(map(plain, channel.rules))}" if channel.rules else ""
    return said if channel.resolve else f"{said}, not that it is over"


def _needs(row: ChannelRow) -> str:
    kind, name = row.needs
    if kind:
        return name
    return row.channel.path or " ".join(row.channel.command) or row.channel.url


def _state(row: ChannelRow) -> tuple[str, Colour]:
    if row.problem:
        return "not ready", "red"
    return ("failing", "yellow") if row.failing_since_ms is not None else ("ready", "green")


def _trouble(row: ChannelRow, style: Style) -> str:
    """Return what a channel lacks, or since when it takes nothing; empty where all is well."""
    name = row.channel.name
    if row.problem:
        return row.problem if row.problem.startswith("channel ") else f"{name} {row.problem}"
    if row.failing_since_ms is None:
        return ""
    return f"{name} takes nothing; the first failure was {ago(row.failing_since_ms, style.now_ms)}"


def json_of_channels(declared: Declared, rows: Sequence[ChannelRow]) -> json.Data:
    """Return `notify`."""
    return json.document(
        declared_in=declared.where or None, channels=[_channel(row) for row in rows]
    )


def _channel(row: ChannelRow) -> json.Data:
    channel, (kind, name) = row.channel, row.needs
    return {
        "name": channel.name,
        "kind": channel.kind,
        "min_severity": channel.min_severity,
        "rules": list(channel.rules),
        "resolve": channel.resolve,
        "per_minute": channel.per_minute,
        "needs": {"kind": kind, "name": name} if kind else None,
        "ready": not row.problem,
        "problem": row.problem or None,
        "failing_since": json.utc(row.failing_since_ms),
    }


def answered(channel: Channel, answer: Answer, style: Style) -> str:
    """Return what the other side of a channel said to a test."""
    word = style.paint("taken", "green") if answer.is_taken else style.paint("not taken", "red")
    return f"{plain(channel.name)}  {channel.kind}  {word}: {style.say(answer.said)}"


def json_of_tests(found: Sequence[tuple[Channel, Answer]]) -> json.Data:
    """Return `notify test`."""
    return json.document(
        tests=[
            {"channel": channel.name, "kind": channel.kind, "taken": answer.is_taken,
             "said": answer.said}
            for channel, answer in found
        ]
    )  # fmt: skip


def line(item: Item, style: Style) -> str:
    """Return one line of `events --watch`."""
    clock = f"{datetime.fromtimestamp(item.created_at_ms / 1000):%H:%M:%S}"
    name = style.say(f"{style.run(item.run)} {item.name}")
    word = item.state if item.state == "over" else item.severity
    colour = SEVERITY_COLOURS.get(word, "")
    step = "-" if item.step is None else str(item.step)
    said = style.say(item.message)
    parts = [
        style.paint(clock, "dim"),
        _padded(name, LABEL_CELLS),
        f"{step:>7}",
        style.paint(f"{word:<8}", colour),
        _padded(style.say(item.rule), RULE_CELLS),
        said,
    ]
    return "  ".join(parts)


def json_line(item: Item) -> str:
    """Return one line of `events --watch --jsonl`."""
    made: dict[str, Any] = {**item.facts(), "created_at": json.utc(item.created_at_ms)}
    del made["created_at_ms"]
    return json.dumps(json.document(**made), indent=None) + "\n"


def head(look: Look, channels: Sequence[Channel]) -> str:
    """Return what is watched: `watching 15 runs, 2 live; told through team; Ctrl-C ends it`."""
    names = ", ".join(plain(one.name) for one in channels)
    told = f"; told through {names}" if names else ""
    return f"watching {counted(look.num_runs, 'run')}, {look.num_live} live{told}; Ctrl-C ends it"


def told(found: Told) -> str:
    """Return what a channel was told, or why it was not."""
    name = plain(found.channel)
    if found.trouble:
        return f"{name} took nothing: {found.trouble}; {found.num_waiting} to be told, tried again"
    left = f", {found.num_waiting} to be told" if found.num_waiting else ""
    return f"{name}: {counted(found.num_told, 'alert')} told{left}"


def _padded(text: str, width: int) -> str:
    return text + " " * max(0, width - cells(text))
