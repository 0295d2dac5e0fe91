"""A centred moving mean that no gap and no border of attempts is crossed by.

An exponential mean lags behind a steep curve; a centred one does not. A window is summed by itself:
with sums that go on, one spike of 1e300 would leave nothing of all values behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

WINDOWS: Final = (1, 5, 15, 51, 151, 501, 1501, 5001, 15_001, 50_001, 150_001)
SHARE: Final = 0.05
"""The share of the points that a window has unless told."""


def smoothed(
    values: NDArray[np.float64], window: int, breaks: Sequence[int] = ()
) -> NDArray[np.float64]:
    """Return the mean of `window` points around each; fewer at the ends of a stretch; NaN stays.

    `breaks` are places before which a stretch ends, whatever the values.
    """
    if window <= 1 or len(values) < 2:
        return values
    out = values.copy()
    half = window // 2
    for start, stop in _stretches(np.isfinite(values), breaks):
        part = values[start:stop]
        size = min(half, len(part))
        padded = np.concatenate([np.zeros(size), part, np.zeros(size)])
        at = np.arange(len(part))
        counts = np.minimum(len(part), at + size + 1) - np.maximum(0, at - size)
        # Divided before they are summed: the sum of a few values near 1e308 is infinite.
        sums = (sliding_window_view(padded, 2 * size + 1) / (2 * size + 1)).sum(axis=1)
        out[start:stop] = sums * ((2 * size + 1) / counts)
    return out


def _stretches(finite: NDArray[np.bool_], breaks: Sequence[int]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], finite, [False]]).astype(np.int8)))
    found: list[tuple[int, int]] = []
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        inside = sorted({at for at in breaks if start < at < stop})
        found += list(zip([start, *inside], [*inside, stop], strict=True))
    return found


def default_window(num_points: int) -> int:
    """Return the window of about 5 % of the points."""
    wanted = num_points * SHARE
    return min(WINDOWS, key=lambda window: abs(window - wanted))


def next_window(window: int, by: int) -> int:
    """Return the window that comes `by` places behind this one; the last and first ones stay."""
    at = WINDOWS.index(window) if window in WINDOWS else 0
    return WINDOWS[max(0, min(len(WINDOWS) - 1, at + by))]


def in_columns(window: int, num_columns: int, num_points: int) -> int:
    """Return how many columns of a plot a window of points is: odd, at least one."""
    if num_points <= 0:
        return 1
    columns = round(window * num_columns / num_points)
    return max(1, columns - (columns % 2 == 0))
