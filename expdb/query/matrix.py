"""What is declared by experiment and seed, with means and how they stand to the baseline's.

Invariant: states and values are those of `status`; a mean is over runs that are up to date or
stale, and says no more than its seeds.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from expdb.index.reader import Reader
from expdb.model import Objective, RunAt
from expdb.query.matrix_results import Matrix, MatrixRow
from expdb.query.noise import noise_of
from expdb.query.results import Noise
from expdb.query.runs import baseline_row, default_objective
from expdb.query.seeds import mean_delta, mean_of, sd_of
from expdb.query.status_results import StatusRow, StoreStatus
from expdb.store.direction import natural_mode

COUNTED = ("up to date", "stale")
ASIDE = ("layer/", "sys/")
LESSER = ("_stderr", "/chance", "/n")
"""Metrics by the hundred, and such as nobody compares by."""


def matrix_of(
    reader: Reader, found: StoreStatus, *, head: RunAt | None, metric: str | None = None
) -> Matrix:
    """Return what a status says is declared, as a matrix of the objective or of another metric.

    A metric whose name speaks of no direction has differences, and no outcomes.
    """
    baseline = baseline_row(reader, head=head)
    objective = default_objective(reader, baseline)
    mode: str | None = objective.mode if objective is not None else None
    if metric is not None and (objective is None or objective.metric != metric):
        mode = natural_mode(metric)
        objective = Objective(metric=metric, mode=natural_mode(metric) or "min")
        found = replace(found, rows=_of_metric(reader, found.rows, objective))
    noise = None
    runs = [row.run for row in found.rows if row.run is not None]
    if objective is not None and runs:
        noise = noise_of(reader, baseline or runs[0], objective.metric, *runs[:1])
    declared = [row for row in found.rows if row.is_declared]
    seeds = sorted({row.seed for row in declared if not row.fault}, key=_seed_place)
    by_name: dict[tuple[str, str], list[StatusRow]] = defaultdict(list)
    for row in declared:
        by_name[row.experiment, row.variant].append(row)
    rows = [_row(name, by_name[name], seeds, objective) for name in sorted(by_name)]
    where = (baseline.experiment, baseline.variant) if baseline is not None else None
    base = next((row for row in rows if (row.experiment, row.variant) == where), None)
    measured = [_against(row, base, noise, mode) for row in rows]
    return Matrix(
        seeds=tuple(seeds),
        rows=tuple(measured),
        counts=dict(Counter(row.state for row in declared)),
        objective=objective,
        noise=noise,
        base=base.mean if base is not None else None,
        num_others=len(found.rows) - len(declared),
    )


def metrics_of(reader: Reader, found: StoreStatus, *, head: RunAt | None) -> tuple[str, ...]:
    """Return the metrics that a matrix can show: the objective, then those that most runs have."""
    runs = [row.run.id for row in found.rows if row.run is not None]
    sql = "SELECT key FROM series WHERE run IN (SELECT unnest(?)) GROUP BY key"
    rows = reader.rows(f"{sql} ORDER BY count(*) DESC, key", [runs])
    keys = [str(row[0]) for row in rows]
    shown = [key for key in keys if not (key.startswith(ASIDE) or key.endswith(LESSER))]
    objective = default_objective(reader, baseline_row(reader, head=head))
    first = [objective.metric] if objective is not None else []
    return tuple(dict.fromkeys([*first, *shown]))


def _of_metric(
    reader: Reader, rows: Sequence[StatusRow], objective: Objective
) -> tuple[StatusRow, ...]:
    """Return rows whose runs have the last value of a metric as theirs."""
    runs = [row.run.id for row in rows if row.run is not None]
    sql = "SELECT run, last FROM series WHERE key = ? AND run IN (SELECT unnest(?))"
    last = dict(reader.rows(sql, [objective.metric, runs]))
    return tuple(
        row
        if row.run is None
        else replace(row, run=replace(row.run, objective=objective, value=last.get(row.run.id)))
        for row in rows
    )


def _seed_place(seed: int | None) -> tuple[bool, int]:
    return seed is not None, seed or 0


def _row(
    name: tuple[str, str],
    found: Sequence[StatusRow],
    seeds: Sequence[int | None],
    objective: Objective | None,
) -> MatrixRow:
    by_seed = {row.seed: row for row in found if not row.fault}
    cells = tuple(by_seed.get(seed) for seed in seeds)
    values = tuple(
        (at, value)
        for at, cell in enumerate(cells)
        if cell is not None and (value := _value(cell, objective)) is not None
    )
    numbers = [value for _, value in values]
    return MatrixRow(
        experiment=name[0],
        variant=name[1],
        cells=cells,
        fault=next((row.fault for row in found if row.fault), ""),
        values=values,
        mean=mean_of(numbers),
        sd=sd_of(numbers),
    )


def _value(cell: StatusRow, objective: Objective | None) -> float | None:
    """Return the objective of a cell that counts."""
    run = cell.run
    if run is None or cell.state not in COUNTED or objective is None or run.objective is None:
        return None
    is_of = run.objective.metric == objective.metric
    return run.value if is_of and run.value is not None and math.isfinite(run.value) else None


def _against(
    row: MatrixRow, base: MatrixRow | None, noise: Noise | None, mode: str | None
) -> MatrixRow:
    if base is None:
        return row
    if row is base:
        return replace(row, is_baseline=True)
    left, right = ([value for _, value in one.values] for one in (base, row))
    return replace(row, delta=mean_delta(left, right, noise, mode))
