"""What a plot shows: lines, events, and how it is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series on a plot; all arrays are [n], in the order of x."""

    x: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    mid: NDArray[np.float64]
    """NaN where no value is finite."""
    place: int
    """Its place among the series, which gives colour and mark; 0 is the baseline's."""
    num_points: int
    end: float | None = None
    """Where the last point stands, where the last x is the middle of several."""
    steps: NDArray[np.float64] | None = None
    """The step of each point, where x is another thing."""
    num_nonfinite: int = 0
    gap_x: tuple[float, ...] = ()
    """Where values are not finite."""
    borders: tuple[tuple[float, str], ...] = ()
    """Where its later attempts begin, each with its sign: `a2`."""
    is_reference: bool = False
    """Whether it is only there to be compared with: faint and dotted."""
    is_band: bool = False
    """Whether low and high are those of several runs: filled, however few the points are."""
    is_rest: bool = False
    """Whether it stands for all that have no line of their own: grey, and without a line."""

    def at_step(self, step: float) -> float:
        """Return the x of a step."""
        if self.steps is None or not len(self.x):
            return step
        return float(np.interp(step, self.steps, self.x))

    def near(self, x: float) -> int | None:
        """Return the place of the point nearest to an x that has a value; None without any."""
        good = np.flatnonzero(np.isfinite(self.mid))
        return int(good[np.argmin(np.abs(self.x[good] - x))]) if len(good) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at an x."""

    x: float
    role: str
    sign: str
    weight: int = 0
    """Of several in one cell the heaviest is shown."""
    is_open: bool = False
    """Whether a line goes down from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What a plot shows."""

    key: str
    lines: Sequence[Line]
    is_log: bool
    title: Sequence[tuple[str, str]] = ()
    window: int = 1
    """Points that a line is smoothed over."""
    x_low: float = 0.0
    x_high: float = 1.0
    events: Sequence[Event] = ()
    has_borders: bool = False
    """Whether it is seen where attempts begin."""
    crosshair: float | None = None
    is_clipped: bool = False
    """Whether single points far outside are left out of the range."""
    has_tints: bool = True
    has_marks: bool = True
    x_label: str = "step"
    extra: Sequence[tuple[str, str]] = field(default=())
    """At the right end of the title."""


def x_range(lines: Sequence[Line]) -> tuple[float, float]:
    """Return the least and greatest x of lines; (0, 1) of none."""
    found = [line for line in lines if len(line.x)]
    if not found:
        return 0.0, 1.0
    return min(float(line.x[0]) for line in found), max(
        float(line.x[-1]) if line.end is None else line.end for line in found
    )
