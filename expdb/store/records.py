"""The small records of a run: labels and notes, events, evals.

    marks.jsonl     {"kind": "label" | "note" | "ack", or one of them with "un" in front, "text"}
    events.jsonl    {"step", "severity", "rule", "message", "created_at_ms", ...}
    evals/*.json    one evaluation each

Invariant: what is damaged is named in `problems` and the rest is returned. A line torn by the death
of its writer is no damage.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from expdb.errors import Corrupt
from expdb.model import Eval, Event
from expdb.store import fields
from expdb.store.fields import Wrong
from expdb.store.files import read_json, read_regular, reason
from expdb.store.layout import RunLayout

CUT_OFF = "\x18"
"""Ends a line that the death of its writer cut off, once another line follows it; JSON has none."""
MARKS = ("label", "unlabel", "note", "unnote", "ack", "unack")
OPEN, WORSE, OVER = "open", "worse", "over"
"""The lines of an alert: it opened, it grew worse, it is over."""
OWN_FIELDS = frozenset(
    [
        "step",
        "severity",
        "rule",
        "message",
        "created_at_ms",
        "key",
        "now",
        "facts",
        "state",
        "is_acknowledged",
    ]
)
SEVERITIES: tuple[Literal["info", "warn", "critical"], ...] = ("info", "warn", "critical")


class RunMarks(NamedTuple):
    """What was put on a run after the fact."""

    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    acknowledged: frozenset[str] = frozenset()
    """Events, each by its `mark`."""


def read_marks(layout: RunLayout, problems: list[str]) -> RunMarks:
    """Return the marks of a run; an `unnote` takes away the last equal note."""
    labels: dict[str, None] = {}
    notes: list[str] = []
    acknowledged: set[str] = set()
    for line, item in read_lines(layout.marks, problems):
        kind = item.get("kind")
        if kind not in MARKS:
            continue  # of a later expdb
        try:
            text = fields.text(item, "text")
        except Wrong:
            problems.append(_line_problem(layout.marks, line))
            continue
        if kind == "label":
            labels[text] = None
        elif kind == "unlabel":
            labels.pop(text, None)
        elif kind == "ack":
            acknowledged.update(text.splitlines())
        elif kind == "unack":
            acknowledged.difference_update(text.splitlines())
        elif kind == "note":
            notes.append(text)
        elif text in notes:
            del notes[len(notes) - 1 - notes[::-1].index(text)]
    return RunMarks(tuple(labels), tuple(notes), frozenset(acknowledged))


def read_events(layout: RunLayout, problems: list[str]) -> tuple[Event, ...]:
    """Return the events of a run in the order in which they were written.

    What became of an alert later is told with the line that opened it.
    """
    lines = []
    for line, item in read_lines(layout.events, problems):
        try:
            event_of(item)
        except Wrong:
            problems.append(_line_problem(layout.events, line))
            continue
        lines.append(item)
    return folded(lines)


def with_marks(events: Iterable[Event], marks: RunMarks) -> tuple[Event, ...]:
    """Return events with what was acknowledged of them."""
    seen = marks.acknowledged
    return tuple(
        replace(event, is_acknowledged=True) if seen and event.mark in seen else event
        for event in events
    )


def folded(lines: Iterable[dict[str, Any]]) -> tuple[Event, ...]:
    """Return events of their lines: later lines of an alert told with the one that opened it.

    Raises:
        Wrong: a field of a line is of another type.
    """
    out: list[Event] = []
    opened: dict[tuple[str, str, Any], int] = {}
    for item in lines:
        event = event_of(item)
        alert = event.rule, event.key, item.get("opened")
        if item.get("state") in (WORSE, OVER) and (place := opened.get(alert)) is not None:
            out[place] = _later(out[place], event)
            continue
        if item.get("state") == OPEN:
            opened[alert] = len(out)
        out.append(event)
    return tuple(out)


def _later(alert: Event, event: Event) -> Event:
    """Return an alert after a later line of it."""
    worst = max(alert.severity, event.severity, key=SEVERITIES.index)
    return replace(alert, severity=worst, now=event.now)


def event_of(item: dict[str, Any]) -> Event:
    """Return an event as its line has it.

    Raises:
        Wrong: a field is of another type.
    """
    return Event(
        step=fields.whole(item, "step", 0),
        severity=fields.choice(item, "severity", SEVERITIES, "info"),
        rule=fields.text(item, "rule", ""),
        message=fields.text(item, "message", ""),
        created_at_ms=fields.whole(item, "created_at_ms", 0),
        key=fields.text(item, "key", ""),
        now=fields.text(item, "now", "") or _now(item),
        is_acknowledged=item.get("is_acknowledged") is True,
        facts=fields.mapping(item, "facts", {})
        or {name: value for name, value in item.items() if name not in OWN_FIELDS},
    )


def _now(item: dict[str, Any]) -> str:
    """Return what a line says became of its alert."""
    state, step = item.get("state"), item.get("step", 0)
    if state == WORSE:
        return f"{item.get('severity')} since {step}"
    return f"over at {step}" if state == OVER else OPEN if state == OPEN else ""


def read_evals(layout: RunLayout, problems: list[str]) -> tuple[Eval, ...]:
    """Return the evals of a run by step, task and time."""
    out: list[Eval] = []
    try:
        names = sorted(os.listdir(layout.evals))  # noqa: PTH208 - names only, for 10,000 runs
    except FileNotFoundError:
        return ()
    except OSError as error:
        problems.append(f"evals cannot be read: {reason(error)}")
        return ()
    for name in names:
        if name.endswith(".json") and not name.startswith(".tmp-"):
            try:
                out.append(eval_of(read_json(layout.evals / name)))
            except FileNotFoundError:
                continue  # removed since it was listed
            except (Corrupt, Wrong):
                problems.append(f"evals/{name} is damaged")
    return tuple(sorted(out, key=lambda item: (item.step, item.task, item.created_at_ms)))


def eval_of(data: dict[str, Any]) -> Eval:
    """Return an evaluation as its file has it.

    Raises:
        Wrong: a field is missing, or of another type.
    """
    metrics = fields.mapping(data, "metrics")
    return Eval(
        id=fields.text(data, "id"),
        task=fields.text(data, "task"),
        step=fields.whole(data, "step"),
        metrics={name: fields.as_real(value, name) for name, value in metrics.items()},
        n=fields.maybe_whole(data, "n"),
        shots=fields.maybe_whole(data, "shots"),
        scorer=fields.text(data, "scorer", ""),
        items_digest=fields.text(data, "items_digest", ""),
        created_at_ms=fields.whole(data, "created_at_ms", 0),
    )


def read_lines(path: Path, problems: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) of a file of JSON lines; `problems` names the damaged ones."""
    try:
        text = read_regular(path).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return
    except OSError as error:
        problems.append(f"{path.name} cannot be read: {reason(error)}")
        return
    lines = text.split("\n")
    for line, content in enumerate(lines, start=1):
        if not content:
            continue
        try:
            value = json.loads(content.removesuffix(CUT_OFF))
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            yield line, value
        elif line < len(lines) and not content.endswith(CUT_OFF):
            problems.append(_line_problem(path, line))


def _line_problem(path: Path, line: int) -> str:
    return f"{path.name}: line {line} is damaged"
