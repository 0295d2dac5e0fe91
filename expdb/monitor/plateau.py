"""D6, `plateau`: the value no longer falls, as far as the noise lets one say so.

Block medians over a long window, the Theil-Sen slope with its confidence, and the Mann-Kendall
test. Nothing is said while the learning rate falls, nor below a target.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from expdb.monitor.detector import FIRING, OK, Reading, number
from expdb.monitor.window import median

NORMAL_95 = 1.96


class Plateau:
    """Watches one key over the last `steps` values in `blocks` blocks.

    It fires when even the steepest fall that the noise allows is under `share` of the level over
    the whole window.
    """

    def __init__(
        self,
        key: str,
        *,
        steps: int = 1000,
        blocks: int = 20,
        share: float = 0.003,
        target: float = -math.inf,
        rate: str = "train/lr",
    ) -> None:
        self.keys = (key, rate) if rate else (key,)
        self._size, self._blocks = max(1, steps // blocks), blocks
        self._share, self._target = share, target
        self._block: list[float] = []
        self._medians: list[float] = []
        self._rates: list[float] = []
        """The learning rate at the end of each block; 0 where it is not known."""
        self._rate = 0.0

    def update(self, step: int, values: Mapping[str, float], time_ms: int = 0) -> Reading | None:
        """Return whether the window that ends here is flat; None inside a block."""
        if len(self.keys) > 1:
            rate = values.get(self.keys[1])
            if rate is not None and math.isfinite(rate):
                self._rate = rate
        value = values.get(self.keys[0])
        if value is None or not math.isfinite(value):
            return None
        self._block.append(value)
        if len(self._block) < self._size:
            return None
        self._medians = [*self._medians, median(sorted(self._block))][-self._blocks :]
        self._rates = [*self._rates, self._rate][-self._blocks :]
        self._block = []
        if len(self._medians) < self._blocks:
            return None
        return self._judge()

    def _judge(self) -> Reading:
        level = self._medians[-1]
        falls = self._rates[-1] < self._rates[0] * (1 - 1e-9)
        if falls or level <= self._target or not level:
            return OK
        num = len(self._medians)
        pairs = [(i, j) for i in range(num) for j in range(i + 1, num)]
        slopes = sorted((self._medians[j] - self._medians[i]) / (j - i) for i, j in pairs)
        kendall = sum(
            (self._medians[j] > self._medians[i]) - (self._medians[j] < self._medians[i])
            for i, j in pairs
        )
        deviation = math.sqrt(num * (num - 1) * (2 * num + 5) / 18)
        lowest = slopes[max(0, int((len(slopes) - NORMAL_95 * deviation) / 2))]
        fall = -lowest * num / abs(level)
        if kendall < -NORMAL_95 * deviation or fall >= self._share:
            return OK
        steps = self._size * self._blocks
        text = f"{self.keys[0]} {number(level)} fell at most {max(fall, 0.0) * 100:.2g} %"
        return Reading(FIRING, fall, self._share, f"{text} in {steps:,} steps")

    def state_dict(self) -> dict[str, Any]:
        """Return the block that is being filled, and the last medians."""
        return {
            "block": list(self._block),
            "medians": list(self._medians),
            "rates": list(self._rates),
            "rate": self._rate,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._block, self._medians, self._rates = (
            [float(one) for one in state[name]] for name in ("block", "medians", "rates")
        )
        self._rate = float(state["rate"])
