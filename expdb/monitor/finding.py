"""What a rule has to say: an alert that opens, grows worse, or is over; or one line for the record.

Invariant: plain values only, equal in replay to what was found live.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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
