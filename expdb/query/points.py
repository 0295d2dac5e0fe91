"""Single values out of a run's points, for when the summaries of its series do not have them.

Invariant: one point a step stands for the run (`store.points.standing`); a damaged file is left out
and named.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from expdb.index.reader import Reader
from expdb.model import Objective

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Curve(NamedTuple):
    """The points of one key, sorted by step; one value a step."""

    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    def num_upto(self, step: int) -> int:
        """Return how many points stand at or before `step`."""
        return int(self.steps.searchsorted(step, side="right"))

    def last_upto(self, step: int) -> tuple[float, int] | None:
        """Return (value, step) of the last point at or before `step`."""
        at = self.num_upto(step) - 1
        return None if at < 0 else (float(self.values[at]), int(self.steps[at]))


class Points:
    """The points of one run; each key is read once, and only when it is asked for."""

    def __init__(self, reader: Reader, run: str, *, run_dir: Path | None = None) -> None:
        self.problems: list[str] = []
        """The damaged files that were left out of what was read."""
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
        wanted = sorted({key for key in keys if key not in self._curves})
        if not wanted:
            return
        import numpy as np

        from expdb.store.points import read_series, standing

        folder = self._run_dir or self._reader.run_dir(self._run)
        problems: list[str] = []
        table = standing(read_series(folder, wanted, problems=problems))
        self.problems += [problem for problem in problems if problem not in self.problems]
        encoded = table["key"].combine_chunks().dictionary_encode()
        names = encoded.dictionary.to_pylist()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        steps, values = table["step"].to_numpy(), table["value"].to_numpy()
        for key in wanted:
            mask = codes == names.index(key) if key in names else np.zeros(len(steps), bool)
            self._curves[key] = Curve(steps[mask], values[mask])


def read_at(curve: Curve, step: int, objective: Objective) -> float | None:
    """Return what the objective reads at `step`, as if the run had ended there.

    A `last` value needs a point at that very step; without one there is nothing to compare with.
    """
    num = curve.num_upto(step)
    if num == 0 or (objective.reading == "last" and curve.steps[num - 1] != step):
        return None
    values = [float(value) for value in curve.values[:num]]
    if objective.reading == "last":
        return values[-1]
    if objective.reading == "mean_last_3":
        return sum(values[-3:]) / len(values[-3:])
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return math.nan
    return min(finite) if objective.mode == "min" else max(finite)
