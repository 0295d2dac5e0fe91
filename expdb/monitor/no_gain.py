"""The patience rule: the mean of the last evaluations gained too little, several times in a row.

A mean, so that one lucky dip neither counts as the best nor keeps a run from being stopped; a
relative gain, so that creeping on is not one. The unit is the evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from expdb.monitor.detector import FIRING, OK, Reading, number


class NoGain:
    """Watches one key, once an evaluation: the mean of the last `window` values of it.

    It fires when `patience` evaluations in a row did not better the best such mean by
    `min_rel_delta` of it; `up` is for metrics that are to rise.
    """

    def __init__(
        self,
        key: str,
        *,
        window: int = 5,
        min_rel_delta: float = 0.001,
        patience: int = 3,
        up: bool = False,
    ) -> None:
        self.keys = (key,)
        self._window, self._least, self._patience = window, min_rel_delta, patience
        self._sign = -1.0 if up else 1.0
        self._values: list[float] = []
        self._best = self._lowest = math.inf
        """The best mean that was a gain, and the best of all; times -1 where the key is to rise."""
        self._lowest_step: int | None = None
        self._waited = 0

    @property
    def best_step(self) -> int | None:
        """The evaluation with the best mean; None before there is one."""
        return self._lowest_step

    def update(self, step: int, values: Mapping[str, float], time_ms: int = 0) -> Reading | None:
        """Return whether the mean that ends here gained; None at a step without an evaluation."""
        value = values.get(self.keys[0])
        if value is None or not math.isfinite(value):
            return None
        self._values = [*self._values, value][-self._window :]
        if len(self._values) < self._window:
            return None
        mean = self._sign * sum(self._values) / self._window
        if not math.isfinite(mean):
            return None
        if mean < self._lowest:
            self._lowest, self._lowest_step = mean, step
        is_first = math.isinf(self._best)
        limit = math.inf if is_first else self._best - self._least * abs(self._best)
        if mean < limit:
            self._best, self._waited = mean, 0
            return OK
        self._waited += 1
        if self._waited < self._patience:
            return None
        text = (
            f"{self.keys[0]}, mean of {self._window}, {number(self._sign * mean)}: gained less than"
            f" {100 * self._least:.4g} % on {number(self._sign * self._best)} in {self._waited:,}"
            f" evaluation{'' if self._waited == 1 else 's'}, best at {self._lowest_step}"
        )
        return Reading(FIRING, self._sign * mean, self._sign * limit, text)

    def state_dict(self) -> dict[str, Any]:
        """Return the last evaluations, and the best means."""
        return {
            "values": list(self._values),
            "best": self._best if math.isfinite(self._best) else None,
            "lowest": self._lowest if math.isfinite(self._lowest) else None,
            "lowest_step": self._lowest_step,
            "waited": self._waited,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._values = [float(one) for one in state["values"]]
        self._best, self._lowest = (
            math.inf if state[name] is None else float(state[name]) for name in ("best", "lowest")
        )
        step = state["lowest_step"]
        self._lowest_step = None if step is None else int(step)
        self._waited = int(state["waited"])
