"""`halvings`: the scale of mixed precision was halved too often, or has reached its bottom."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from expdb.monitor.detector import FIRING, GRAVE, OK, Reading, number


class Halvings:
    """Watches a gradient scale: below `below` it is grave; `num` falls in `within` steps fire."""

    def __init__(self, key: str, *, num: int = 5, within: int = 100, below: float = 128.0) -> None:
        self.keys = (key,)
        self._num, self._within, self._below = num, within, below
        self._last: float | None = None
        self._falls: list[int] = []

    def update(self, step: int, values: Mapping[str, float], time_ms: int = 0) -> Reading | None:
        """Return whether the scale holds."""
        value = values.get(self.keys[0])
        if value is None or not math.isfinite(value):
            return None
        last, self._last = self._last, value
        self._falls = [one for one in self._falls if one > step - self._within]
        if last is not None and value < last:
            self._falls.append(step)
        if value < self._below:
            text = f"{self.keys[0]} {number(value)} < {number(self._below)}"
            return Reading(GRAVE, value, self._below, text)
        if len(self._falls) >= self._num:
            text = f"{self.keys[0]} fell {len(self._falls)} times in {self._within} steps"
            return Reading(FIRING, float(len(self._falls)), float(self._num), text)
        return OK

    def state_dict(self) -> dict[str, Any]:
        """Return the last scale, and when it fell."""
        return {"last": self._last, "falls": list(self._falls)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._last, self._falls = state["last"], [int(one) for one in state["falls"]]
