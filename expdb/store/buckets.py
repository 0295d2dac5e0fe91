"""Buckets of series: what a plot needs of points that are too many to draw.

A bucket is all points of a key whose steps are the same after a shift by some bits, so buckets of a
finer shift lie whole in those of a coarser one, and a series that grows never has to be read again.

Invariant: count, non-finite count, first, last, least and greatest of a bucket are exactly those of
its points, least and greatest over the finite ones, of equal ones the first; only the mean is
rounded. All work is on whole arrays: it is done beside training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_BUCKETS: Final = 2048
"""The most buckets of a series; it has more than half of them where its steps are evenly spread."""
MIN_BUCKETS: Final = 256
POINTS_A_BUCKET: Final = 64
"""A series may have a bucket for so many points, and always `MIN_BUCKETS`: few points are read as
soon, and a thousand such series are not to double a run.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """Buckets in the order of their steps, column by column, all [n].

    Times are UTC epoch milliseconds. Where no value is finite, `min`, `max` and `mean` are NaN and
    their steps the first.
    """

    first_step: NDArray[np.int64]
    last_step: NDArray[np.int64]
    first_time: NDArray[np.int64]
    last_time: NDArray[np.int64]
    count: NDArray[np.int64]
    nonfinite: NDArray[np.int64]
    min: NDArray[np.float64]
    min_step: NDArray[np.int64]
    max: NDArray[np.float64]
    max_step: NDArray[np.int64]
    first: NDArray[np.float64]
    last: NDArray[np.float64]
    mean: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.first_step)

    def taken(self, index: Any) -> Buckets:
        """Return some of the buckets, by slice, mask or positions."""
        return Buckets(**{name: getattr(self, name)[index] for name in NAMES})

    @property
    def num_finite(self) -> NDArray[np.int64]:
        """The finite values of each."""
        return self.count - self.nonfinite


NAMES: Final = tuple(field.name for field in fields(Buckets))
REALS: Final = frozenset({"min", "max", "first", "last", "mean"})


def joined(parts: Sequence[Buckets]) -> Buckets:
    """Return the buckets of several, one after the other; none of none."""
    import numpy as np

    empty = [np.empty(0, np.float64 if name in REALS else np.int64) for name in NAMES]
    columns = {
        name: np.concatenate([none, *(getattr(part, name) for part in parts)])
        for name, none in zip(NAMES, empty, strict=True)
    }
    return Buckets(**columns)


def of_points(
    steps: NDArray[np.int64], times: NDArray[np.int64], values: NDArray[np.float64]
) -> Buckets:
    """Return one bucket a point; the arrays are aligned, and not copied."""
    import numpy as np

    finite = np.isfinite(values)
    known = values if finite.all() else np.where(finite, values, np.nan)
    return Buckets(
        first_step=steps, last_step=steps, first_time=times, last_time=times,
        count=np.ones(len(steps), np.int64), nonfinite=(~finite).astype(np.int64),
        min=known, min_step=steps, max=known, max_step=steps,
        first=values, last=values, mean=known,
    )  # fmt: skip


def shift_of(first_step: int, last_step: int, count: int) -> int:
    """Return by how many bits the steps of a series of so many points are shifted: the least by
    which it has no more buckets than it may.
    """
    most = min(MAX_BUCKETS, max(MIN_BUCKETS, count // POINTS_A_BUCKET))
    shift = max(0, (last_step - first_step).bit_length() - most.bit_length())
    while (last_step >> shift) - (first_step >> shift) >= most:
        shift += 1
    return shift


def starts_of(*columns: NDArray[Any]) -> NDArray[np.intp]:
    """Return where a group of equal neighbours begins, in any of the aligned columns."""
    import numpy as np

    new = np.ones(len(columns[0]), bool)
    if len(new):
        new[1:] = columns[0][1:] != columns[0][:-1]
        for column in columns[1:]:
            new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new)


def merged(rows: Buckets, starts: NDArray[np.intp]) -> Buckets:
    """Return one bucket for each group of neighbours; `starts` are the first of each, from 0."""
    import numpy as np

    if not len(starts):
        return rows.taken(slice(0, 0))
    stops = np.append(starts[1:], len(rows))
    ends = stops - 1
    count, nonfinite = (np.add.reduceat(part, starts) for part in (rows.count, rows.nonfinite))
    low, low_step = _least(rows.min, rows.min_step, starts, stops)
    high, high_step = _least(-rows.max, rows.max_step, starts, stops)
    mean = np.clip(_mean(rows, starts, count - nonfinite), low, -high)
    return Buckets(
        first_step=rows.first_step[starts], last_step=rows.last_step[ends],
        first_time=rows.first_time[starts], last_time=rows.last_time[ends],
        count=count, nonfinite=nonfinite,
        min=low, min_step=low_step, max=-high, max_step=high_step,
        first=rows.first[starts], last=rows.last[ends], mean=mean,
    )  # fmt: skip


def _least(
    values: NDArray[np.float64],
    steps: NDArray[np.int64],
    starts: NDArray[np.intp],
    stops: NDArray[np.intp],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the least finite value of each group and its step, of equal ones the first."""
    import numpy as np

    least = np.fmin.reduceat(values, starts)
    same = np.flatnonzero(values == np.repeat(least, stops - starts))
    owner = np.searchsorted(starts, same, side="right") - 1
    first = np.ones(len(same), bool)
    first[1:] = owner[1:] != owner[:-1]
    at = starts.copy()  # where there is none: the first
    at[owner[first]] = same[first]
    return values[at], steps[at]


def _mean(
    rows: Buckets, starts: NDArray[np.intp], finite: NDArray[np.int64]
) -> NDArray[np.float64]:
    import numpy as np

    weight = rows.num_finite
    is_points = weight.min() == 1 == weight.max()
    known = rows.mean if is_points else np.where(weight > 0, rows.mean, 0.0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        total = np.add.reduceat(known if is_points else known * weight, starts)
        mean: NDArray[np.float64] = total / finite
        wrong = ~np.isfinite(mean) & (finite > 0)
        if wrong.any():  # sums beyond the largest float
            of_all = np.repeat(finite, np.diff(np.append(starts, len(weight))))
            mean = np.where(wrong, np.add.reduceat(known * (weight / of_all), starts), mean)
    return mean
