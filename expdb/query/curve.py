"""A series as a plot draws it: at most one column a dot, with the least and greatest value of each.

It comes from the run's curves.parquet, with the points that are not in it yet, or from the points
alone: where there is no such file, it does not hold any more, or a part of a series is looked at
for which its buckets are too coarse.

Invariant: least, greatest and counts are exactly those of the points between the first and the last
step of a column; the columns have all points between them, each in one. Where a column ends may
differ by a bucket between the two ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from expdb.errors import BadInput, ExpdbError, NotFound
from expdb.store import points
from expdb.store.buckets import Buckets, joined, merged, of_points
from expdb.store.curves import read_curves
from expdb.store.layout import RunLayout
from expdb.store.wanted import Wanted

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

TOKENS: Final = "train/tokens"
BUCKETS_A_COLUMN: Final = 2
"""With fewer on average the borders of columns would be seen to be those of buckets."""
DRAWN: Final = ("key", "step", "value", "attempt", "rank")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotCurve:
    """The columns of one series from left to right, those that have points; all arrays are [n]."""

    key: str
    x: NDArray[np.float64]
    """The middle of its points: steps, UTC epoch milliseconds, or values of another series."""
    lo: NDArray[np.float64]
    """The least finite value; NaN in a gap, as are `hi` and `mid`."""
    hi: NDArray[np.float64]
    mid: NDArray[np.float64]
    """The mean of the finite values."""
    first_step: NDArray[np.int64]
    last_step: NDArray[np.int64]
    counts: NDArray[np.int64]
    """Points, non-finite ones included."""
    nonfinite: NDArray[np.int64]
    gaps: NDArray[np.bool_]
    """Where no value is finite: a line does not cross it."""
    is_raw: bool
    """Whether it was made from points alone."""
    problems: tuple[str, ...] = ()
    """Damaged files whose points are not in it."""

    @property
    def num_points(self) -> int:
        """All points in it."""
        return int(self.counts.sum())


def curve(
    run_dir: Path,
    key: str,
    *,
    width: int,
    x: str = "step",
    since: int | None = None,
    until: int | None = None,
) -> PlotCurve:
    """Return a series in at most `width` columns; without any if the run does not have it.

    `x` is `step`, `time`, `tokens` (the series train/tokens) or the name of a series of the run:
    its value at the step, on a straight line between two points; what lies before or behind all of
    them is left out. `since` and `until` are steps, both included, to within a bucket.

    Raises:
        BadInput: a width under 1.
        NotFound: the series that `x` names has no finite value.
    """
    if width < 1:
        raise BadInput(f"a plot of {width} columns", hint="width is how many, at least 1")
    read = _Reading(RunLayout(run_dir), width, (since, until))
    rows, is_raw = read.rows(key, with_times=x == "time")
    rows, at_first, at_last = _placed(read, rows, x)
    found, middle = _columns(rows, at_first, at_last, width)
    return PlotCurve(
        key=key,
        x=middle,
        lo=found.min,
        hi=found.max,
        mid=found.mean,
        first_step=found.first_step,
        last_step=found.last_step,
        counts=found.count,
        nonfinite=found.nonfinite,
        gaps=found.count == found.nonfinite,
        is_raw=is_raw,
        problems=tuple(dict.fromkeys(read.problems)),
    )


class _Reading:
    """Reads series of one run within a range of steps, finely enough for so many columns."""

    def __init__(self, layout: RunLayout, width: int, steps: tuple[int | None, int | None]) -> None:
        self.layout = layout
        self.problems: list[str] = []
        self._enough = BUCKETS_A_COLUMN * width
        self._since, self._until = steps

    def rows(self, key: str, *, with_times: bool) -> tuple[Buckets, bool]:
        """Return the buckets of a series by step, and whether they are single points."""
        found = self._from_curve(key)
        if found is not None and len(shown := self._shown(found)) >= self._enough:
            return shown, False
        columns = (*DRAWN, "time") if with_times else DRAWN
        return self._shown(self._standing(Wanted(keys=[key], columns=columns))), True

    def _shown(self, rows: Buckets) -> Buckets:
        if self._since is not None:
            rows = rows.taken(rows.last_step >= self._since)
        return rows if self._until is None else rows.taken(rows.first_step <= self._until)

    def _from_curve(self, key: str) -> Buckets | None:
        """Return what the file of curves has, and the points that are not in it."""
        try:
            known = read_curves(self.layout.curves, [key])
        except (FileNotFoundError, ExpdbError):
            return None
        old = known.buckets.of(key)
        if len(old) < self._enough:
            return None
        problems: list[str] = []
        wanted = Wanted(keys=[key], after=known.source.covered)
        fresh = points.read_points(self.layout, wanted, problems=problems)
        resumed = points.resumed_from(self.layout, problems=problems)
        limit = known.source.holds_to(points.sealed_frames(self.layout), resumed)
        if limit is None:
            return None
        if fresh.num_rows:
            limit = min(limit, int(fresh["step"].to_numpy().min()) - 1)
        kept = old.taken(old.last_step <= limit)
        if len(kept) == len(old):
            self.problems += problems
            tail = _as_rows(points.standing(points.visible(fresh, resumed)))
        elif len(kept):
            tail = self._standing(Wanted(keys=[key], above=int(kept.last_step[-1])))
        else:
            return None
        return joined([kept, tail]) if len(tail) else kept

    def _standing(self, wanted: Wanted) -> Buckets:
        table = points.read_points(self.layout, wanted, problems=self.problems)
        resumed = points.resumed_from(self.layout, problems=self.problems)
        return _as_rows(points.standing(points.visible(table, resumed)))


def _as_rows(table: pa.Table) -> Buckets:
    steps = table["step"].to_numpy()
    times = table["time"].to_numpy() if "time" in table.column_names else steps  # nobody asks
    return of_points(steps, times, table["value"].to_numpy())


def _placed(read: _Reading, rows: Buckets, x: str) -> tuple[Buckets, NDArray[Any], NDArray[Any]]:
    """Return the buckets that have a place on the axis, in its order, and where each begins and
    ends there.
    """
    import numpy as np

    if x == "step":
        return rows, rows.first_step, rows.last_step
    if x == "time":
        first, last = rows.first_time, rows.last_time
    else:
        name = TOKENS if x == "tokens" else x
        steps, values = _knots(read.rows(name, with_times=False)[0])
        if not len(steps):
            raise NotFound(f"no series {name} to be the axis of a plot", hint="x='step'")
        first, last = (
            np.interp(at, steps, values, left=np.nan, right=np.nan)
            for at in (rows.first_step, rows.last_step)
        )
    known = np.flatnonzero(np.isfinite(first) & np.isfinite(last))
    order = known[np.argsort(first[known], kind="stable")]
    return rows.taken(order), first[order], last[order]


def _knots(rows: Buckets) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return steps and values between which the axis is drawn: the ends of buckets."""
    import numpy as np

    steps = np.stack([rows.first_step, rows.last_step], axis=1).ravel()
    values = np.stack([rows.first, rows.last], axis=1).ravel()
    finite = np.isfinite(values)
    return steps[finite], values[finite]


def _columns(
    rows: Buckets, first: NDArray[Any], last: NDArray[Any], width: int
) -> tuple[Buckets, NDArray[np.float64]]:
    """Return the columns, and the middle of each."""
    import numpy as np

    if not len(rows):
        return rows, first.astype(np.float64)
    low, high = first[0].item(), first[-1].item()
    if isinstance(low, int):  # exact, also where steps have more digits than a float
        edges = [low - (low - high) * at // width for at in range(1, width)]
    else:
        edges = [low + (high - low) * (at / width) for at in range(1, width)]
    starts = np.unique([0, *first.searchsorted(np.array(edges, first.dtype)).tolist()])
    ends = np.append(starts[1:], len(rows)) - 1
    return merged(rows, starts), first[starts] / 2 + last[ends] / 2
