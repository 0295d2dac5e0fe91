"""Axes: from values to dots, and the ticks that are named.

Invariant: an axis is never empty or of no height; a logarithmic one has no value <= 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

LOG_SETS: Final[tuple[tuple[float, ...], ...]] = (
    (1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7),
)  # fmt: skip
STEPS: Final = (1, 2, 2.5, 5, 10)
PAD: Final = 0.04
LOG_KEYS: Final = ("loss", "grad_norm", "lr", "update_ratio")
FROM_ZERO: Final = ("_share", "_per_s", "_s", "_bytes", "_pct")


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values over a number of dots; `low` is at the first dot."""

    low: float
    high: float
    is_log: bool = False

    def place(self, values: NDArray[np.float64], dots: int) -> NDArray[np.float64]:
        """Return where values stand, in dots; NaN where a logarithm has none."""
        with np.errstate(all="ignore"):
            if self.is_log:
                low, high = math.log10(self.low), math.log10(self.high)
                raised = np.where(values > 0, np.log10(np.where(values > 0, values, 1.0)), np.nan)
            else:
                low, high, raised = self.low, self.high, values
            return (raised - low) / (high - low) * (dots - 1)


def is_log_by_nature(key: str) -> bool:
    """Tell whether a metric is looked at on a logarithmic axis unless told otherwise."""
    name = key.rsplit("/", 1)[-1]
    return any(name == word or name.endswith(f"_{word}") for word in LOG_KEYS)


def value_axis(lows: Sequence[float], highs: Sequence[float], *, is_log: bool, key: str) -> Axis:
    """Return the axis over the least and greatest finite values of what is shown."""
    low, high = min(lows, default=0.0), max(highs, default=1.0)
    if is_log and low > 0:
        if high <= low * (1 + 1e-9):
            return Axis(low / 1.5, high * 1.5, True)
        pad = (high / low) ** PAD
        return Axis(low / pad, min(high * pad, 1e308), True)
    if key.endswith(FROM_ZERO) and low > 0:
        low = 0.0
    if high - low <= abs(high) * 1e-12:
        size = abs(high) * 0.05 or 1.0
        return Axis(low - size, high + size)
    pad = (high / 2 - low / 2) * 2 * PAD
    return Axis(low if low == 0.0 else low - pad, high + pad)


def log_ticks(axis: Axis, most: int) -> list[float]:
    """Return round values on a logarithmic axis: the coarsest set with three of them."""
    first, last = math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high))
    found: list[float] = []
    for factors in LOG_SETS:
        values = (factor * 10.0**power for power in range(first, last + 1) for factor in factors)
        found = [value for value in values if axis.low <= value <= axis.high]
        if len(found) >= 3:
            break
    while len(found) > max(2, most):
        found = found[::2]
    return found or [axis.low]


def linear_ticks(axis: Axis, most: int) -> list[float]:
    """Return round values on a straight axis."""
    size = axis.high - axis.low
    raw = size / max(1, most)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in STEPS if factor * power >= raw * (1 - 1e-9))
    first = math.ceil(axis.low / step - 1e-9)
    last = math.floor(axis.high / step + 1e-9)
    return [at * step for at in range(first, last + 1)]


def ticks(axis: Axis, most: int) -> list[float]:
    """Return the values that are named on an axis."""
    return log_ticks(axis, most) if axis.is_log else linear_ticks(axis, most)


def label(value: float) -> str:
    """Return a tick in few characters: `0.5`, `3e-4`, `20k`, `1.2M`."""
    size = abs(value)
    if value == 0 or size < 1e-12:
        return "0"
    if size < 1e-3:
        mantissa, _, power = f"{value:.1e}".partition("e")
        return f"{mantissa.removesuffix('.0')}e{int(power)}"
    for unit, name in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if size >= unit * (10 if name == "k" else 1):
            return f"{value / unit:.3g}{name}"
    return f"{value:.4g}"
