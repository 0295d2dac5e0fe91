"""`jump`: a value that rose by a share in one step, as monitoring guides ask for.

It misses slow rises and fires on noise; `spike` is the robust rule. NaN counts as a jump.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from expdb.monitor.detector import FIRING, OK, Reading, number


class Jump:
    """Fires when a value is above the one before it by more than `share` of it."""

    def __init__(self, key: str, *, share: float = 0.5) -> None:
        self.keys = (key,)
        self._share = share
        self._last: float | None = None

    def update(self, step: int, values: Mapping[str, float], time_ms: int = 0) -> Reading | None:
        """Return whether the value jumped."""
        value = values.get(self.keys[0])
        if value is None:
            return None
        if not math.isfinite(value):
            return Reading(FIRING, value, self._share, f"{self.keys[0]} is {number(value)}")
        last, self._last = self._last, value
        if last is None or not value > last + self._share * abs(last):
            return OK
        share = (value - last) / abs(last) if last else math.inf
        text = f"{self.keys[0]} {number(last)} to {number(value)} in one step"
        return Reading(FIRING, share, self._share, text)

    def state_dict(self) -> dict[str, Any]:
        """Return the last finite value."""
        return {"last": self._last}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._last = state["last"]
