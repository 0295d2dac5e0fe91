"""The small records of a run: labels and notes, events, evals.

    marks.jsonl     {"kind": "label" | "unlabel" | "note", "text"}
    events.jsonl    {"step", "severity", "rule", "message", "created_at_ms"}
    evals/*.json    one evaluation each

Invariant: what is damaged is named in `problems` and the rest is returned. A line torn by the death
of its writer is no damage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from expdb.errors import Corrupt
from expdb.model import Eval, Event
from expdb.store.files import number, read_json, reason
from expdb.store.layout import RunLayout


def read_marks(layout: RunLayout, problems: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels and the notes of a run."""
    labels: dict[str, None] = {}
    notes: list[str] = []
    for _, item in _lines(layout.marks, problems):
        match item.get("kind"):
            case "label":
                labels[str(item.get("text"))] = None
            case "unlabel":
                labels.pop(str(item.get("text")), None)
            case "note":
                notes.append(str(item.get("text")))
    return tuple(labels), tuple(notes)


def read_events(layout: RunLayout, problems: list[str]) -> tuple[Event, ...]:
    """Return the events of a run in the order in which they were written."""
    out: list[Event] = []
    for line, item in _lines(layout.events, problems):
        try:
            event = Event(
                step=int(item.get("step", 0)),
                severity=item.get("severity", "info"),
                rule=str(item.get("rule", "")),
                message=str(item.get("message", "")),
                created_at_ms=int(item.get("created_at_ms", 0)),
            )
        except (TypeError, ValueError):
            problems.append(_line_problem(layout.events, line))
            continue
        out.append(event)
    return tuple(out)


def read_evals(layout: RunLayout, problems: list[str]) -> tuple[Eval, ...]:
    """Return the evals of a run by step, task and time."""
    out: list[Eval] = []
    try:
        names = sorted(path.name for path in layout.evals.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return ()
    for name in names:
        if name.endswith(".json") and not name.startswith(".tmp-"):
            try:
                out.append(_eval(read_json(layout.evals / name)))
            except (Corrupt, KeyError, TypeError, ValueError, AttributeError):
                problems.append(f"evals/{name} is damaged")
    return tuple(sorted(out, key=lambda item: (item.step, item.task, item.created_at_ms)))


def _eval(data: dict[str, Any]) -> Eval:
    return Eval(
        id=str(data["id"]),
        task=str(data["task"]),
        step=int(data["step"]),
        metrics={str(name): number(value) for name, value in data["metrics"].items()},
        n=_whole(data.get("n")),
        shots=_whole(data.get("shots")),
        scorer=str(data.get("scorer", "")),
        items_digest=str(data.get("items_digest", "")),
        created_at_ms=int(data.get("created_at_ms", 0)),
    )


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _lines(path: Path, problems: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
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
            value = json.loads(content)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            yield line, value
        elif line < len(lines):
            problems.append(_line_problem(path, line))


def _line_problem(path: Path, line: int) -> str:
    return f"{path.name}: line {line} is damaged"
