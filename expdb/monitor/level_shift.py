"""D5, `level_shift`: a value that is steady as a rule has taken another level.

A clipped CUSUM against the median of the first steady steps notices it, and the median of the last
steps against that of the reference confirms it. A level that stays is learned as the new one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from expdb.monitor.detector import FIRING, OK, Reading, number
from expdb.monitor.window import deviation, median

LEAST_SPREAD = 0.005
"""Of the level: a value without any noise has no spread."""
OF_A_MEDIAN = 1.2533


class LevelShift:
    """Watches one key for a level that is `direction` (`up` or `down`) by more than `share`."""

    def __init__(
        self,
        key: str,
        *,
        direction: str = "down",
        reference: int = 200,
        recent: int = 20,
        skip: int = 20,
        k: float = 1.0,
        h: float = 10.0,
        clip: float = 4.0,
        share: float = 0.03,
        errors: float = 4.0,
    ) -> None:
        self.keys = (key,)
        self._sign = 1.0 if direction == "up" else -1.0
        self._num, self._skip, self._k, self._h, self._clip = reference, skip, k, h, clip
        self._share, self._errors = share, errors
        self._filling: list[float] = []
        self._recent: deque[float] = deque(maxlen=recent)
        self._centre: float | None = None
        self._spread = 0.0
        self._sum = 0.0
        self._shifted: list[float] | None = None
        """The values since a shift, from which the new level is learned."""
        self._num_seen = 0

    def update(self, step: int, values: Mapping[str, float], time_ms: int = 0) -> Reading | None:
        """Return whether the level holds; None while the reference is being learned."""
        value = values.get(self.keys[0])
        if value is None or not math.isfinite(value):
            return None
        self._num_seen += 1
        if self._num_seen <= self._skip:
            return None
        if self._centre is None:
            self._filling.append(value)
            if len(self._filling) == self._num:
                self._learn(self._filling)
            return None
        self._recent.append(value)
        z = self._sign * (value - self._centre) / self._spread
        self._sum = max(0.0, self._sum + max(-self._clip, min(self._clip, z)) - self._k)
        if self._shifted is not None:
            return self._in_shift(value)
        if self._sum <= self._h or len(self._recent) < (self._recent.maxlen or 0):
            return OK
        gain = self._gain()
        if gain is None:
            return OK
        self._shifted = []
        return self._said(FIRING, gain)

    def _in_shift(self, value: float) -> Reading:
        """Return what a step is while the level is another one."""
        assert self._shifted is not None
        assert self._centre is not None
        self._shifted.append(value)
        gain = self._gain()
        if gain is None:
            self._shifted, self._sum = None, 0.0
            return Reading(0, value, math.nan, f"{self.keys[0]} {number(value)}: back")
        if len(self._shifted) >= self._num:
            self._learn(self._shifted)
            said = f"{self.keys[0]} stays near {number(self._centre)}, taken as its level"
            return Reading(0, value, math.nan, said)
        return self._said(FIRING, gain)

    def _gain(self) -> float | None:
        """Return the share by which the last steps lie off, None where that is within noise."""
        assert self._centre is not None
        gain = self._sign * (median(sorted(self._recent)) - self._centre)
        error = OF_A_MEDIAN * self._spread / math.sqrt(len(self._recent))
        over = gain > self._share * abs(self._centre) and gain > self._errors * error
        return gain / abs(self._centre) if over and self._centre else None

    def _said(self, level: int, gain: float) -> Reading:
        assert self._centre is not None
        word = "above" if self._sign > 0 else "below"
        now = median(sorted(self._recent))
        said = f"{self.keys[0]} {number(now)}, {gain * 100:.1f} % {word} {number(self._centre)}"
        return Reading(level, gain, self._share, said)

    def _learn(self, values: list[float]) -> None:
        self._centre = median(sorted(values))
        least = max(LEAST_SPREAD * abs(self._centre), 1e-300)
        self._spread = max(deviation(values, self._centre), least)
        self._filling, self._shifted, self._sum = [], None, 0.0

    def state_dict(self) -> dict[str, Any]:
        """Return the reference and the last values."""
        return {
            "filling": list(self._filling),
            "recent": list(self._recent),
            "centre": self._centre,
            "spread": self._spread,
            "sum": self._sum,
            "shifted": None if self._shifted is None else list(self._shifted),
            "num_seen": self._num_seen,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._filling = [float(one) for one in state["filling"]]
        self._recent = deque(map(float, state["recent"]), maxlen=self._recent.maxlen)
        self._centre, self._spread, self._sum = state["centre"], state["spread"], state["sum"]
        shifted = state["shifted"]
        self._shifted = None if shifted is None else [float(one) for one in shifted]
        self._num_seen = int(state["num_seen"])
