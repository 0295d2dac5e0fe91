"""What every detector is: pure, streaming, with a state that a checkpoint can hold.

Invariant: the same code runs live and in replay, on host values only; it never touches RNG,
gradients or tensors, and reads no clock: what it knows of time is handed in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

FINE, NOTABLE, FIRING, GRAVE = 0, 1, 2, 3
"""How bad a reading is: nothing, one for the record, the rule's severity, critical."""


class Reading(NamedTuple):
    """What a detector makes of one step."""

    level: int
    value: float = math.nan
    """What was compared: the value itself, a z, a ratio."""
    threshold: float = math.nan
    text: str = ""
    """What is said of it, in one line; empty where it is fine."""


OK = Reading(FINE)


class Detector(Protocol):
    """A rule over the values of one step after another."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that it looks at, the one that it is about first."""

    def update(self, step: int, values: Mapping[str, float], time_ms: int = 0) -> Reading | None:
        """Take the values of one step and return what they show; None where they show nothing.

        Steps do not go back; `time_ms` is when they were logged.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return plain data, also NaN, from which `load_state_dict` goes on exactly."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""


def number(value: float) -> str:
    """Return a number as messages have it: four digits that count."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinite"
    size = abs(value)
    if size != 0 and (size < 1e-3 or size >= 1e6):
        return f"{value:.3g}"
    return f"{value:.4g}" if size < 1000 else f"{value:.0f}"
