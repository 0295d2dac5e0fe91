"""One thing to tell: a line of a run's events, or what became of the run itself.

Invariant: plain values; `at` or `notice` says which one it is, so that what was told can be kept in
a few bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from expdb.store import fields
from expdb.store.fields import Wrong
from expdb.store.records import OPEN, OVER, SEVERITIES, WORSE
from expdb.text import metric

Severity = Literal["info", "warn", "critical"]
SHORT: Final = 4
"""Characters of an id in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What is told at once."""

    run: str
    name: str
    """The experiment with its variant."""
    severity: Severity
    rule: str
    message: str
    step: int | None = None
    state: str = ""
    """open, worse or over; empty for what has no end."""
    key: str = ""
    value: float = math.nan
    threshold: float = math.nan
    cause: str = ""
    action: str = ""
    command: str = ""
    created_at_ms: int = 0
    at: int = 0
    """Where its line ends in events.jsonl; 0 of what is no line of it."""
    notice: str = ""
    """What is not told twice of one run: `crashed-1`; empty of a line."""

    @property
    def label(self) -> str:
        """The run as people name it: `k3f9 baseline`."""
        return f"{self.run[:SHORT]} {self.name}"

    @property
    def measured(self) -> str:
        """What was compared with what: `value 7.615, threshold 6.000`. Of a spike that is the
        number of its deviations: what the metric was stands in the message.
        """
        if math.isnan(self.value) or math.isnan(self.threshold):
            return ""
        return f"value {metric(self.value)}, threshold {metric(self.threshold)}"

    def facts(self) -> dict[str, Any]:
        """Return it as strict JSON has it."""
        made: dict[str, Any] = {
            "run": self.run, "experiment": self.name, "step": self.step,
            "severity": self.severity, "rule": self.rule, "state": self.state, "key": self.key,
            "message": self.message, "value": _number(self.value),
            "threshold": _number(self.threshold), "cause": self.cause, "action": self.action,
            "command": self.command, "created_at_ms": self.created_at_ms,
        }  # fmt: skip
        return made


@dataclass(slots=True)
class Alerts:
    """The alerts of one run so far: how severe each was, and what was found twice."""

    _worst: dict[tuple[str, str, Any], Severity] = field(default_factory=dict)
    _seen: set[tuple[Any, ...]] = field(default_factory=set)

    def item(self, run: str, name: str, at: int, line: Mapping[str, Any]) -> Item | None:
        """Return what a line of events tells; None where it is for the record alone, was found
        before in an attempt that did the same steps, or is damaged.
        """
        try:
            made = _item(run, name, at, line)
        except Wrong:
            return None
        if not made.state:
            return None if "version" in line else made
        alert = made.rule, made.key, line.get("opened")
        same = *alert, made.state, made.step, made.severity, repr(made.value)
        if same in self._seen:
            return None
        self._seen.add(same)
        if made.state == OVER:
            # Its end matters to whom its beginning was told.
            return replace(made, severity=self._worst.get(alert, "info"))
        worst = max(self._worst.get(alert, "info"), made.severity, key=SEVERITIES.index)
        self._worst[alert] = worst
        return made


def _item(run: str, name: str, at: int, line: Mapping[str, Any]) -> Item:
    state = fields.text(line, "state", "")
    runbook = line.get("runbook")
    book: Mapping[str, Any] = runbook if isinstance(runbook, dict) else {}
    return Item(
        run=run,
        name=name,
        severity=fields.choice(line, "severity", SEVERITIES, "info"),
        rule=fields.text(line, "rule", ""),
        message=fields.text(line, "message", ""),
        step=fields.whole(line, "step", 0),
        state=state if state in (OPEN, WORSE, OVER) else "",
        key=fields.text(line, "key", ""),
        value=_real(line, "value"),
        threshold=_real(line, "threshold"),
        cause=str(book.get("cause", "")),
        action=str(book.get("action", "")),
        command=fields.text(line, "command", ""),
        created_at_ms=fields.whole(line, "created_at_ms", 0),
        at=at,
    )


def _real(line: Mapping[str, Any], name: str) -> float:
    found = fields.maybe_real(line, name)
    return math.nan if found is None else found


def _number(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
