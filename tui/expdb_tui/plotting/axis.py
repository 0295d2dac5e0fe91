"""Axes: from values to dots, and the ticks that are named.

Invariant: an axis is never empty or of no height; a logarithmic one has no value <= 0. Halves are
subtracted where whole values could leave the range of a float.
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
CLOCK: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
)  # fmt: skip
"""Seconds from one tick of a time to the next."""
PAD: Final = 0.03
GROWTH: Final = 0.05
"""An end of an axis moves by this share of it: what grows does not move with every point."""
LARGEST: Final = 1.7e308
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
            return (raised / 2 - low / 2) / (high / 2 - low / 2) * (dots - 1)

    def value(self, dot: float, dots: int) -> float:
        """Return the value that stands at a dot of an axis that is straight."""
        share = dot / max(1, dots - 1)
        return self.low * (1 - share) + self.high * share


def is_log_by_nature(key: str) -> bool:
    """Tell whether a metric is looked at on a logarithmic axis unless told otherwise."""
    name = key.rsplit("/", 1)[-1]
    return any(name == word or name.endswith(f"_{word}") for word in LOG_KEYS)


def value_axis(lows: Sequence[float], highs: Sequence[float], *, is_log: bool, key: str) -> Axis:
    """Return the axis over the least and greatest finite values of what is shown."""
    low, high = min(lows, default=0.0), max(highs, default=1.0)
    if is_log and low > 0:
        if high <= low * (1 + 1e-9):
            return Axis(low / 1.5, min(high, LARGEST / 2) * 1.5, True)
        first, last = _grown(math.log10(low), math.log10(high))
        return Axis(max(10.0**first, 5e-324), 10.0 ** min(last, math.log10(LARGEST)), True)
    if key.endswith(FROM_ZERO) and low > 0:
        low = 0.0
    if high / 2 - low / 2 <= max(abs(high), abs(low)) * 1e-12:
        size = abs(high) * 0.05
        size = size if math.isfinite(1 / size if size > 1e-300 else math.inf) else 1.0
        return Axis(max(-LARGEST, low - size), min(LARGEST, high + size))
    first, last = _grown(low, high)
    return Axis(0.0 if low == 0.0 else max(-LARGEST, first), min(LARGEST, last))


def _grown(low: float, high: float) -> tuple[float, float]:
    """Return a range with some air, each end on a grid of about a twentieth of it."""
    half = high / 2 - low / 2
    pad = half * 2 * PAD
    low, high = max(-LARGEST, low - pad), min(LARGEST, high + pad)
    grid = 2.0 ** math.floor(math.log2(half * GROWTH) + 1) if half * GROWTH > 1e-300 else 0.0
    if not grid or not math.isfinite(low / grid) or not math.isfinite(high / grid):
        return low, high
    return math.floor(low / grid) * grid, math.ceil(high / grid) * grid


def log_ticks(axis: Axis, most: int) -> list[float]:
    """Return round values on a logarithmic axis: the coarsest set with three of them."""
    first, last = math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high))
    powers = range(first, last + 1)  # 1e309 is infinite, and so outside
    found: list[float] = []
    for factors in LOG_SETS:
        values = (float(f"{factor}e{power}") for power in powers for factor in factors)
        found = [value for value in values if axis.low <= value <= axis.high]
        if len(found) >= min(3, max(2, most)):
            break
    while len(found) > max(2, most):
        found = found[::2]
    return found or [axis.low]


def linear_ticks(axis: Axis, most: int) -> list[float]:
    """Return round values on a straight axis."""
    raw = (axis.high / 2 - axis.low / 2) / max(1, most) * 2
    power = 10.0 ** math.floor(math.log10(raw)) if raw > 1e-300 else raw
    step = next((factor * power for factor in STEPS if factor * power >= raw * (1 - 1e-9)), raw)
    if not math.isfinite(step) or step <= 0:
        return [axis.low, axis.high]
    first = math.ceil(axis.low / step - 1e-9)
    last = math.floor(axis.high / step + 1e-9)
    return [value for at in range(first, last + 1) if math.isfinite(value := at * step)]


def clock_ticks(axis: Axis, most: int) -> list[float]:
    """Return seconds at whole minutes, hours, days."""
    raw = (axis.high - axis.low) / max(1, most)
    if raw < 1:
        return linear_ticks(axis, most)
    step = next((float(step) for step in CLOCK if step >= raw), 0.0)
    if not step:
        step = math.ceil(raw / 86_400) * 86_400.0
    first = math.ceil(axis.low / step - 1e-9)
    last = math.floor(axis.high / step + 1e-9)
    return [at * step for at in range(first, last + 1)]


def ticks(axis: Axis, most: int) -> list[float]:
    """Return the values that are named on an axis."""
    return log_ticks(axis, most) if axis.is_log else linear_ticks(axis, most)


def label(value: float, digits: int = 4) -> str:
    """Return a tick in few characters: `0.5`, `3e-4`, `20k`, `1.2M`."""
    size = abs(value)
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    if size < 1e-3 or size >= 1e15:
        mantissa, _, power = f"{value:.1e}".partition("e")
        return f"{mantissa.removesuffix('.0')}e{int(power)}"
    for unit, name in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if size >= unit * (10 if name == "k" else 1):
            return f"{value / unit:.{max(3, digits - 1)}g}{name}"
    return f"{value:.{digits}g}"


def labels(values: Sequence[float]) -> list[str]:
    """Return the ticks of one axis, each with as many digits as tell all of them apart."""
    found: list[str] = []
    for digits in (4, 5, 6, 8):
        found = [label(0.0 if _is_zero(value, values) else value, digits) for value in values]
        if len(set(found)) == len(values):
            break
    return found


def _is_zero(value: float, values: Sequence[float]) -> bool:
    """Tell whether a tick is what the arithmetic of others leaves of zero."""
    return abs(value) < max(map(abs, values), default=0.0) * 1e-9


def x_text(value: float, kind: str) -> str:
    """Return a place on the axis of x: a step, tokens, or a time."""
    if kind == "time":
        return _clock(value)
    if kind == "tokens":
        return label(value, 3)
    return label(value, 6) if abs(value) >= 100_000 else str(int(value))


def _clock(value: float) -> str:
    if value != int(value) and value < 10:
        return f"{value:.2g}s"
    seconds = max(0, round(value))
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}" if seconds % 60 else f"{seconds // 60}m"
    if seconds < 86_400:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02d}"
    return f"{seconds // 86_400}d{seconds % 86_400 // 3600:02d}h"
