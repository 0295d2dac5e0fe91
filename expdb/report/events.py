"""`expdb events`: what rules found, as rows, and one of them by itself.

Invariant: `what` gives way first to the width, at its end; the first trouble and the last good
checkpoint stand last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from expdb.model import Event
from expdb.query.history_results import EventList, EventRow, FirstTrouble, Healthy, Replay
from expdb.report.grid import Cell, Column, Grid, lay_out
from expdb.report.json import utc
from expdb.report.rows_out import markdown, write_csv
from expdb.report.style import Style
from expdb.report.words import counted
from expdb.signs import Colour
from expdb.text import age, ago, metric, plain

if TYPE_CHECKING:
    from expdb.actions.results import AckResult

SEVERITY_COLOURS: Final[dict[str, Colour]] = {"critical": "red", "warn": "yellow", "info": "dim"}
LABEL_CELLS: Final = 10
LAST_VALUES: Final = 8
KEYS_SHOWN: Final = 8
COLUMNS: Final = (
    "run", "experiment", "seed", "step", "severity", "rule", "message", "created_at", "key", "now",
    "acknowledged",
)  # fmt: skip
"""The columns of a file of rows."""


def render(found: EventList, style: Style) -> list[str]:
    """Return the table of events; of one run without its name, and with where trouble began."""
    if found.step is not None:
        return _whole(found, style)
    if not found.rows:
        return []
    lines = lay_out(_grid(found, style), style)
    return [*lines, "", *_trouble(found.first, style)] if found.first else lines


def _grid(found: EventList, style: Style) -> Grid:
    of_one = found.of_one
    has_now = any((of_one and row.event.now) or row.event.is_acknowledged for row in found.rows)
    columns = (
        *([] if of_one else [Column(head="run"), Column(head="experiment", cut="middle")]),
        Column(head="step", right=True),
        Column(head="severity"),
        Column(head="rule"),
        Column(head="what", cut="end"),
        *([Column(head="now", leaves=0)] if has_now else []),
        *([] if of_one else [Column(head="age", right=True, leaves=0)]),
    )
    made = []
    for row in found.rows:
        event = row.event
        cells = [
            Cell(str(event.step)),
            Cell(
                event.severity, "dim" if event.is_acknowledged else SEVERITY_COLOURS[event.severity]
            ),
            Cell(plain(event.rule)),
            Cell(style.say(event.message)),
        ]
        if has_now:
            is_quiet = event.is_acknowledged or event.now.startswith("over")
            cells.append(Cell(_now(event), "dim" if is_quiet else ""))
        if not of_one:
            cells = [Cell(style.run(row.run), "dim"), Cell(plain(row.name)), *cells]
            cells.append(Cell(age(event.created_at_ms, style.now_ms), "dim"))
        made.append(tuple(cells))
    return Grid(columns, tuple(made), (" ",) * len(made))


def _now(event: Event) -> str:
    """Return what became of an event, and whether somebody has seen it."""
    seen = ["seen"] if event.is_acknowledged else []
    return ", ".join([*([plain(event.now)] if event.now else []), *seen])


def _trouble(first: FirstTrouble | None, style: Style) -> list[str]:
    """Return where trouble began, and the last checkpoint before it."""
    if first is None:
        return []
    good = f"none: no checkpoint before {first.event.step}"
    if first.good is not None:
        good = f"checkpoint {first.good}"
    return [
        f"{'first':<{LABEL_CELLS}}{plain(first.event.rule)} at {first.event.step}",
        f"{'good':<{LABEL_CELLS}}{good}",
    ]


def _whole(found: EventList, style: Style) -> list[str]:
    """Return the events of one step, each whole, and where trouble began."""
    lines = []
    for row in found.rows:
        event = row.event
        severity = style.paint(event.severity, SEVERITY_COLOURS[event.severity])
        label = f"{style.run(row.run)} {plain(row.name)}"
        rule = style.paint(plain(event.rule), "bold")
        since = ago(event.created_at_ms, style.now_ms)
        lines.append(f"{rule}  {severity} at step {event.step} of {label}, {since}")
        lines += [f"  {style.say(line)}" for line in event.message.splitlines()]
        facts = [(plain(label), style.say(said)) for label, said in _facts(event)]
        width = max((len(label) + 2 for label, _ in facts), default=0)
        lines += [f"  {label:<{max(width, LABEL_CELLS)}}{said}" for label, said in facts]
        lines.append("")
    healthy = _differing(found.healthy, style)
    return [*lines, *_trouble(found.first, style), *healthy] if found.first else lines[:-1]


def _facts(event: Event) -> list[tuple[str, str]]:
    """Return what is kept beside an event, as (label, text); a file may hold anything there."""
    facts, out = event.facts, []
    if event.now or event.is_acknowledged:
        out.append(("now", _now(event)))
    batches = facts.get("batches")
    if isinstance(batches, list) and len(batches) == 2:
        first, last = batches
        out.append(("batches", f"{first}-{last}" if first != last else str(first)))
    window = facts.get("window")
    for key, points in window.items() if isinstance(window, dict) else ():
        out.append((key, _last_values(points)))
    runbook = facts.get("runbook")
    for name, said in runbook.items() if isinstance(runbook, dict) else ():
        out.append((str(name), str(said)))
    out += [(name, str(facts[name])) for name in ("decision", "command") if facts.get(name)]
    if facts.get("version"):
        out.append(("rule", f"version {facts['version']}, threshold {facts.get('threshold')}"))
    return out


def _last_values(points: Any) -> str:
    """Return the last values of a metric up to an event: `1.79 1.81 9.9`."""
    found = []
    for point in points[-LAST_VALUES:] if isinstance(points, list) else ():
        value = point[1] if isinstance(point, list) and len(point) == 2 else None
        found.append(metric(value) if isinstance(value, int | float) else str(value))
    return " ".join(found)


def _differing(healthy: Healthy | None, style: Style) -> list[str]:
    """Return what the run has otherwise than the last one in which no rule warned."""
    if healthy is None:
        return []
    keys = " ".join(map(plain, healthy.keys[:KEYS_SHOWN])) or "nothing in the config"
    more = len(healthy.keys) - KEYS_SHOWN
    keys += f" and {more:,} more" if more > 0 else ""
    label = f"{style.run(healthy.run)} {plain(healthy.name)}"
    return [f"{'differs':<{LABEL_CELLS}}{keys} from {label}, the last without a warning"]


def compared(replay: Replay) -> str:
    """Return the line on a replay: `replay equals the run: 3 of 3 events`."""
    same = len(replay.events) - len(replay.new)
    if replay.is_equal:
        noun = "event" if replay.num_recorded == 1 else "events"
        return f"replay equals the run: {same} of {replay.num_recorded} {noun}"
    new, gone = len(replay.new), len(replay.gone)
    said = f"{new} new, {gone} gone" if new or gone else "the same events, other details"
    return f"replay differs: {said} under today's rules"


def acknowledged(result: AckResult, style: Style) -> str:
    """Return the line on what was acknowledged: `acknowledged 2 events of k3f9 baseline`."""
    num = len(result.events) or result.num_same
    as_it_was = " (as it was)" if result.op is None else ""
    run = f"{style.run(result.run.id)} {plain(result.run.name)}"
    return f"acknowledged {counted(num, 'event')} of {run}{as_it_was}"


def nothing(found: EventList) -> str:
    """Return the line where there is no event: `no events in 15 runs`."""
    when = " in the last day" if found.is_last_day else ""
    return f"no events in {counted(found.num_runs, 'run')}{when}"


def next_commands(found: EventList, style: Style) -> list[tuple[str, str]]:
    """Return what to do next about one run, as (label, command)."""
    if found.first is None or found.step is not None:
        return []
    event = found.first.event
    show = ("show", f"expdb events {style.run(found.first.run)}@{event.step}")
    command = plain(str(event.facts.get("command", "")))
    # What only shows the event is said anyway; of other commands each rule knows its own.
    if not command or command.startswith("expdb events "):
        return [show]
    label = "retry" if command.startswith("expdb resume ") else "try"
    return [(label, command), show]


def ids(found: EventList) -> list[str]:
    """Return the runs that have events, each once, in the order of the rows."""
    return list(dict.fromkeys(row.run for row in found.rows))


def as_csv(found: EventList) -> str:
    """Return the text of a CSV file, its head first."""
    return write_csv(COLUMNS, map(_fields, found.rows))


def as_markdown(found: EventList) -> list[str]:
    """Return the lines of a Markdown table."""
    rows = [["" if value is None else str(value) for value in _fields(row)] for row in found.rows]
    return markdown(COLUMNS, rows, right=(2, 3))


def _fields(row: EventRow) -> tuple[str | int | None, ...]:
    event = row.event
    return (
        row.run, row.name, row.seed, event.step, event.severity, event.rule, event.message,
        utc(event.created_at_ms), event.key, event.now, str(event.is_acknowledged).lower(),
    )  # fmt: skip
