"""Single values out of a run's points, for when the summaries of its series do not have them.

Invariant: points of the lowest rank stand for the run.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path

from expdb.index.reader import Reader
from expdb.model import Objective
from expdb.store.points import read_series

Curve = tuple[list[int], list[float]]
"""Steps that grow, and the value at each."""

NO_CURVE: Curve = ([], [])


class Points:
    """The points of one run; each key is read once, and only when it is asked for."""

    def __init__(self, reader: Reader, run: str, *, run_dir: Path | None = None) -> None:
        self._reader = reader
        self._run = run
        self._run_dir = run_dir
        self._curves: dict[str, Curve] = {}

    def of(self, key: str) -> Curve:
        """Return the curve of a key, empty when the run has none."""
        self.read([key])
        return self._curves[key]

    def read(self, keys: Iterable[str]) -> None:
        """Read several keys at once."""
        wanted = [key for key in keys if key not in self._curves]
        if not wanted:
            return
        folder = self._run_dir or self._reader.run_dir(self._run)
        table = read_series(folder, wanted, problems=[])
        found: dict[str, Curve] = {key: ([], []) for key in wanted}
        columns = (table[name].to_pylist() for name in ("key", "step", "value"))
        for key, step, value in zip(*columns, strict=True):
            steps, values = found[key]
            if not steps or steps[-1] != step:  # sorted by (step, rank): the lowest rank is first
                steps.append(step)
                values.append(value)
        self._curves.update(found)


def upto(curve: Curve, step: int) -> Sequence[float]:
    """Return the values of a curve up to and with `step`."""
    return curve[1][: bisect_right(curve[0], step)]


def read_at(curve: Curve, step: int, objective: Objective) -> float | None:
    """Return what the objective reads at `step`, as if the run had ended there.

    A `last` value needs a point at that very step; without one there is nothing to compare with.
    """
    at = bisect_right(curve[0], step)
    if at == 0 or (objective.reading == "last" and curve[0][at - 1] != step):
        return None
    values = curve[1][:at]
    if objective.reading == "last":
        return values[-1]
    if objective.reading == "mean_last_3":
        return sum(values[-3:]) / len(values[-3:])
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return math.nan
    return min(finite) if objective.mode == "min" else max(finite)
