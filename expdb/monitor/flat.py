"""`flat`: the training loss falls and a task stays inside its confidence interval."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from expdb.monitor.detector import FIRING, OK, Reading, number
from expdb.monitor.window import median


class Flat:
    """Watches a share in [0, 1] over `evals` evaluations of `items` items each.

    It fires when all of them lie within one 95 % interval while the median of `train` fell by
    `fall`.
    """

    def __init__(
        self,
        key: str,
        *,
        train: str = "train/loss",
        evals: int = 5,
        items: int = 400,
        fall: float = 0.02,
        block: int = 25,
    ) -> None:
        self.keys = (key, train)
        self._evals, self._items, self._fall = evals, items, fall
        self._train: deque[float] = deque(maxlen=block)
        self._values: list[float] = []
        self._losses: list[float] = []

    def update(self, step: int, values: Mapping[str, float], time_ms: int = 0) -> Reading | None:
        """Return whether the last evaluations are flat; None at a step without one."""
        train = values.get(self.keys[1])
        if train is not None and math.isfinite(train):
            self._train.append(train)
        value = values.get(self.keys[0])
        if value is None or not math.isfinite(value) or not self._train:
            return None
        self._values = [*self._values, value][-self._evals :]
        self._losses = [*self._losses, median(sorted(self._train))][-self._evals :]
        if len(self._values) < self._evals:
            return None
        mean = min(1.0, max(0.0, sum(self._values) / self._evals))
        half = 1.96 * math.sqrt(mean * (1 - mean) / self._items)
        spread = max(self._values) - min(self._values)
        fell = (self._losses[0] - self._losses[-1]) / self._losses[0] if self._losses[0] else 0.0
        if spread > half or fell < self._fall:
            return OK
        text = f"{self.keys[0]} {number(mean)} within {number(half)} over {self._evals} evals"
        return Reading(FIRING, spread, half, f"{text}; {self.keys[1]} fell {fell * 100:.1f} %")

    def state_dict(self) -> dict[str, Any]:
        """Return the last evaluations."""
        return {
            "train": list(self._train),
            "values": list(self._values),
            "losses": list(self._losses),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._train = deque(map(float, state["train"]), maxlen=self._train.maxlen)
        self._values = [float(one) for one in state["values"]]
        self._losses = [float(one) for one in state["losses"]]
