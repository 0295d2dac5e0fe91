"""Formulas over host numbers: perplexity, load of experts, noise scale, rank.

Pure and of the standard library. What is undefined is NaN, never an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

DEAD_SHARE = 0.01
"""An expert with less than this share of the mean load is dead; a row likewise by its norm."""


def perplexity(nll: float, num_tokens: float) -> float:
    """Return exp(nll / num_tokens) of sums over all tokens; NaN without tokens, inf on overflow.

    A mean of the perplexities of parts is another, larger number.
    """
    if not num_tokens:
        return math.nan
    try:
        return math.exp(nll / num_tokens)
    except OverflowError:
        return math.inf


def bits_per_byte(nll: float, num_bytes: float) -> float:
    """Return the nats of a text as bits for each of its bytes; NaN without bytes."""
    return nll / (num_bytes * math.log(2.0)) if num_bytes else math.nan


def max_violation(load: Sequence[float]) -> float:
    """Return MaxVio, the largest load over the mean load, less one; NaN without load.

    Source: arXiv 2408.15664, section 4.
    """
    total = sum(load)
    return max(load) * len(load) / total - 1.0 if total else math.nan


def load_cv(load: Sequence[float]) -> float:
    """Return the standard deviation of the loads over their mean; NaN without load."""
    if not sum(load):
        return math.nan
    mean = sum(load) / len(load)
    return math.sqrt(sum((one - mean) ** 2 for one in load) / len(load)) / mean


def num_dead(load: Sequence[float]) -> int:
    """Return how many experts have under one hundredth of the mean load."""
    mean = sum(load) / len(load) if load else 0.0
    return sum(one < DEAD_SHARE * mean for one in load)


def entropy_share(weights: Sequence[float]) -> float:
    """Return the entropy of non-negative weights as a share of its largest: 1 uniform, 0 one-hot.

    NaN where there is no weight, or a single one.
    """
    total = sum(weights)
    if not total > 0 or len(weights) < 2:
        return math.nan
    shares = [one / total for one in weights]
    return -sum(p * math.log(p) for p in shares if p > 0) / math.log(len(shares))


def effective_rank(singular: Sequence[float]) -> float:
    """Return exp of the entropy of the singular values' shares; NaN where all are 0.

    Source: Roy and Vetterli, "The effective rank", 2007.
    """
    total = sum(singular)
    if not total > 0:
        return math.nan
    shares = [one / total for one in singular if one > 0]
    return math.exp(-sum(p * math.log(p) for p in shares))


@dataclass(slots=True, kw_only=True)
class NoiseScale:
    """The gradient noise scale from the norm of one micro-batch and of the whole update.

    Both estimates are unbiased and noisy, so each is averaged over samples before the ratio.

    Source: arXiv 1812.06162, appendix A.1.
    """

    decay: float = 0.9
    signal: float = 0.0
    noise: float = 0.0
    num: int = 0

    def update(self, *, small_sq: float, small: float, big_sq: float, big: float) -> float:
        """Take squared gradient norms with their batch sizes, and return the scale so far.

        The unit is that of the sizes. NaN while it is not defined: equal sizes, or a mean gradient
        that the noise hides.
        """
        if not all(map(math.isfinite, (small_sq, big_sq))) or not 0 < small < big:
            return self.value
        signal = (big * big_sq - small * small_sq) / (big - small)
        noise = (small_sq - big_sq) / (1.0 / small - 1.0 / big)
        self.num += 1
        weight = max(1.0 - self.decay, 1.0 / self.num)  # a plain mean until there are enough
        self.signal += weight * (signal - self.signal)
        self.noise += weight * (noise - self.noise)
        return self.value

    @property
    def value(self) -> float:
        """The noise scale: noise over signal."""
        return self.noise / self.signal if self.num and self.signal > 0 else math.nan
