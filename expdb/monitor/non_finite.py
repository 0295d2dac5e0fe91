"""D1, `non_finite`: a watched value is NaN or infinite.

Needed on its own because NaN compares false with every threshold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from expdb.monitor.detector import GRAVE, OK, Reading


class NonFinite:
    """Watches one key for NaN and infinities."""

    def __init__(self, key: str) -> None:
        self.keys = (key,)

    def update(self, step: int, values: Mapping[str, float], time_ms: int = 0) -> Reading | None:
        """Return whether the value is finite."""
        value = values.get(self.keys[0])
        if value is None:
            return None
        if math.isfinite(value):
            return OK
        word = "NaN" if math.isnan(value) else "infinite"
        return Reading(GRAVE, value, math.nan, f"{self.keys[0]} is {word}")

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: a value is finite or not."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
