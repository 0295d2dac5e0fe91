"""The effect of a run against its parent: measured against the same seeds where those exist.

Invariant: an outcome needs finished runs with finite values of one objective and with what they
require, the same data and a known noise band; a run that has not finished is measured at its last
step, without an outcome.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from expdb.index.reader import Reader
from expdb.model import Objective, RunState
from expdb.query.noise import classify, noise_of
from expdb.query.points import Points, read_at
from expdb.query.results import Delta, Noise, Outcome, RunRow

KIN: Final = """
    SELECT id, value, experiment, variant, digest, tree, objective, objective_mode,
        objective_reading, seed
    FROM runs WHERE state = 'finished' AND len(lacks) = 0 AND isfinite(value)
        AND seed IS NOT NULL AND experiment IN (SELECT unnest(?))
    ORDER BY created_at_ms, id
"""


class Effect(NamedTuple):
    """A difference to the parent, and the runs that it is measured against."""

    delta: Delta | None = None
    against: tuple[str, ...] = ()


class _Kin(NamedTuple):
    """A finished run with a finite value."""

    run: str
    value: float


class Effects:
    """What measures the runs of one history; each file is read once."""

    def __init__(
        self,
        reader: Reader,
        rows: Sequence[RunRow],
        trees: Mapping[str, str | None],
        baseline: RunRow | None,
    ) -> None:
        self._reader = reader
        self._trees = trees
        self._baseline = baseline
        self._newest = max(rows, key=lambda row: (row.created_at_ms, row.id), default=None)
        self._noise: dict[str, Noise | None] = {}
        self._points: dict[str, Points] = {}
        parents = {row.parent for row in rows}
        self._kin = self._read_kin({row.experiment for row in rows if row.id in parents})

    def _read_kin(self, experiments: Iterable[str]) -> dict[Hashable, _Kin]:
        rows = self._reader.rows(KIN, [sorted(experiments)])
        return {tuple(config): _Kin(run, value) for run, value, *config in rows}

    def problems(self) -> list[str]:
        """Return the damaged files that were left out, with the run that they belong to."""
        length = self._reader.id_length
        return [
            f"{run[:length]}: {problem}"
            for run, points in self._points.items()
            for problem in points.problems
        ]

    def noise(self, metric: str) -> Noise | None:
        """Return the noise of a metric between single runs of this history."""
        if self._newest is None:
            return None
        if metric not in self._noise:
            run = self._baseline or self._newest
            self._noise[metric] = noise_of(self._reader, run, metric, self._newest)
        return self._noise[metric]

    def of(self, rows: Sequence[RunRow], parent: RunRow, *, same_data: bool) -> Effect:
        """Return the effect against the parent's config.

        Args:
            rows: finished runs that differ in the seed alone, or one run of any kind.
            parent: the parent of the first.
            same_data: whether the metrics were measured on the same data.
        """
        objective = rows[0].objective
        values = [row.value for row in rows if row.value is not None and math.isfinite(row.value)]
        if objective is None or parent.objective != objective or len(values) < len(rows):
            return Effect()
        others = self._same_seeds(rows, parent)
        if rows[0].state is not RunState.FINISHED:
            return self._at_last_step(rows[0], [*(kin.run for kin in others), parent.id], objective)
        others = others or self._alone(parent)
        if not others:
            return Effect()
        delta = sum(values) / len(values) - sum(kin.value for kin in others) / len(others)
        outcome = Outcome.INCONCLUSIVE
        if same_data and not any(row.lacks for row in (*rows, parent)):
            band = self._band(objective.metric, len(values), len(others))
            outcome = classify(delta, objective.mode, band)
        return Effect(Delta(value=delta, outcome=outcome), tuple(kin.run for kin in others))

    def _same_seeds(self, rows: Sequence[RunRow], parent: RunRow) -> list[_Kin]:
        """Return the run of the parent's config for each seed; none where one of them is missing.

        A seed of the parent's own config has no other counterpart than the parent.
        """
        config = self._config(parent)
        if self._config(rows[0]) == config:
            return []
        found = []
        for row in rows:
            if row.seed == parent.seed:
                found += self._alone(parent)
            elif (kin := self._kin.get((*config, row.seed))) is not None:
                found.append(kin)
        return found if len(found) == len(rows) else []

    def _config(self, row: RunRow) -> tuple[Hashable, ...]:
        """Return what the runs of one config have in common, in the columns of `KIN`."""
        objective = row.objective
        judged = (objective.metric, objective.mode, objective.reading) if objective else (None,) * 3
        return (row.experiment, row.variant, row.digest, self._trees.get(row.id), *judged)

    def _alone(self, parent: RunRow) -> list[_Kin]:
        value = parent.value
        if parent.state is not RunState.FINISHED or value is None or not math.isfinite(value):
            return []
        return [_Kin(parent.id, value)]

    def _band(self, metric: str, num_left: int, num_right: int) -> float | None:
        """Return the 95 % half-width of the difference of two means over seeds."""
        noise = self.noise(metric)
        return None if noise is None else noise.band * math.sqrt((1 / num_left + 1 / num_right) / 2)

    def _at_last_step(self, row: RunRow, others: Sequence[str], objective: Objective) -> Effect:
        """Return the difference at the run's last step to the first that has a value there."""
        if row.value is None or row.value_step is None:
            return Effect()
        for run in dict.fromkeys(others):
            if run not in self._points:
                self._points[run] = Points(self._reader, run)
            value = read_at(self._points[run].of(objective.metric), row.value_step, objective)
            if value is not None and math.isfinite(value):
                delta = Delta(value=row.value - value, outcome=None, at_step=row.value_step)
                return Effect(delta, (run,))
        return Effect()
