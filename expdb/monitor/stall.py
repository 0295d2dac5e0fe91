"""D9, `stall`: no step for far longer than usual.

Nothing arrives while a run stands still, so that this one is asked: `overdue` by a watchdog that
knows the time. `update` only learns how long a step takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from expdb.monitor.detector import GRAVE, OK, Reading
from expdb.monitor.window import median

KEPT = 50


class Stall:
    """Knows when a step is overdue: after `times` the median step, and at least `least_s`."""

    def __init__(self, key: str, *, times: float = 10.0, least_s: float = 300.0) -> None:
        self.keys = (key,)
        self._times, self._least_ms = times, least_s * 1000
        self._last_ms: int | None = None
        self._last_step = 0
        self._took: list[int] = []

    def update(self, step: int, values: Mapping[str, float], time_ms: int = 0) -> Reading | None:
        """Take the time of a step."""
        if self._last_ms is not None:
            self._took = [*self._took, max(0, time_ms - self._last_ms)][-KEPT:]
        self._last_ms, self._last_step = time_ms, step
        return OK

    def pardon(self, now_ms: int) -> None:
        """Let the time up to a moment not count."""
        if self._last_ms is not None:
            self._last_ms = max(self._last_ms, now_ms)

    def overdue(self, now_ms: int) -> Reading | None:
        """Return what is to be said at a moment; None while a step may still come."""
        if self._last_ms is None or not self._took:
            return None
        usual = median(sorted(self._took))
        limit = max(self._times * usual, self._least_ms)
        waited = now_ms - self._last_ms
        if waited <= limit:
            return None
        text = f"no step for {waited / 1000:.0f} s after {self._last_step}"
        text += f" (usual: {usual / 1000:.3g} s)"
        return Reading(GRAVE, waited / 1000, limit / 1000, text)

    def state_dict(self) -> dict[str, Any]:
        """Return how long steps took; the time of the last one does not outlive the process."""
        return {"took": list(self._took)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._took = [int(one) for one in state["took"]]
