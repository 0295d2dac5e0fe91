"""The metrics of several runs, read where they can be compared: at the last step that all have.

A fork has up to its start what its source had there. Where both have no later step in common, each
is read at its own end.

Invariant: values come from the summaries where all runs are read at their ends; only otherwise are
points read, and then only of the keys that are shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from expdb.index.reader import Reader
from expdb.model import Eval, Objective, Run, RunState
from expdb.query.compare_results import MetricDiff
from expdb.query.noise import classify
from expdb.query.points import Points, read_at
from expdb.query.results import Outcome
from expdb.store.direction import natural_mode

Z95: Final = 1.959963984540054
FIRST_GROUPS: Final = ("val", "train")
SHARES: Final = ("acc", "accuracy", "f1", "em", "precision", "recall", "auc")
HIDDEN: Final = ("layer/",)
"""Metrics by the thousand; two runs are not compared by them."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value and the step it was read at."""

    value: float
    step: int


class Measure:
    """The metrics of some runs at their last common step, or at one that is asked for."""

    def __init__(
        self,
        reader: Reader,
        runs: Sequence[Run],
        objective: Objective | None,
        *,
        step: int | None = None,
    ) -> None:
        self.runs = runs
        self.objective = objective
        root = reader.store.root
        self._points = [Points(reader, run.id, run_dir=root / run.path) for run in runs]
        self.step, self.at_end = self._last_common() if step is None else (step, False)
        self.ends: tuple[int, ...] = ()
        """The last step of each run, where each is read there for want of a step in common."""
        if step is None and self._is_inherited():
            self.ends = tuple(run.series[self._metric].last_step for run in runs)
            self.step, self.at_end = None, True

    @property
    def _metric(self) -> str:
        return self.objective.metric if self.objective else ""

    def _is_inherited(self) -> bool:
        """Tell whether all that the runs have in common is what a fork has from its source."""
        if self.at_end or any(
            run.state is not RunState.FINISHED or self._metric not in run.series
            for run in self.runs
        ):
            return False
        ids = {run.id for run in self.runs}
        starts = [run.fork.step or 0 for run in self.runs if run.fork and run.fork.run in ids]
        return bool(starts) and (self.step is None or self.step <= max(starts))

    def problems(self) -> list[list[str]]:
        """Return for each run the damaged files that were left out so far."""
        return [points.problems for points in self._points]

    def _last_common(self) -> tuple[int | None, bool]:
        """Return the step to read at, and whether all runs end there."""
        metric = self._metric
        found = [run.series[metric] for run in self.runs if metric in run.series]
        if len(found) < len(self.runs):
            lasts = {run.last_step for run in self.runs if run.last_step is not None}
            return (min(lasts), len(lasts) == 1) if lasts else (None, True)
        if len({item.last_step for item in found}) == 1:
            return found[0].last_step, True
        steps = [set(points.of(metric).steps.tolist()) for points in self._points]
        common = set.intersection(*steps)
        return (max(common), False) if common else (None, False)

    def of_objective(self, at: int) -> float | None:
        """Return the objective of a run, as it reads at the common step."""
        if self.objective is None or (self.step is None and not self.ends):
            return None
        series = self.runs[at].series.get(self.objective.metric)
        if series is None:
            return None
        if self.at_end or self.step is None:
            return series.read(self.objective)[0]
        curve = self._points[at].of(self.objective.metric)
        return read_at(curve, self.step, self.objective)

    def of(self, at: int, key: str) -> Value | None:
        """Return the last value of a metric of a run, at or before the step that it is read at."""
        series = self.runs[at].series.get(key)
        if series is None or (self.step is None and not self.ends):
            return None
        if self.at_end or self.step is None or series.last_step <= self.step:
            return Value(series.last, series.last_step)
        found = self._points[at].of(key).last_upto(self.step)
        return None if found is None else Value(*found)

    def prefetch(self, keys: Sequence[str]) -> None:
        """Read in one go the points that `of` will need."""
        if self.at_end or self.step is None:
            return
        for run, points in zip(self.runs, self._points, strict=True):
            late = (key for key in keys if key in run.series)
            points.read(key for key in late if run.series[key].last_step > (self.step or 0))

    def keys(self) -> list[str]:
        """Return the metrics of any run, the objective first; evals apart."""
        found = {key for run in self.runs for key in run.series}
        first = self.objective.metric if self.objective else ""
        return sorted(
            (key for key in found if key == first or not key.startswith(("eval/", *HIDDEN))),
            key=lambda key: (key != first, _group(key), key),
        )

    def eval_keys(self) -> list[str]:
        """Return the evals of any run but their standard errors, sorted."""
        found = {key for run in self.runs for key in run.series if key.startswith("eval/")}
        for run in self.runs:
            found |= {f"eval/{item.task}/{metric}" for item in run.evals for metric in item.metrics}
        first = self.objective.metric if self.objective else ""
        return sorted(key for key in found if key != first and not key.endswith("_stderr"))


def _group(key: str) -> int:
    group = key.split("/", 1)[0]
    return FIRST_GROUPS.index(group) if group in FIRST_GROUPS else len(FIRST_GROUPS)


def metric_diffs(
    measure: Measure, *, outcomes: Sequence[Outcome | None], band: float | None
) -> tuple[MetricDiff, ...]:
    """Return every metric of the runs; the objective has the outcomes given."""
    keys = measure.keys()
    measure.prefetch(keys)
    found = []
    for key in keys:
        if measure.objective is not None and key == measure.objective.metric:
            values = tuple(measure.of_objective(at) for at in range(len(measure.runs)))
            found.append(
                _diff(
                    key,
                    values,
                    measure.step,
                    mode=measure.objective.mode,
                    outcomes=tuple(outcomes),
                    noise=(None, *(band for _ in outcomes[1:])),
                    is_objective=True,
                )
            )
            continue
        read = [measure.of(at, key) for at in range(len(measure.runs))]
        found.append(_diff(key, _values(read), _step(read)))
    return tuple(found)


def _values(read: Sequence[Value | None]) -> tuple[float | None, ...]:
    return tuple(None if item is None else item.value for item in read)


def _step(read: Sequence[Value | None]) -> int | None:
    steps = {item.step for item in read if item is not None}
    return steps.pop() if len(steps) == 1 else None


def _diff(
    key: str,
    values: tuple[float | None, ...],
    step: int | None,
    *,
    mode: str | None = None,
    outcomes: tuple[Outcome | None, ...] = (),
    noise: tuple[float | None, ...] = (),
    is_objective: bool = False,
    n: int | None = None,
    noise_how: str = "",
) -> MetricDiff:
    deltas = tuple([None, *(delta_of(values[0], value) for value in values[1:])])
    better = [None if d is None or mode is None else (d < 0) == (mode == "min") for d in deltas]
    return MetricDiff(
        key=key,
        values=values,
        deltas=deltas,
        deltas_pct=tuple(percent_of(key, values[0], delta) for delta in deltas),
        better=tuple(
            b and d != 0 if b is not None else None for b, d in zip(better, deltas, strict=True)
        ),
        outcomes=outcomes or tuple(None for _ in values),
        step=step,
        is_objective=is_objective,
        noise=noise,
        n=n,
        noise_how=noise_how,
    )


def delta_of(base: float | None, value: float | None) -> float | None:
    """Return the difference of two finite values."""
    if base is None or value is None or not math.isfinite(base) or not math.isfinite(value):
        return None
    return value - base


def percent_of(key: str, base: float | None, delta: float | None) -> float | None:
    """Return a delta in percent of the base; None for a base of 0 and for shares and evals."""
    if delta is None or not base or key.startswith("eval/"):
        return None
    return None if key.rsplit("/", 1)[-1] in SHARES else 100.0 * delta / abs(base)


def eval_diffs(measure: Measure) -> tuple[MetricDiff, ...]:
    """Return the evals of the runs; with an outcome where the items are known to be the same.

    The half-width of a difference of two shares p and q over the same n items is
    1.96 sqrt(m (1 - m) / n) with m their mean: the paired half-width when answers to one item
    correlate by 0.5. Which items were answered right is not kept, so they cannot be paired exactly.
    """
    keys = measure.eval_keys()
    measure.prefetch(keys)
    return tuple(_eval_diff(measure, key) for key in keys)


def _eval_diff(measure: Measure, key: str) -> MetricDiff:
    read: list[Value | None] = []
    evals: list[Eval | None] = []
    for at, run in enumerate(measure.runs):
        value = measure.of(at, key)
        one = _eval_of(run, key, measure.step if value is None else value.step)
        if value is None and one is not None:
            value = Value(one.metrics[key.split("/", 2)[2]], one.step)
        read.append(value)
        evals.append(one)
    values = _values(read)
    mode = natural_mode(key)
    bands = [
        None,
        *(_band(values[0], evals[0], *pair) for pair in zip(values[1:], evals[1:], strict=True)),
    ]
    outcomes: list[Outcome | None] = [None]
    for found, band in zip(values[1:], bands[1:], strict=True):
        delta = delta_of(values[0], found)
        known = delta is not None and band is not None and mode is not None
        outcomes.append(classify(delta or 0.0, mode or "max", band) if known else None)
    counts = {one.n for one in evals if one is not None}
    return _diff(
        key,
        values,
        _step(read),
        mode=mode,
        outcomes=tuple(outcomes),
        noise=tuple(bands),
        n=counts.pop() if len(counts) == 1 else None,
        noise_how="n items, correlation 0.5 assumed" if any(bands) else "",
    )


def _eval_of(run: Run, key: str, step: int | None) -> Eval | None:
    """Return the newest evaluation that the value of `key` at `step` comes from."""
    found = [
        item
        for item in run.evals
        if key.startswith(f"eval/{item.task}/")
        and key[len(f"eval/{item.task}/") :] in item.metrics
        and (step is None or item.step == step)
    ]
    return max(found, key=lambda item: (item.step, item.created_at_ms), default=None)


def _band(
    base: float | None, first: Eval | None, value: float | None, other: Eval | None
) -> float | None:
    if base is None or value is None or first is None or other is None:
        return None
    same = first.items_digest and first.items_digest == other.items_digest and first.n == other.n
    if not same or not first.n or not (0 <= base <= 1 and 0 <= value <= 1):
        return None
    mean = (base + value) / 2
    return Z95 * math.sqrt(mean * (1 - mean) / first.n)
