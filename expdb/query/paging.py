"""A list of any number of runs, of which pages are read: what a screen shows, and no more.

Invariant: the order is made once, of ids alone; a page is what `listing` would show of those runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from expdb.errors import ExpdbError
from expdb.index.reader import Reader
from expdb.model import RunAt
from expdb.query.deltas import with_deltas
from expdb.query.noise import noise_of
from expdb.query.pulse import Pulse, pulse_of
from expdb.query.results import Noise, RunRow
from expdb.query.runs import (
    NEWEST_FIRST,
    baseline_row,
    default_objective,
    names_of,
    rows_in_order,
)
from expdb.store.folders import Version

RATE: Final = "train/tokens_per_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder(Pulse):
    """Which runs a list has, in order, and what their pages are measured against."""

    ids: tuple[str, ...]
    baseline: RunRow | None
    metric: str | None
    mode: str | None
    noise: Noise | None
    warnings: tuple[str, ...] = ()
    versions: Mapping[str, Version] = field(default_factory=dict)
    """Run -> the version of its folder: another one says that the run has changed."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Run -> the refs and tags on it."""

    def changed_since(self, before: RunOrder) -> set[str]:
        """Return the runs of which a page that was read after `before` may not hold any more."""
        if self.baseline != before.baseline or self.noise != before.noise:
            return set(self.ids)
        changed = {
            run
            for run in self.names.keys() | before.names.keys()
            if self.names.get(run) != before.names.get(run)
        }
        old = before.versions
        changed |= {run for run, version in self.versions.items() if old.get(run) != version}
        return changed | self.is_live | before.is_live


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRow:
    """One run of a page."""

    row: RunRow
    num_events: int
    """Warnings and critical events that nobody has acknowledged."""
    is_critical: bool
    tokens_per_s: float | None
    started_at_ms: int | None
    """When its latest attempt began, and from which step."""
    started_step: int


def order_of(
    reader: Reader,
    *,
    head: RunAt | None,
    where: str = "",
    params: Sequence[Any] = (),
    sort: str | None = None,
    failed_since_ms: int = 0,
    alarms_since_ms: int | None = None,
) -> RunOrder:
    """Return the order of the runs that a condition over `r` (runs) selects, newest first.

    Raises:
        BadInput, NotFound: a name in `sort` that the store does not have.
    """
    baseline = baseline_row(reader, head=head)
    objective = default_objective(reader, baseline)
    metric = objective.metric if objective is not None else None
    if sort is None:
        condition = f" WHERE {where}" if where else ""
        sql = f"SELECT r.id FROM runs r{condition} ORDER BY {NEWEST_FIRST}"
        ids = [row[0] for row in reader.rows(sql, params)]
    else:
        from expdb.query.columns import ordered_ids, sort_of

        by = sort_of(reader, sort, metric)
        ids = ordered_ids(reader, by, where, params, metric=metric, limit=None)
    pulse = pulse_of(reader, failed_since_ms=failed_since_ms, alarms_since_ms=alarms_since_ms)
    noise = None
    if objective is not None and baseline is not None:
        noise = noise_of(reader, baseline, objective.metric)
    return RunOrder(
        ids=tuple(ids),
        num_all=pulse.num_all,
        baseline=baseline,
        metric=metric,
        mode=objective.mode if objective is not None else None,
        noise=noise,
        is_live=pulse.is_live,
        failed=pulse.failed,
        last_point_ms=pulse.last_point_ms,
        alarms=pulse.alarms,
        warnings=reader.warnings,
        versions=reader.versions,
        names=names_of(reader),
    )


def page_of(
    reader: Reader,
    order: RunOrder,
    ids: Sequence[str],
    *,
    head: RunAt | None,
    extra: Sequence[str] = (),
) -> list[PageRow]:
    """Return the runs of a page, measured as `ls` measures them; those that are gone are left
    out. `extra` are further metrics, config keys and fields; what the store does not have is empty.
    """
    known = {
        row[0]
        for row in reader.rows("SELECT id FROM runs WHERE id IN (SELECT unnest(?))", [list(ids)])
    }
    ids = [run for run in ids if run in known]
    rows = rows_in_order(reader, ids, head=head, metrics=(RATE,))
    noise = order.noise
    if noise is None and order.metric is not None and rows:
        newest = max(rows, key=lambda row: (row.created_at_ms, row.id))
        noise = noise_of(reader, order.baseline or newest, order.metric, newest)
    problems: list[str] = []
    if extra:
        found = _extra(reader, order, ids, extra, problems)
        rows = [replace(row, extra=found[row.id]) for row in rows]
    rows = with_deltas(reader, rows, order.baseline, noise, problems=problems)
    events = _events(reader, ids)
    begun = _begun(reader, ids)
    return [
        PageRow(
            row=row,
            num_events=events.get(row.id, (0, False))[0],
            is_critical=events.get(row.id, (0, False))[1],
            tokens_per_s=row.metrics.get(RATE),
            started_at_ms=begun.get(row.id, (None, 0))[0],
            started_step=begun.get(row.id, (None, 0))[1],
        )
        for row in rows
    ]


def _extra(
    reader: Reader, order: RunOrder, ids: Sequence[str], names: Sequence[str], problems: list[str]
) -> dict[str, dict[str, Any]]:
    """Return run -> name -> value."""
    from expdb.query.columns import cells_of, columns_of
    from expdb.query.filters.suggest import quoted

    out: dict[str, dict[str, Any]] = {run: {} for run in ids}
    for name in names:
        try:
            columns = columns_of(reader, [f"+{quoted(name)}"], order.metric)
        except ExpdbError:
            continue  # no run has it any more
        for run, values in cells_of(reader, columns, ids, problems=problems).items():
            out[run] |= dict.fromkeys([name], next(iter(values.values()))) if values else {}
    return out


def _events(reader: Reader, ids: Sequence[str]) -> dict[str, tuple[int, bool]]:
    sql = (
        "SELECT run, count(*), bool_or(severity = 'critical') FROM events"
        " WHERE severity IN ('warn', 'critical') AND NOT acknowledged"
        " AND run IN (SELECT unnest(?)) GROUP BY run"
    )
    return {run: (count, critical) for run, count, critical in reader.rows(sql, [list(ids)])}


def _begun(reader: Reader, ids: Sequence[str]) -> dict[str, tuple[int | None, int]]:
    sql = (
        "SELECT run, arg_max(started_at_ms, number), arg_max(coalesce(resumed_from, 0), number)"
        " FROM attempts WHERE run IN (SELECT unnest(?)) GROUP BY run"
    )
    return {run: (started, step) for run, started, step in reader.rows(sql, [list(ids)])}
