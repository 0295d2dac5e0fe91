"""What a rule has to say: an alert that opens, grows worse, or is over; or one line for the record.

Invariant: plain values only, equal in replay to what was found live.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["info", "warn", "critical"]
State = Literal["", "open", "worse", "over"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of an alert."""

    step: int
    severity: Severity
    rule: str
    key: str
    """The metric that it is about."""
    state: State
    """Empty for one that is only for the record."""
    message: str
    value: float
    """What was compared; NaN where nothing was."""
    threshold: float
    """What it was compared with; NaN where there is no border."""
    version: str
    """Which form of the rule found it: 8 hex digits over all that decides."""
    opened: int
    """The step at which the alert opened; its own where it opens here."""
    num: int
    """How often the rule fired since the line before."""
    window: Mapping[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    """Metric -> (step, value) of the last steps; empty where it is over or for the record."""

    def facts(self, attempt: int) -> dict[str, Any]:
        """Return what its event holds beside step, severity, rule and message: the same from
        training and from a replay.
        """
        found: dict[str, Any] = {
            "attempt": attempt,
            "key": self.key,
            "value": self.value,
            "threshold": self.threshold,
            "version": self.version,
            "num": self.num,
        }
        if self.state:
            found |= {"state": self.state, "opened": self.opened}
        if self.window:
            found["window"] = {key: list(points) for key, points in self.window.items()}
        return found
