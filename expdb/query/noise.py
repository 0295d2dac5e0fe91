"""How much two runs of the same config differ by chance.

Invariant: without a declared standard deviation, and without three seeds to measure one, there is
no band, and nothing is called better or worse.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from expdb.index.reader import Reader
from expdb.query.results import Noise, Outcome, RunRow, Spread

if TYPE_CHECKING:
    from expdb.model import Run

MIN_SEEDS: Final = 3


def noise_of(reader: Reader, run: Run | RunRow, metric: str, *others: Run | RunRow) -> Noise | None:
    """Return the noise of a metric between single runs; None when it is not known.

    A declaration in the settings of the newest run given counts first. Else it is the standard
    deviation over the newest finished run of each of three or more seeds of one config: that of
    `run`, else of the first of `others` that has so many.
    """
    runs = (run, *others)
    newest = max(runs, key=lambda item: (item.created_at_ms, item.id))
    declared = declared_noise(settings_of(reader, newest), metric)
    if declared is not None:
        return declared
    seen: set[tuple[str, str, str]] = set()
    for item in runs:
        key = (item.experiment, item.variant, item.digest)
        if key in seen:
            continue
        seen.add(key)
        measured = measured_noise(reader, item, metric)
        if measured is not None:
            return measured
    return None


def declared_noise(settings: Mapping[str, Any], metric: str) -> Noise | None:
    """Return the noise of a metric that the settings of a run declare; None where they do not."""
    declared = settings.get("noise")
    sd = declared.get(metric) if isinstance(declared, Mapping) else None
    if isinstance(sd, int | float) and not isinstance(sd, bool) and math.isfinite(sd) and sd >= 0:
        return Noise(metric=metric, sd=float(sd), source="declared")
    return None


def measured_noise(reader: Reader, run: Run | RunRow, metric: str) -> Noise | None:
    """Return the noise of a metric over the seeds of a run's config; None with fewer than three."""
    values = seed_values(reader, run, metric)
    if len(values) < MIN_SEEDS:
        return None
    sd = deviation(values)
    return Noise(metric=metric, sd=sd, source="measured", num_seeds=len(values))


def deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation of at least two values.

    That of the standard library is the same, and costs a new process 8 ms to load.
    """
    mean = math.fsum(value / len(values) for value in values)
    return math.hypot(*(value - mean for value in values)) / math.sqrt(len(values) - 1)


def settings_of(reader: Reader, run: Run | RunRow) -> Mapping[str, Any]:
    """Return the effective `expdb:` section that the run kept."""
    if not isinstance(run, RunRow):
        return run.settings
    found = reader.rows("SELECT settings FROM runs WHERE id = ?", [run.id])
    settings = json.loads(found[0][0]) if found else {}
    return settings if isinstance(settings, dict) else {}


def seed_values(reader: Reader, run: Run | RunRow, metric: str) -> Sequence[float]:
    """Return the metric of the newest finished run of each seed of the run's config, by seed.

    It is read as the run's objective reads it, when it is the objective; else its last value.
    """
    sql = """
        SELECT r.id, r.value, coalesce(r.objective = ?, false) FROM runs r
        WHERE r.state = 'finished' AND len(r.lacks) = 0 AND r.seed IS NOT NULL
            AND r.experiment = ? AND r.variant = ? AND r.digest = ?
        QUALIFY row_number() OVER (
            PARTITION BY r.seed ORDER BY r.created_at_ms DESC, r.id DESC
        ) = 1 ORDER BY r.seed
    """
    found = reader.rows(sql, [metric, run.experiment, run.variant, run.digest])
    others = [row[0] for row in found if not row[2]]
    last: dict[str, float] = {}
    if others:
        sql = "SELECT run, last FROM series WHERE key = ? AND run IN (SELECT unnest(?))"
        last = dict(reader.rows(sql, [metric, others]))
    values = (row[1] if row[2] else last.get(row[0]) for row in found)
    return [float(value) for value in values if value is not None and math.isfinite(value)]


def spread_of(reader: Reader, run: Run | RunRow, metric: str) -> Spread | None:
    """Return how far the seeds of a run's config lie apart; None without a finished one."""
    values = seed_values(reader, run, metric)
    if not values:
        return None
    import statistics  # it takes 8 ms to load, and few verbs need it

    sd = statistics.stdev(values) if len(values) > 1 else None
    return Spread(num_seeds=len(values), low=min(values), high=max(values), sd=sd)


def classify(delta: float, mode: str, band: float | None) -> Outcome:
    """Return how a value stands that differs by `delta` from the one it is measured against."""
    if band is None or not math.isfinite(delta):
        return Outcome.INCONCLUSIVE
    if abs(delta) <= band:
        return Outcome.NO_DIFFERENCE
    return Outcome.BETTER if (delta < 0) == (mode == "min") else Outcome.WORSE
