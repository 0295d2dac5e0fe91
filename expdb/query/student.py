"""Quantiles of Student's t distribution, and Welch's interval for the difference of two means.

Invariant: pure functions; the standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

_TINY: Final = 1e-300
_STEPS: Final = 300


def t_quantile(p: float, df: float) -> float:
    """Return the value below which a t variable with `df` degrees of freedom is with chance `p`.

    `p` is between 0 and 1, both left out; `df` is above 0 and need not be whole.
    """
    if p == 0.5:
        return 0.0
    if p < 0.5:
        return -t_quantile(1 - p, df)
    low, high = 0.0, 1.0
    while _cdf(high, df) < p and high < 1e300:
        low, high = high, high * 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _cdf(middle, df) < p else (low, middle)
    return (low + high) / 2


def _cdf(t: float, df: float) -> float:
    """Return the chance of a value below `t`, for `t` of at least 0.

    Source: Abramowitz and Stegun, 26.7.1 with 26.5.27: one minus half of the regularized incomplete
    beta function of df / (df + t^2).
    """
    return 1 - 0.5 * _beta(df / (df + t * t), df / 2, 0.5)


def _beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b), by its continued fraction.

    Source: NIST Digital Library of Mathematical Functions, 8.17.22, by Lentz's method.
    """
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    log_front += a * math.log(x) + b * math.log1p(-x)
    found, c, d = 1.0, 1.0, 0.0
    for step in range(_STEPS):
        m = step // 2
        if step == 0:
            term = 1.0
        elif step % 2 == 0:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / _nonzero(1 + term * d)
        c = _nonzero(1 + term / c)
        found *= c * d
        if step and abs(1 - c * d) < 1e-15:
            break
    return math.exp(log_front) * (found - 1) / a


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def welch_half_width(
    left: Sequence[float], right: Sequence[float], *, level: float = 0.95
) -> float:
    """Return the half-width of the confidence interval of the difference of two means.

    Each side has two values or more; their spreads may differ. Without any spread it is 0.
    """
    parts = [variance(side) / len(side) for side in (left, right)]
    total = sum(parts)
    if total == 0:
        return 0.0
    df = total**2 / sum(
        part**2 / (len(side) - 1) for part, side in zip(parts, (left, right), strict=True)
    )
    return t_quantile(0.5 + level / 2, df) * math.sqrt(total)


def variance(values: Sequence[float]) -> float:
    """Return the sample variance of two values or more."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
