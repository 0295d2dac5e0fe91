"""`events`: what rules found in runs, of one run by step, of several the newest first.

Invariant: the index is asked, and the run's own file for one step whole; a live run's events are
those of its file at this moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from expdb import text
from expdb.errors import BadInput, NotFound
from expdb.index.reader import Reader
from expdb.model import Event
from expdb.query.filters.durations import duration_ms, moment_ms
from expdb.query.history_results import EventList, EventRow, FirstTrouble, Healthy
from expdb.query.usable import USABLE
from expdb.store.layout import RunLayout
from expdb.store.records import read_events
from expdb.store.resolve import Resolved
from expdb.store.runword import parse

Severity = Literal["warn", "critical"]
AT_LEAST: Final[dict[Severity, list[str]]] = {
    "warn": ["warn", "critical"],
    "critical": ["critical"],
}
DAY_MS: Final = 86_400_000
FIELDS: Final = (
    "r.id, r.name, r.seed, e.step, e.severity, e.rule, e.message, e.created_at_ms, e.key, e.now,"
    " e.acknowledged"
    " FROM events e JOIN runs r ON r.id = e.run"
)
BY_STEP: Final = "e.step, e.place"
LAST_STEPS: Final = "e.step DESC, e.place DESC"
NEWEST_FIRST: Final = "e.created_at_ms DESC, r.id, e.place DESC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which events of the runs are wanted."""

    severity: Severity | None = None
    """At least so severe; None for all."""
    since_ms: int | None = None
    limit: int | None = None


def since_ms(said: str, *, now_ms: int) -> int:
    """Return the moment that a duration back from now (`2d`) or a date names.

    Raises:
        BadInput: it names none.
    """
    back = duration_ms(said)
    moment = now_ms - back if back is not None else moment_ms(said)
    if moment is None:
        raise BadInput(
            f"--since {text.plain(said)} is no time", hint="one of: 2d, 5h, 30m, 2026-11-28"
        )
    return moment


def split_steps(words: Sequence[str]) -> tuple[list[str], int | None]:
    """Return RUNs without the step of an event, and that step: no checkpoint has to be there.

    Raises:
        BadInput: a step is named beside another run, or a word is empty.
    """
    exprs = [parse(word) for word in words]
    steps = [int(expr.step) for expr in exprs if expr.step is not None and expr.step.isdecimal()]
    if not steps:
        return list(words), None
    if len(words) > 1:
        raise BadInput(
            "the events of one step are shown of one run alone",
            hint=f"expdb events {text.plain(words[0])}",
        )
    return [str(exprs[0]._replace(step=None))], steps[0]


def events_of(
    reader: Reader, targets: Sequence[Resolved], asked: Asked, *, step: int | None = None
) -> EventList:
    """Return the events of the runs named: of one by step, with a limit the last ones.

    Raises:
        NotFound: there is none at `step`.
    """
    if len(targets) > 1:
        return _of_several(reader, "r.id IN (SELECT unnest(?))", [[t.run for t in targets]], asked)
    run = targets[0].run
    step = targets[0].step if step is None else step
    if step is not None:
        return _at_step(reader, run, step)
    where, params = _conditions("e.run = ?", [run], asked)
    rows, num_all = _rows(reader, where, params, LAST_STEPS, asked.limit)
    return EventList(
        rows=rows[::-1], num_all=num_all, num_runs=1, of_one=True, first=_first(reader, run)
    )


def only_asked(found: EventList, asked: Asked) -> EventList:
    """Return a list with the rows that are severe enough, with a limit the last ones."""
    allowed = None if asked.severity is None else AT_LEAST[asked.severity]
    rows = [row for row in found.rows if allowed is None or row.event.severity in allowed]
    last = rows if asked.limit is None else rows[max(0, len(rows) - asked.limit) :]
    return replace(found, rows=tuple(last), num_all=len(rows))


def events_selected(
    reader: Reader, where: str, params: Sequence[Any], asked: Asked, *, now_ms: int
) -> EventList:
    """Return the events of all runs that a condition over `r` selects, the newest first.

    Of every run, without a moment asked for, only those of the last day.
    """
    is_last_day = where == "true" and asked.since_ms is None
    if is_last_day:
        asked = replace(asked, since_ms=now_ms - DAY_MS)
    return replace(_of_several(reader, where, params, asked), is_last_day=is_last_day)


def _of_several(reader: Reader, where: str, params: Sequence[Any], asked: Asked) -> EventList:
    num_runs = reader.rows(f"SELECT count(*) FROM runs r WHERE {where}", params)[0][0]
    condition, bound = _conditions(where, params, asked)
    rows, num_all = _rows(reader, condition, bound, NEWEST_FIRST, asked.limit)
    return EventList(rows=rows, num_all=num_all, num_runs=num_runs)


def _at_step(reader: Reader, run: str, step: int) -> EventList:
    rows, num_all = _rows(reader, "e.run = ? AND e.step = ?", [run, step], BY_STEP, None)
    if rows:
        return EventList(
            rows=_whole(reader, run, step, rows),
            num_all=num_all,
            num_runs=1,
            of_one=True,
            step=step,
            first=_first(reader, run),
            healthy=last_healthy(reader, run),
        )
    found = reader.rows("SELECT DISTINCT step FROM events WHERE run = ? ORDER BY step", [run])
    name = reader.rows("SELECT name FROM runs WHERE id = ?", [run])[0][0]
    short = run[: reader.id_length]
    if not found:
        raise NotFound(f"{short} {text.plain(name)} has no event", hint="expdb events")
    steps = ", ".join(str(row[0]) for row in found[:10]) + (", ..." if len(found) > 10 else "")
    raise NotFound(
        f"{short} {text.plain(name)} has no event at step {step}; it has some at {steps}",
        hint=f"expdb events {short}@{found[0][0]}",
    )


def _conditions(where: str, params: Sequence[Any], asked: Asked) -> tuple[str, list[Any]]:
    parts, bound = [f"({where})"], list(params)
    if asked.severity is not None:
        parts.append("e.severity IN (SELECT unnest(?))")
        bound.append(AT_LEAST[asked.severity])
    if asked.since_ms is not None:
        parts.append("e.created_at_ms >= ?")
        bound.append(asked.since_ms)
    return " AND ".join(parts), bound


def _rows(
    reader: Reader, where: str, params: Sequence[Any], order: str, limit: int | None
) -> tuple[tuple[EventRow, ...], int]:
    """Return rows, and how many there are without the limit."""
    sql = f"SELECT {FIELDS} WHERE {where} ORDER BY {order}"
    found = reader.rows(sql + (f" LIMIT {int(limit)}" if limit is not None else ""), params)
    num_all = len(found)
    if num_all == limit:
        num_all = reader.rows(f"SELECT count(*) FROM (SELECT {FIELDS} WHERE {where})", params)[0][0]
    return tuple(_row(*row) for row in found), num_all


def _row(run: str, name: str, seed: int | None, *event: Any) -> EventRow:
    step, severity, rule, message, created_at_ms, key, now, is_acknowledged = event
    made = Event(
        step=step,
        severity=severity,
        rule=rule,
        message=message,
        created_at_ms=created_at_ms,
        key=key,
        now=now,
        is_acknowledged=is_acknowledged,
    )
    return EventRow(run=run, name=name, seed=seed, event=made)


def _whole(reader: Reader, run: str, step: int, rows: tuple[EventRow, ...]) -> tuple[EventRow, ...]:
    """Return the rows with all that their lines hold: that is in the run's own file alone."""
    found = [one for one in read_events(RunLayout(reader.run_dir(run)), []) if one.step == step]
    left = list(found)
    made = []
    for row in rows:
        same = (row.event.rule, row.event.key, row.event.message)
        own = next((one for one in left if (one.rule, one.key, one.message) == same), None)
        if own is not None:
            left.remove(own)
        if own is not None:
            own = replace(own, is_acknowledged=row.event.is_acknowledged)
        made.append(row if own is None else replace(row, event=own))
    return tuple(made)


def last_healthy(reader: Reader, run: str) -> Healthy | None:
    """Return the newest finished run of the experiment before this one in which no rule warned, and
    the config keys in which the two differ; None where there is none.
    """
    sql = (
        "SELECT o.id, o.name FROM runs o, runs r WHERE r.id = ? AND o.experiment = r.experiment"
        " AND o.id <> r.id AND o.state = 'finished' AND o.created_at_ms <= r.created_at_ms"
        " AND NOT EXISTS (SELECT 1 FROM events e WHERE e.run = o.id AND e.severity <> 'info')"
        " ORDER BY o.created_at_ms DESC, o.id DESC LIMIT 1"
    )
    found = reader.rows(sql, [run])
    if not found:
        return None
    other, name = found[0]
    keys = reader.rows(
        "SELECT key FROM (SELECT key, kind, text FROM params WHERE run = ?) a FULL JOIN"
        " (SELECT key, kind, text FROM params WHERE run = ?) b USING (key)"
        " WHERE a.kind IS DISTINCT FROM b.kind OR a.text IS DISTINCT FROM b.text ORDER BY key",
        [other, run],
    )
    own = ("expdb.", "hydra.")
    named = tuple(key for (key,) in keys if not key.startswith(own))
    return Healthy(run=other, name=name, keys=named)


def _first(reader: Reader, run: str) -> FirstTrouble | None:
    """Return the first warning of a run; of several at one step the most severe."""
    where, params = _conditions("e.run = ?", [run], Asked(severity="warn"))
    order = "e.step, e.severity, e.place"  # `critical` sorts before `warn`
    rows, _ = _rows(reader, where, params, order, 1)
    if not rows:
        return None
    event = _whole(reader, run, rows[0].event.step, rows)[0].event
    sql = f"SELECT max(c.step) FROM checkpoints c WHERE c.run = ? AND {USABLE} AND c.step < ?"
    return FirstTrouble(run=run, event=event, good=reader.rows(sql, [run, event.step])[0][0])
