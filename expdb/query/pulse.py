"""How a store lives: what trains, what failed lately, when a run last wrote, critical events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from expdb.index.reader import Reader
from expdb.store import attempts as attempt_files
from expdb.store.layout import RunLayout
from expdb.store.points import journals


@dataclass(frozen=True, slots=True)
class Alarm:
    """A critical event of a run."""

    run: str
    name: str
    rule: str
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """What one look at the store found."""

    num_all: int
    """Runs of the store."""
    is_live: frozenset[str]
    """Those that are running or paused."""
    failed: frozenset[str]
    """Those that failed or crashed since the moment asked for."""
    last_point_ms: int | None = None
    """When a live run last wrote, in UTC epoch milliseconds; None without a live one."""
    alarms: tuple[Alarm, ...] = ()
    """Critical events since the moment asked for that nobody has acknowledged, oldest first."""


def pulse_of(
    reader: Reader, *, failed_since_ms: int = 0, alarms_since_ms: int | None = None
) -> Pulse:
    """Return how the store lives; no alarms without a moment from which on they count."""
    sql = (
        "SELECT count(*), list(id) FILTER (state IN ('running', 'paused')),"
        " list(id) FILTER (state IN ('failed', 'crashed') AND coalesce(ended_at_ms, created_at_ms)"
        " >= ?) FROM runs"
    )
    [(num_all, live, failed)] = reader.rows(sql, [failed_since_ms])
    return Pulse(
        num_all=num_all,
        is_live=frozenset(live or ()),
        failed=frozenset(failed or ()),
        last_point_ms=_last_point_ms(reader, live or ()),
        alarms=_alarms(reader, alarms_since_ms),
    )


def _alarms(reader: Reader, since_ms: int | None) -> tuple[Alarm, ...]:
    if since_ms is None:
        return ()
    sql = (
        "SELECT e.run, r.name, e.rule, e.step FROM events e JOIN runs r ON r.id = e.run"
        " WHERE e.severity = 'critical' AND NOT e.acknowledged AND e.created_at_ms >= ?"
        " ORDER BY e.created_at_ms, e.run, e.rule"
    )
    return tuple(Alarm(*row) for row in reader.rows(sql, [since_ms]))


def _last_point_ms(reader: Reader, live: Sequence[str]) -> int | None:
    """Return when a journal of rank 0 of a live run was last written, by the store's clock."""
    newest = None
    for run in live:
        layout = RunLayout(reader.run_dir(run))
        paths = [
            path
            for number in attempt_files.numbers(layout)[-1:]
            for path in journals(layout, number).get(0, ())
        ]
        for path in paths:
            try:
                newest = max(newest or 0, path.stat().st_mtime_ns // 1_000_000)
            except FileNotFoundError:
                continue  # sealed meanwhile
    return newest
