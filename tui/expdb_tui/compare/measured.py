"""Metrics of a comparison in one shape, whether runs are compared or means over seeds.

Invariant: an outcome is one that the query gave; what has none is only known to lie beyond the
noise, or within it, where a half-width is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from expdb.query.compare_results import Comparison, MetricDiff
from expdb.query.measure import percent_of
from expdb.query.results import Outcome
from expdb.query.seed_compare import eval_outcome
from expdb.query.seed_results import SeedComparison, SeedMetric
from expdb_tui.plotting.forest import ASIDE

EVALS = "eval/"
QUIET = ("layer/", "sys/")
"""Metrics by the hundred that say little side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One metric; each tuple has a place for every run or group, the first one's is empty."""

    key: str
    values: tuple[float | None, ...]
    deltas: tuple[float | None, ...]
    halves: tuple[float | None, ...]
    """The 95 % half-width of each delta."""
    outcomes: tuple[Outcome | None, ...]
    percent: float | None
    """Of the second against the first."""
    is_objective: bool = False

    @property
    def is_equal(self) -> bool:
        """Whether all have the same value, or it is one of those that nobody compares by."""
        first = self.values[0]
        same = all(value == first for value in self.values[1:])
        return not self.is_objective and (same or self.key.startswith(QUIET))

    def is_within(self, at: int) -> bool | None:
        """Tell whether a delta is within the noise; None where no noise is known."""
        outcome, delta, half = self.outcomes[at], self.deltas[at], self.halves[at]
        if outcome in (Outcome.BETTER, Outcome.WORSE):
            return False
        if outcome is Outcome.NO_DIFFERENCE:
            return True
        return None if delta is None or half is None else abs(delta) <= half

    @property
    def is_beyond(self) -> bool:
        """Whether any run is beyond the noise."""
        return any(self.is_within(at) is False for at in range(1, len(self.values)))


def metrics_of(found: Comparison, seeds: SeedComparison | None) -> list[Measured]:
    """Return the metrics but evals: the objective, what is beyond the noise, the others."""
    if seeds is not None:
        all_of = [_of_seeds(one) for one in seeds.metrics if not _is_eval(one)]
    else:
        all_of = [_of_runs(one) for one in found.metrics]
    return sorted(all_of, key=lambda one: (not one.is_objective, not one.is_beyond))


def evals_of(found: Comparison, seeds: SeedComparison | None) -> list[Measured]:
    """Return the evals, by name."""
    if seeds is not None:
        return [_of_seeds(one) for one in seeds.metrics if _is_eval(one)]
    return [_of_runs(one) for one in found.evals if not one.key.endswith(ASIDE)]


def _is_eval(one: SeedMetric) -> bool:
    is_score = one.key.startswith(EVALS) and not one.key.endswith(ASIDE)
    return is_score and not one.is_objective


def _of_runs(one: MetricDiff) -> Measured:
    return Measured(
        key=one.key,
        values=one.values,
        deltas=one.deltas,
        halves=_padded(one.noise, len(one.values)),
        outcomes=one.outcomes,
        percent=one.deltas_pct[1],
        is_objective=one.is_objective,
    )


def _of_seeds(one: SeedMetric) -> Measured:
    deltas = tuple(None if delta is None else delta.value for delta in one.deltas)
    return Measured(
        key=one.key,
        values=one.means,
        deltas=deltas,
        halves=tuple(None if delta is None else delta.half_width for delta in one.deltas),
        outcomes=tuple(eval_outcome(one, at) for at in range(len(one.deltas)))
        if one.key.startswith(EVALS) and not one.is_objective
        else tuple(None if delta is None else delta.outcome for delta in one.deltas),
        percent=percent_of(one.key, one.means[0], deltas[1]),
        is_objective=one.is_objective,
    )


def _padded(values: Sequence[float | None], count: int) -> tuple[float | None, ...]:
    return (*values, *(None for _ in range(count - len(values))))
