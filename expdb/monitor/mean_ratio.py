"""`mean_ratio`: a value off the mean of all values before it, the simplest anomaly test there is.

Kept to compare with. It is two-sided, so that falling as it should sets it off too: on real healthy
runs it is in alarm most of the time, and NaN compares false. Off in every preset but its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from expdb.monitor.detector import FIRING, OK, Reading, number


class MeanRatio:
    """Fires when a value is off the mean of all before it by more than `share`."""

    def __init__(self, key: str, *, share: float = 0.1) -> None:
        self.keys = (key,)
        self._share = share
        self._sum = 0.0
        self._num = 0

    def update(self, step: int, values: Mapping[str, float], time_ms: int = 0) -> Reading | None:
        """Return whether the value is far from the mean."""
        value = values.get(self.keys[0])
        if value is None:
            return None
        mean = self._sum / self._num if self._num else 0.0
        self._sum, self._num = self._sum + value, self._num + 1
        if not mean or not abs(value - mean) / abs(mean) > self._share:
            return OK
        text = f"{self.keys[0]} {number(value)}, mean of all before {number(mean)}"
        return Reading(FIRING, abs(value - mean) / abs(mean), self._share, text)

    def state_dict(self) -> dict[str, Any]:
        """Return the sum; one that is not finite any more stays so."""
        return {"sum": repr(self._sum), "num": self._num}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._sum, self._num = float(state["sum"]), int(state["num"])
