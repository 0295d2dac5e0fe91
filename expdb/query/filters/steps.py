"""Metrics at one step: `val/loss.at(300)`. The index has no points, so they are read here.

Invariant: points are read only of runs that the rest of the filter could select, and only where the
summary of the series does not have the value. A run without a point at that very step has none.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from expdb import text
from expdb.index.reader import Reader
from expdb.query.filters.names import Metric
from expdb.query.filters.nodes import Op, Test
from expdb.query.filters.sql import Sql
from expdb.query.filters.values import typed
from expdb.query.points import Points

OPS: Final[Mapping[Op, Callable[[Any, Any], bool]]] = {
    "=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

Values = dict[Metric, dict[str, float]]
"""Metric at a step -> run -> value; runs without such a point are not there."""


def anything(test: Test, metric: Metric, want: bool) -> Sql:
    """Compile a test as if every run met it: the runs that the rest could select."""
    return Sql("true")


@dataclass(frozen=True, slots=True, kw_only=True)
class AtStep:
    """Compiles tests of metrics at a step from their values."""

    source: str
    values: Values

    def __call__(self, test: Test, metric: Metric, want: bool) -> Sql:
        """Return where a test is true, or with `want` off where it is false."""
        found = self.values.get(metric, {})
        if test.op == "missing":
            word = "NOT IN" if want else "IN"
            return Sql(f"r.id {word} (SELECT unnest(?))", (list(found),))
        if test.op == "nan":
            ids = [run for run, value in found.items() if math.isnan(value)]
            word = "IN" if want else "NOT IN"
            return Sql(f"r.id {word} (SELECT unnest(?))", (ids,))
        others, compare = typed(self.source, test, metric), OPS[test.op]
        ids = [
            run
            for run, value in found.items()
            if not math.isnan(value) and any(compare(value, other) for other in others) == want
        ]
        return Sql("r.id IN (SELECT unnest(?))", (ids,))


def values_at(reader: Reader, metrics: set[Metric], could: Sql, *, problems: list[str]) -> Values:
    """Return the metrics at their steps, of the runs that meet `could`; damage is named."""
    found: Values = {}
    points: dict[str, Points] = {}
    sql = (
        "SELECT f.run, f.last_step, f.last, f.min_step, f.min, f.max_step, f.max FROM series f"
        " WHERE f.key = ? AND ? BETWEEN f.first_step AND f.last_step"
        f" AND f.run IN (SELECT r.id FROM runs r WHERE {could.text})"
    )
    for metric in sorted(metrics, key=lambda one: (one.name, one.step or 0)):
        step, values = metric.step or 0, found.setdefault(metric, {})
        for run, *known in reader.rows(sql, [metric.name, step, *could.params]):
            value = dict(zip(known[::2], known[1::2], strict=True)).get(step)
            if value is None:
                points.setdefault(run, Points(reader, run))
                value = _read(points[run], metric.name, step)
            if value is not None:
                values[run] = value
    for run, read in points.items():
        problems += [f"{run}: {text.plain(problem)}" for problem in read.problems]
    return found


def _read(points: Points, key: str, step: int) -> float | None:
    curve = points.of(key)
    at = int(curve.steps.searchsorted(step))
    return float(curve.values[at]) if at < len(curve.steps) and curve.steps[at] == step else None
