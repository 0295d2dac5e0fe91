"""The difference of each run of a list to the baseline, or to the baseline's run of its seed.

Invariant: an outcome needs two finished runs that have what they require and are read at their
ends; other seeds of the baseline differ from it by noise alone. A file is opened only where a
summary has not the value at the step that both have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from expdb import text
from expdb.index.reader import Reader
from expdb.model import Objective, RunState
from expdb.query.noise import classify
from expdb.query.points import Points, read_at
from expdb.query.results import Delta, Noise, Outcome, RunRow
from expdb.query.runs import run_rows

SAME_CONFIG: Final = """
    r.experiment = ? AND r.variant = ? AND r.digest = ? AND r.seed IN (SELECT unnest(?))
    AND r.tree IS NOT DISTINCT FROM (SELECT tree FROM runs WHERE id = ?)
"""
OLDEST_FIRST: Final = "r.created_at_ms, r.id"


def with_deltas(
    reader: Reader,
    rows: Iterable[RunRow],
    baseline: RunRow | None,
    noise: Noise | None,
    *,
    problems: list[str],
) -> list[RunRow]:
    """Return the rows with their difference to the baseline; damaged files go to `problems`.

    A run is measured against the newest finished run of the baseline's config with its own seed,
    where there is one. A finished run is measured at its end, with an outcome, where the other ends
    at that step too, or is what it was forked from and ends where it starts; all others at the last
    step that both have, without an outcome.
    """
    found = list(rows)
    if baseline is None or baseline.objective is None:
        return found
    deltas = _Deltas(reader, found, baseline, baseline.objective, noise, problems)
    found = [replace(row, delta=deltas.of(row)) for row in found]
    deltas.tell_problems()
    return found


class _Deltas:
    """What measures the rows of one list; the points of each base are read once."""

    def __init__(
        self,
        reader: Reader,
        rows: Sequence[RunRow],
        baseline: RunRow,
        objective: Objective,
        noise: Noise | None,
        problems: list[str],
    ) -> None:
        self._reader = reader
        self._baseline = baseline
        self._objective = objective
        self._band = noise.band if noise else None
        self._problems = problems
        self._bases: dict[str, tuple[RunRow, Points]] = {}
        kin = self._read_kin(rows)
        self._siblings = {row.id for row in kin}
        self._by_seed = {
            row.seed: row
            for row in kin
            if row.state is RunState.FINISHED
            and not row.lacks
            and _finite(row.value)
            and row.objective == objective
        }

    def _read_kin(self, rows: Sequence[RunRow]) -> list[RunRow]:
        """Return the runs of the baseline's config with other seeds that the rows have."""
        base = self._baseline
        seeds = {row.seed for row in rows} - {None, base.seed}
        if base.seed is None or not seeds:
            return []
        config = [base.experiment, base.variant, base.digest, sorted(map(str, seeds)), base.id]
        where = SAME_CONFIG.replace("r.seed", "r.seed::VARCHAR")
        return run_rows(
            self._reader, where=where, params=config, order=OLDEST_FIRST, objective=self._objective
        )

    def of(self, row: RunRow) -> Delta | None:
        """Return the difference of a row; None where there is nothing to measure."""
        if row.id == self._baseline.id or row.objective != self._objective:
            return None
        if not _finite(row.value):
            return None
        if row.id in self._siblings:
            found = self._against(row, self._baseline)
            if found is not None and found.outcome is not None:
                return replace(found, outcome=Outcome.NO_DIFFERENCE)
            return found
        same_seed = self._by_seed.get(row.seed)
        found = self._against(row, same_seed) if same_seed is not None else None
        if found is not None:
            return found
        found = self._against(row, self._baseline)
        if found is None or None in (row.seed, self._baseline.seed):
            return found
        other = self._baseline.seed if self._baseline.seed != row.seed else None
        return replace(found, other_seed=other)

    def _against(self, row: RunRow, base: RunRow) -> Delta | None:
        own, value, at_step = row.value, base.value, None
        if row.state is not RunState.FINISHED or not self._at_ends(row, base):
            if row.value_step is None or base.value_step is None:
                return None
            at_step = min(row.value_step, base.value_step)
            if row.value_step > at_step and self._objective.reading == "last":
                own = self._read_own(row, at_step)
            elif base.value_step != row.value_step or self._objective.reading != "last":
                at_step = row.value_step
                value = self._read_base(base, at_step)
            return _delta(own, value, base, at_step)
        found = _delta(own, value, base, None)
        if found is None:
            return None
        if row.lacks or base.lacks:
            return replace(found, outcome=Outcome.INCONCLUSIVE)
        return replace(found, outcome=classify(found.value, self._objective.mode, self._band))

    def _at_ends(self, row: RunRow, base: RunRow) -> bool:
        """Tell whether two finished runs are compared by what they have at their ends."""
        if row.value_step == base.value_step or self._objective.reading != "last":
            return True
        if row.fork is None or row.fork.run != base.id or base.state is not RunState.FINISHED:
            return False
        return (row.fork.step or 0) >= (base.value_step or 0)

    def _read_own(self, row: RunRow, step: int) -> float | None:
        """Return what a row's objective reads at a step before its end."""
        points = self._points_of(row)
        value = read_at(points.of(self._objective.metric), step, self._objective)
        name = f"{row.id} {text.plain(row.name)}"
        self._problems += [f"{name}: {item}" for item in points.problems]
        return value

    def _read_base(self, base: RunRow, step: int) -> float | None:
        """Return what the objective of a run that several are measured against reads at a step."""
        if base.id not in self._bases:
            self._bases[base.id] = base, self._points_of(base)
        curve = self._bases[base.id][1].of(self._objective.metric)
        return read_at(curve, step, self._objective)

    def _points_of(self, row: RunRow) -> Points:
        # The row knows its folder: a query for each of ten thousand runs costs more than its file.
        return Points(self._reader, row.id, run_dir=self._reader.store.root / row.path)

    def tell_problems(self) -> None:
        """Name the damaged files of the runs that others are measured against."""
        for base, points in self._bases.values():
            name = f"{base.id} {text.plain(base.name)}"
            if base.id == self._baseline.id:
                name = f"the baseline {text.plain(base.name)}"
            self._problems += [f"{name}: {item}" for item in points.problems]


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _delta(own: float | None, value: float | None, base: RunRow, step: int | None) -> Delta | None:
    if own is None or value is None or not math.isfinite(own - value):
        return None
    return Delta(value=own - value, outcome=None, at_step=step, against=base.id)
