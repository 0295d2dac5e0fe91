"""D4, `divergence`: the median of a block of steps lies above that of the best block so far.

The best of many blocks lies some standard errors under the usual one, so that `errors` is counted
from there: with 4 a run with 0.1 nat of noise was in alarm 1.3 times in 10,000 steps, with 8 never.

Sees what a spike rule cannot: a loss that rises slowly, or never comes back. It needs the mean loss
over all ranks; with the loss of one micro-batch `floor` has to be 0.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from expdb.monitor.detector import FIRING, GRAVE, OK, Reading, number
from expdb.monitor.window import deviation, median

OF_A_MEDIAN = 1.2533
"""The standard error of a median, in those of a mean."""


class Divergence:
    """Compares medians of blocks of `block` steps; `in_a_row` of them make it grave."""

    def __init__(
        self,
        key: str,
        *,
        block: int = 25,
        floor: float = 0.1,
        errors: float = 8.0,
        in_a_row: int = 3,
    ) -> None:
        self.keys = (key,)
        self._size, self._floor, self._errors, self._in_a_row = block, floor, errors, in_a_row
        self._block: list[float] = []
        self._best = math.inf
        self._run = 0

    def update(self, step: int, values: Mapping[str, float], time_ms: int = 0) -> Reading | None:
        """Return how the block that ends here compares; None inside a block."""
        value = values.get(self.keys[0])
        if value is None:
            return None
        self._block.append(value if math.isfinite(value) else math.inf)
        if len(self._block) < self._size:
            return None
        block, self._block = sorted(self._block), []
        centre = median(block)
        spread = deviation(block, centre) if math.isfinite(centre) else 0.0
        error = OF_A_MEDIAN * spread / math.sqrt(self._size)
        limit = self._best + max(self._floor, self._errors * error)
        if not centre > limit:
            self._best, self._run = min(self._best, centre), 0
            return OK
        self._run += 1
        text = f"median of {self._size} steps {number(centre)} > {number(limit)}"
        grave = self._run >= self._in_a_row
        text += f", {self._run} in a row" if self._run > 1 else ""
        return Reading(GRAVE if grave else FIRING, centre, limit, text)

    def state_dict(self) -> dict[str, Any]:
        """Return the block that is being filled, and the best so far."""
        finite = [value if math.isfinite(value) else None for value in self._block]
        best = self._best if math.isfinite(self._best) else None
        return {"block": finite, "best": best, "run": self._run}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._block = [math.inf if one is None else float(one) for one in state["block"]]
        self._best = math.inf if state["best"] is None else float(state["best"])
        self._run = int(state["run"])
