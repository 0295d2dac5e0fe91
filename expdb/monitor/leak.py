"""`leak`: what a language model is to predict is in its input, by its mask or by its data.

    init/leak   logits moved by more than `change` of their spread when later tokens changed
    train/loss  under `floor` for `for_samples` updates, from before `share` of all updates on

The second is judged of a model that began untrained and predicts tokens, which the values of its
first update say, and where it is known how many updates there are to be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from expdb.monitor.detector import GRAVE, OK, Reading, number


class Leak:
    """Watches one of the two; the other keys are where it finds what it has to know beside."""

    def __init__(
        self,
        key: str,
        *,
        causal: str = "init/leak",
        budget: str = "init/max_steps",
        start: str = "init/loss_excess",
        labels: str = "init/unshifted",
        change: float = 1e-3,
        floor: float = 0.1,
        share: float = 0.05,
        for_samples: int = 5,
        known: float = 0.5,
    ) -> None:
        self._is_causal = key == causal
        self._beside = budget, start, labels
        self.keys: tuple[str, ...] = (key,) if self._is_causal else (key, *self._beside)
        self._change, self._floor, self._share = change, floor, share
        self._for, self._known = for_samples, known
        self._budget: float | None = None
        self._is_new = False
        """Whether it predicts tokens and had learned nothing."""
        self._run = 0

    def update(self, step: int, values: Mapping[str, float], time_ms: int = 0) -> Reading | None:
        """Return whether the answer is in the input; None where that cannot be told."""
        value = values.get(self.keys[0])
        if self._is_causal:
            if value is None or not math.isfinite(value):
                return None
            if not value > self._change:
                return OK
            text = f"{self.keys[0]} {number(value)}: logits change when later tokens do"
            return Reading(GRAVE, value, self._change, text)
        self._learn(values)
        if value is None or self._budget is None or not self._is_new:
            return None
        if not value < self._floor:
            self._run = 0
            return OK
        # What comes down after a while has learned; what was down at the begin stays suspect.
        self._run += self._run > 0 or step < self._share * self._budget
        if self._run < self._for:
            return OK
        text = f"{self.keys[0]} {number(value)} < {number(self._floor)} so early"
        return Reading(GRAVE, value, self._floor, text)

    def _learn(self, values: Mapping[str, float]) -> None:
        budget, start, labels = self._beside
        if (found := values.get(budget)) is not None and math.isfinite(found):
            self._budget = found
        if (found := values.get(start)) is not None:
            self._is_new = found >= -self._known and labels in values

    def state_dict(self) -> dict[str, Any]:
        """Return what it knows of the run, and for how long the loss is low."""
        return {"budget": self._budget, "is_new": self._is_new, "run": self._run}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._budget, self._is_new = state["budget"], bool(state["is_new"])
        self._run = int(state["run"])
