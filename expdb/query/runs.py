"""Runs as lists show them: rows, and the baseline they are measured against.

Invariant: no Parquet is opened for a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from expdb.index.reader import Reader
from expdb.model import Objective, RunAt, RunState
from expdb.query.results import RunRow

if TYPE_CHECKING:
    pass

NEWEST_FIRST = "r.created_at_ms DESC, r.id DESC"
OWN_FIRST = "r.host IS NULL"
"""A run that was imported ran on no known host."""
FIELDS = (
    "r.id, r.experiment, r.variant, r.seed, r.state, r.reason, r.created_at_ms, r.ended_at_ms,"
    ' r.last_step, r.max_steps, r.parent, r.digest, r."commit", r.dirty, r.labels, r.path, r.bytes,'
    " r.objective, r.objective_mode, r.objective_reading, r.fork, r.fork_step,"
    " r.lacks"
)
COUNTS = "r.state = 'finished' AND len(r.lacks) = 0"
"""Which runs count: finished ones with every metric that they require."""
OWN_VALUE = "r.value, r.value_step, r.nonfinite_step"


def run_rows(
    reader: Reader,
    *,
    where: str = "",
    params: Sequence[Any] = (),
    order: str = NEWEST_FIRST,
    limit: int | None = None,
    head: RunAt | None = None,
    objective: Objective | None = None,
    is_own: bool = False,
    metrics: Sequence[str] = (),
) -> list[RunRow]:
    """Return runs, newest first unless ordered otherwise, without deltas.

    Args:
        reader: the index.
        where: an SQL condition over `r` (runs), and `s` (the series of `objective`).
        params: the values bound in `where`.
        order: an SQL order over the same.
        limit: how many rows; None for all.
        head: where this work tree came from; None follows the ref `baseline`.
        objective: read this metric of every run, instead of the run's own objective.
        is_own: all of the runs declare `objective`, so that it reads as their own; no `s` then.
        metrics: further metrics whose last values are wanted.
    """
    value, join, bound = OWN_VALUE, "", list[Any]()
    if objective is not None and not is_own:
        value = ", ".join((*value_sql(objective), "s.nonfinite_step"))
        join = " LEFT JOIN series s ON s.run = r.id AND s.key = ?"
        bound = [objective.metric]
    sql = f"SELECT {FIELDS}, {value} FROM runs r{join}"
    sql += f" WHERE {where}" if where else ""
    sql += f" ORDER BY {order}"
    sql += f" LIMIT {int(limit)}" if limit is not None else ""
    found = reader.rows(sql, [*bound, *params])
    names = names_of(reader)
    here = head_run(reader, head)
    further = _metrics(reader, [row[0] for row in found], metrics)
    return [
        _row(row, names.get(row[0], ()), row[0] == here, further.get(row[0], {}), objective)
        for row in found
    ]


def value_sql(objective: Objective) -> tuple[str, str]:
    """Return the SQL of value and step of a series `s` as the objective reads it."""
    if objective.reading == "best":
        which = "min" if objective.mode == "min" else "max"
        value = f"CASE WHEN s.key IS NOT NULL THEN coalesce(s.{which}, 'NaN'::DOUBLE) END"
        return value, f"coalesce(s.{which}_step, s.last_step)"
    return ("s.mean_last_3" if objective.reading == "mean_last_3" else "s.last"), "s.last_step"


def _row(
    row: tuple[Any, ...],
    refs: tuple[str, ...],
    is_head: bool,
    metrics: Mapping[str, float],
    objective: Objective | None,
) -> RunRow:
    own = None
    if objective is None and row[17] is not None:
        own = Objective(metric=row[17], mode=row[18], reading=row[19])
    return RunRow(
        id=row[0],
        experiment=row[1],
        variant=row[2],
        seed=row[3],
        state=RunState(row[4]),
        reason=row[5],
        created_at_ms=row[6],
        ended_at_ms=row[7],
        last_step=row[8],
        max_steps=row[9],
        parent=row[10],
        digest=row[11],
        commit=row[12],
        dirty=row[13],
        objective=objective or own,
        lacks=tuple(row[22]),
        value=row[23],
        value_step=row[24],
        nonfinite_step=row[25],
        refs=refs,
        labels=tuple(row[14]),
        is_head=is_head,
        path=row[15],
        bytes=row[16],
        metrics=metrics,
        fork=RunAt(run=row[20], step=row[21]) if row[20] is not None else None,
    )


def names_of(reader: Reader) -> dict[str, tuple[str, ...]]:
    """Return run -> the refs and tags that name it, refs first."""
    found: dict[str, list[str]] = {}
    for ref in sorted(reader.refs.values(), key=lambda ref: (ref.kind != "ref", ref.name)):
        found.setdefault(ref.run, []).append(ref.name)
    return {run: tuple(names) for run, names in found.items()}


def head_run(reader: Reader, head: RunAt | None) -> str | None:
    """Return the run that HEAD is at; it follows the ref `baseline` until a rollback sets it."""
    if head is not None:
        return head.run
    ref = reader.refs.get("baseline")
    return ref.run if ref is not None else None


def _metrics(
    reader: Reader, ids: Sequence[str], metrics: Sequence[str]
) -> dict[str, dict[str, float]]:
    if not ids or not metrics:
        return {}
    sql = (
        "SELECT run, key, last FROM series WHERE key IN (SELECT unnest(?))"
        " AND run IN (SELECT unnest(?))"
    )
    found: dict[str, dict[str, float]] = {}
    for run, key, value in reader.rows(sql, [list(metrics), list(ids)]):
        found.setdefault(run, {})[key] = value
    return found


def baseline_row(
    reader: Reader, *, head: RunAt | None = None, objective: Objective | None = None
) -> RunRow | None:
    """Return what runs are measured against: the ref `baseline`, else the newest baseline run.

    Without the ref only a run counts that has what it requires.
    """
    ref = reader.refs.get("baseline")
    if ref is not None:
        found = run_rows(reader, where="r.id = ?", params=[ref.run], head=head, objective=objective)
        if found:
            return found[0]
    where = f"r.experiment = 'baseline' AND {COUNTS}"
    order = f"(r.variant = '') DESC, {NEWEST_FIRST}"
    found = run_rows(reader, where=where, order=order, limit=1, head=head, objective=objective)
    return found[0] if found else None


def default_objective(reader: Reader, baseline: RunRow | None) -> Objective | None:
    """Return the objective of the baseline, else of the newest finished run, else of the newest.

    A run that was imported says by what others measure: those made here go before it.
    """
    if baseline is not None and baseline.objective is not None:
        return baseline.objective
    found = reader.rows(
        "SELECT r.objective, r.objective_mode, r.objective_reading FROM runs r"
        f" WHERE r.objective IS NOT NULL ORDER BY r.state = 'finished' DESC, {OWN_FIRST},"
        f" {NEWEST_FIRST} LIMIT 1"
    )
    return Objective(metric=found[0][0], mode=found[0][1], reading=found[0][2]) if found else None


def rows_in_order(
    reader: Reader,
    ids: Sequence[str],
    *,
    head: RunAt | None = None,
    objective: Objective | None = None,
    is_own: bool = False,
    metrics: Sequence[str] = (),
) -> list[RunRow]:
    """Return the runs of these ids in their order; the rest as `run_rows`."""
    found = run_rows(
        reader,
        where="r.id IN (SELECT unnest(?))",
        params=[list(ids)],
        head=head,
        objective=objective,
        is_own=is_own,
        metrics=metrics,
    )
    place = {run: at for at, run in enumerate(ids)}
    return sorted(found, key=lambda row: place[row.id])


def any_has_gates(reader: Reader, runs: Sequence[str]) -> bool:
    """Tell whether one of some runs declares a gate; what reads gates is loaded only then."""
    sql = """
        SELECT 1 FROM runs
        WHERE id IN (SELECT unnest(?)) AND settings LIKE '%"gates": {"%' LIMIT 1
    """
    return bool(runs) and bool(reader.rows(sql, [list(runs)]))
