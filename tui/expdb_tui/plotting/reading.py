"""Series of runs as the lines of a plot; called in worker threads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from expdb.errors import ExpdbError
from expdb.index.reader import Reader
from expdb.query.curve import PlotCurve, curve
from expdb_tui.plotting.plot import Line

MOST_GAPS = 200
AXES = ("step", "tokens", "time")


def line_of_run(
    reader: Reader,
    run: str,
    key: str,
    *,
    columns: int,
    place: int,
    x: str = "step",
    since: int | None = None,
    until: int | None = None,
    is_reference: bool = False,
) -> Line | None:
    """Return a series as a line of at most `columns` points; None where the run has none.

    With `x="time"` the axis is seconds since the first point.

    Raises:
        NotFound: the run, or the series that `x` names, is not there.
    """
    found = curve(reader.run_dir(run), key, width=max(2, columns), x=x, since=since, until=until)
    return _line(found, x, place, is_reference) if len(found.x) else None


def _line(found: PlotCurve, x: str, place: int, is_reference: bool) -> Line:
    at = found.x
    if x == "time":
        at = (at - at[0]) / 1000.0
    bad = at[found.nonfinite > 0]
    return Line(
        x=at,
        low=found.lo,
        high=found.hi,
        mid=found.mid,
        place=place,
        num_points=found.num_points,
        end=float(found.last_step[-1]) if x == "step" else None,
        steps=None if x == "step" else found.first_step / 2 + found.last_step / 2,
        num_nonfinite=int(found.nonfinite.sum()),
        gap_x=tuple(float(value) for value in bad[:MOST_GAPS]),
        is_reference=is_reference,
    )


def with_borders(line: Line, attempts: Sequence[tuple[int, int]]) -> Line:
    """Return a line that knows where attempts begin; `attempts` are (number, first step)."""
    found = tuple((line.at_step(step), f"a{number}") for number, step in attempts)
    return replace(line, borders=found)


def try_line(
    reader: Reader, run: str, key: str, *, columns: int, place: int, x: str = "step",
    since: int | None = None, until: int | None = None, is_reference: bool = False,
) -> Line | None:  # fmt: skip
    """Return a line as `line_of_run` does; None where it cannot be read."""
    try:
        return line_of_run(
            reader, run, key, columns=columns, place=place, x=x, since=since, until=until,
            is_reference=is_reference,
        )  # fmt: skip
    except (ExpdbError, OSError):
        return None


def values_of_run(reader: Reader, run: str, key: str, columns: int) -> NDArray[np.float64] | None:
    """Return the means of a series in at most `columns` columns; None where it cannot be read."""
    try:
        found = curve(reader.run_dir(run), key, width=columns)
    except (ExpdbError, OSError):
        return None
    return found.mid if len(found.x) else None
