"""`init`: what a model shows at its first update, before it has learned anything.

    init/loss_excess   more than `excess` nat above ln V
    init/act_ratio     not within 1 / `ratio` to `ratio`: the last layer beside the first one
    init/grad_ratio    likewise
    init/weight_gain   above `gain`: standard deviation x sqrt(inputs)

Weights whose first loss lies more than `known` nat under ln V have learned already: a model that is
trained further is judged by none of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from expdb.monitor.detector import FIRING, OK, Reading, number


class Init:
    """Judges one of these values, once; `start` is where the excess stands."""

    def __init__(
        self,
        key: str,
        *,
        start: str = "init/loss_excess",
        excess: float = 1.0,
        ratio: float = 10.0,
        gain: float = 2.0,
        known: float = 0.5,
    ) -> None:
        self.keys = (key,) if key == start else (key, start)
        self._known = known
        low, high = {
            "loss_excess": (-math.inf, excess),
            "act_ratio": (1 / ratio if ratio else -math.inf, ratio),
            "grad_ratio": (1 / ratio if ratio else -math.inf, ratio),
            "weight_gain": (-math.inf, gain),
        }.get(key.rpartition("/")[2], (-math.inf, math.inf))
        self._low, self._high = low, high

    def update(self, step: int, values: Mapping[str, float], time_ms: int = 0) -> Reading | None:
        """Return whether the value is as it should be; None where that cannot be told."""
        value, excess = values.get(self.keys[0]), values.get(self.keys[-1])
        if (
            value is None
            or excess is None
            or not math.isfinite(value)
            or not excess >= -self._known
        ):
            return None
        if self._low <= value <= self._high:
            return OK
        sign, border = (">", self._high) if value > self._high else ("<", self._low)
        text = f"{self.keys[0]} {number(value)} {sign} {number(border)} before training"
        return Reading(FIRING, value, border, text)

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: it looks at one step alone."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on; there is nothing to go on from."""
