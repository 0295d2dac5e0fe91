"""A centred moving mean that no gap and no border of attempts is crossed by.

An exponential mean lags behind a steep curve; a centred one does not.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

WINDOWS: Final = (1, 5, 15, 51, 151)


def smoothed(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Return the mean of `window` points around each; fewer at the ends of a stretch; NaN stays."""
    if window <= 1 or len(values) < 2:
        return values
    out = values.copy()
    finite = np.isfinite(values)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], finite, [False]]).astype(np.int8)))
    half = window // 2
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        part = values[start:stop]
        sums = np.concatenate([[0.0], np.cumsum(part)])
        at = np.arange(len(part))
        low, high = np.maximum(0, at - half), np.minimum(len(part), at + half + 1)
        out[start:stop] = (sums[high] - sums[low]) / (high - low)
    return out


def default_window(num_points: int) -> int:
    """Return the window of about 5 % of the points."""
    wanted = num_points * 0.05
    return min(WINDOWS, key=lambda window: abs(window - wanted))
