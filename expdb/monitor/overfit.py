"""D7, `overfit`: the validation loss rises beyond its noise while the training loss still falls.

The unit is the evaluation: pre-training sees less than one epoch.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from expdb.monitor.detector import FIRING, OK, Reading, number
from expdb.monitor.window import SPREAD, median

KEPT = 60
"""So many evaluations the noise is estimated from."""


class Overfit:
    """Watches the loss `key` of evaluations, and the training loss `train` beside it.

    The mean of the last `window` evaluations has to lie above the best such mean by `k` standard
    errors, `in_a_row` times, and by `least` of it.
    """

    def __init__(
        self,
        key: str,
        *,
        train: str = "train/loss",
        window: int = 5,
        k: float = 3.0,
        in_a_row: int = 2,
        least: float = 0.002,
        block: int = 25,
    ) -> None:
        self.keys = (key, train)
        self._window, self._k, self._in_a_row, self._least = window, k, in_a_row, least
        self._train: deque[float] = deque(maxlen=block)
        self._values: list[float] = []
        self._best = math.inf
        self._best_step = 0
        self._best_train = math.inf
        """The median of the training loss when the best mean was reached."""
        self._run = 0

    @property
    def best_step(self) -> int | None:
        """The evaluation with the best mean; None before there is one."""
        return self._best_step if math.isfinite(self._best) else None

    def update(self, step: int, values: Mapping[str, float], time_ms: int = 0) -> Reading | None:
        """Return how an evaluation stands to the best; None at a step without one."""
        train = values.get(self.keys[1])
        if train is not None and math.isfinite(train):
            self._train.append(train)
        value = values.get(self.keys[0])
        if value is None or not math.isfinite(value):
            return None
        self._values = [*self._values, value][-KEPT:]
        if len(self._values) < self._window or not self._train:
            return None
        mean = sum(self._values[-self._window :]) / self._window
        now = median(sorted(self._train))
        if mean < self._best:
            self._best, self._best_step, self._best_train, self._run = mean, step, now, 0
            return OK
        limit = self._best + max(self._margin(), self._least * abs(self._best))
        if not (mean > limit and now < self._best_train):
            self._run = 0
            return OK
        self._run += 1
        if self._run < self._in_a_row:
            return None
        text = f"{self.keys[0]}, mean of {self._window}, {number(mean)} > {number(limit)}"
        text += f", best at {self._best_step}; {self.keys[1]} still falls"
        return Reading(FIRING, mean, limit, text)

    def _margin(self) -> float:
        changes = [b - a for a, b in pairwise(self._values)]
        if len(changes) < 2:
            return 0.0
        # Of the changes of changes, so that a loss that falls steadily has no noise by itself.
        bends = sorted(abs(b - a) for a, b in pairwise(changes))
        noise = SPREAD * median(bends) / math.sqrt(6)
        return self._k * noise / math.sqrt(self._window)

    def state_dict(self) -> dict[str, Any]:
        """Return the evaluations, and where the best was."""
        return {
            "train": list(self._train),
            "values": list(self._values),
            "best": self._best if math.isfinite(self._best) else None,
            "best_step": self._best_step,
            "best_train": self._best_train if math.isfinite(self._best_train) else None,
            "run": self._run,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._train = deque(map(float, state["train"]), maxlen=self._train.maxlen)
        self._values = [float(one) for one in state["values"]]
        self._best = math.inf if state["best"] is None else float(state["best"])
        train = state["best_train"]
        self._best_train = math.inf if train is None else float(train)
        self._best_step, self._run = int(state["best_step"]), int(state["run"])
