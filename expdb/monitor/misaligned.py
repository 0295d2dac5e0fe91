"""`misaligned`: the model learns something else than what it is judged by.

    init/unshifted  more than `share` of the labels are the input at their own place
    train/loss      under `floor` for `for_samples` updates, while the loss of validation never came
                    under `fell` of its first value

The second is grave for a model that began untrained; one that is trained further may learn its few
texts by heart and have nothing left to learn for validation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from expdb.monitor.detector import FIRING, GRAVE, OK, Reading, number


class Misaligned:
    """Watches one of the two; `val` and `start` are the keys that the second needs beside."""

    def __init__(
        self,
        key: str,
        *,
        unshifted: str = "init/unshifted",
        val: str = "val/loss",
        start: str = "init/loss_excess",
        share: float = 0.9,
        floor: float = 0.1,
        for_samples: int = 5,
        least: float = 1.0,
        fell: float = 0.9,
        known: float = 0.5,
    ) -> None:
        self._is_of_labels = key == unshifted
        self._beside = val, start
        self.keys: tuple[str, ...] = (key,) if self._is_of_labels else (key, val, start)
        self._share, self._floor, self._for = share, floor, for_samples
        self._least, self._fell, self._known = least, fell, known
        self._first: float | None = None
        self._best = math.inf
        """The least loss of validation after the first one."""
        self._is_new = False
        self._run = 0

    def update(self, step: int, values: Mapping[str, float], time_ms: int = 0) -> Reading | None:
        """Return whether the two losses fit together; None where there is nothing to compare."""
        value = values.get(self.keys[0])
        if self._is_of_labels:
            if value is None or not math.isfinite(value):
                return None
            if not value > self._share:
                return OK
            text = f"{value * 100:.0f} % of the labels are the input at their own place"
            return Reading(GRAVE, value, self._share, text)
        self._learn(values)
        if value is None:
            return None
        self._run = self._run + 1 if value < self._floor else 0
        if self._first is None or not math.isfinite(self._best):
            return None
        border = max(self._least, self._fell * self._first)
        if self._run < self._for or not self._best > border:
            return OK
        text = f"{self.keys[0]} {number(value)} while {self._beside[0]} never fell:"
        text += f" {number(self._best)} at best, {number(self._first)} at first"
        return Reading(GRAVE if self._is_new else FIRING, self._best, border, text)

    def _learn(self, values: Mapping[str, float]) -> None:
        val, start = self._beside
        found = values.get(val)
        if found is not None and math.isfinite(found):
            if self._first is None:
                self._first = found
            else:
                self._best = min(self._best, found)
        if (excess := values.get(start)) is not None:
            self._is_new = excess >= -self._known

    def state_dict(self) -> dict[str, Any]:
        """Return the losses of validation, and for how long that of training is low."""
        best = self._best if math.isfinite(self._best) else None
        return {"first": self._first, "best": best, "is_new": self._is_new, "run": self._run}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._first, self._is_new = state["first"], bool(state["is_new"])
        self._best = math.inf if state["best"] is None else float(state["best"])
        self._run = int(state["run"])
