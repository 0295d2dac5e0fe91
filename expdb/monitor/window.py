"""Median and spread of the last values, exact and cheap enough for every step."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

SPREAD = 1.4826
"""Times the median absolute deviation: the standard deviation of a normal distribution."""


def median(values: Sequence[float]) -> float:
    """Return the median of values that are sorted, at least one."""
    middle = len(values) // 2
    if len(values) % 2:
        return values[middle]
    return (values[middle - 1] + values[middle]) / 2


def deviation(values: Iterable[float], centre: float) -> float:
    """Return the median absolute deviation, as a standard deviation."""
    return SPREAD * median(sorted(abs(value - centre) for value in values))


class RobustWindow:
    """How far a value lies above the median of the accepted values before it, in spreads.

    What is far above is accepted at the border, so that a spike does not move the window and a
    level that stays is learned. With `log` the logarithm of the value is looked at.
    """

    def __init__(self, *, size: int, k: float, floor: float, least: int, log: bool = False) -> None:
        self._size, self._k, self._floor, self._least, self._log = size, k, floor, least, log
        self._order: deque[float] = deque()
        self._sorted: list[float] = []

    def __len__(self) -> int:
        return len(self._order)

    def see(self, value: float) -> tuple[float, float] | None:
        """Take a finite value; return (median, spread) of before if it lies over `k` spreads."""
        x = self._scaled(value)
        if x is None:
            return None
        found = self._above(x) if len(self._order) >= self._least else None
        self._push(x if found is None else found[0] + self._k * found[1])
        return found

    def z(self, value: float, found: tuple[float, float]) -> float:
        """Return how many spreads a value lies above a median."""
        x = self._scaled(value)
        return math.nan if x is None else (x - found[0]) / found[1]

    def border(self, found: tuple[float, float], k: float) -> float:
        """Return the value that lies `k` spreads above a median, as it would be logged."""
        x = found[0] + k * found[1]
        return math.exp(min(x, 700.0)) if self._log else x

    def _scaled(self, value: float) -> float | None:
        if not self._log:
            return value
        return math.log(value) if value > 0 else None

    def _above(self, x: float) -> tuple[float, float] | None:
        centre = median(self._sorted)
        if x <= centre + self._k * self._floor:
            return None  # whatever the spread is: it is at least the floor
        spread = max(deviation(self._sorted, centre), self._floor)
        return (centre, spread) if x > centre + self._k * spread else None

    def _push(self, x: float) -> None:
        if len(self._order) == self._size:
            del self._sorted[bisect_left(self._sorted, self._order.popleft())]
        self._order.append(x)
        insort(self._sorted, x)

    def state_dict(self) -> dict[str, Any]:
        """Return the accepted values, oldest first."""
        return {"values": list(self._order)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._order = deque(float(value) for value in state["values"])
        self._sorted = sorted(self._order)
