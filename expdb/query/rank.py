"""`rank`: finished runs by one metric, best first, and why the others are not among them.

Invariant: NaN, Inf, runs that have not finished and runs that lack a metric they require never win;
every run with the objective is either ranked or named with the reason. Ties stand in a fixed order,
the older first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from expdb import text
from expdb.errors import NotFound
from expdb.index.reader import Reader
from expdb.model import Objective, RunAt, RunState
from expdb.query.deltas import with_deltas
from expdb.query.noise import noise_of
from expdb.query.results import Noise, Ranking, RunRow
from expdb.query.runs import (
    COUNTS,
    baseline_row,
    default_objective,
    rows_in_order,
    run_rows,
    value_sql,
)
from expdb.store import candidates
from expdb.store.direction import natural_mode

Mode = Literal["min", "max"]
Reading = Literal["last", "best", "mean_last_3"]

MAX_EXTRA: Final = 3
MAX_SAMPLED: Final = 50
"""Further metrics are those of the first so many."""
STATE_ORDER: Final = (
    "failed", "crashed", "lost", "preempted", "running", "paused", "pending", "finished",
)  # fmt: skip


def ranking(
    reader: Reader,
    metric: str | None = None,
    *,
    mode: Mode | None = None,
    reading: Reading | None = None,
    limit: int | None = None,
    head: RunAt | None = None,
    where: str = "",
    params: Sequence[Any] = (),
    is_alone: bool = False,
) -> Ranking:
    """Rank the runs by `metric`, else by the objective of the baseline or the newest finished run.

    Args:
        reader: the index.
        metric: any metric; every run counts then, whatever its objective.
        mode: the direction; else the declared one, else what the name speaks of, else `min`.
        reading: `last`, `best` or `mean_last_3`; else the declared one, else `last`.
        limit: how many rows to return; the tie is counted over all.
        head: where this work tree came from.
        where: an SQL condition over `r`: which runs take part, besides the baseline.
        params: the values bound in `where`.
        is_alone: only the rows are wanted: what stands beside them is left empty.

    Raises:
        NotFound: no run has the metric, or none can be ranked.
    """
    baseline = baseline_row(reader, head=head)
    by = ranked_by(reader, metric, baseline, mode, reading)
    objective, warnings = by.objective, list(by.warnings)
    chosen = Chosen(where or "true", tuple(params)).and_(by.own)
    most = None if limit is None else limit if is_alone else max(limit, MAX_SAMPLED)
    ids = _order(reader, by, chosen, most)
    not_ranked: Sequence[tuple[RunRow, str]] = ()
    if not (ids and is_alone):
        not_ranked = not_ranked_rows(reader, objective, chosen, head, is_own=by.is_own)
    if not ids:
        raise nothing_ranked(reader, objective, not_ranked, is_filtered=bool(where))
    extra = () if is_alone else _extra_metrics(reader, objective, ids[:MAX_SAMPLED])
    shown = ids if limit is None else ids[:limit]
    rows = rows_in_order(
        reader, shown, head=head, objective=objective, is_own=by.is_own, metrics=extra
    )
    if baseline is not None and baseline.objective != objective:
        baseline = baseline_row(reader, head=head, objective=objective)
    newest = max(rows, key=lambda row: (row.created_at_ms, row.id), default=None)
    noise = _noise(reader, objective, baseline, newest)
    ends = {row.value_step for row in rows if row.value_step is not None}
    if len(ends) > 1 and objective.reading == "last":
        warnings.append(
            f"the runs end at different steps, {min(ends):,} to {max(ends):,}; each is ranked by"
            " its own last value"
        )
    apart: Sequence[RunRow] = ()
    if by.own is not None and not is_alone:
        others = Chosen(f"NOT coalesce({by.own.sql}, false)", by.own.params)
        others = others.and_(Chosen(where or "true", tuple(params)))
        apart = run_rows(reader, where=others.sql, params=others.params, head=head)
    return Ranking(
        objective=objective,
        noise=noise,
        rows=tuple(with_deltas(reader, rows, baseline, noise, problems=warnings)),
        num_tied=0 if is_alone else _num_tied(reader, by, chosen, rows[0], noise),
        num_all=len(ids) if most is None or len(ids) < most else _num_all(reader, by, chosen),
        not_ranked=tuple(not_ranked),
        apart=tuple(apart),
        baseline=baseline,
        extra_metrics=tuple(extra),
        warnings=tuple(warnings),
    )


@dataclass(frozen=True, slots=True)
class Chosen:
    """An SQL condition over `r`, and what is bound in it."""

    sql: str
    params: tuple[Any, ...] = ()

    def and_(self, other: Chosen | None) -> Chosen:
        """Return where both hold."""
        if other is None:
            return self
        return Chosen(f"({self.sql}) AND ({other.sql})", self.params + other.params)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedBy:
    """What runs are ranked by, and which take part."""

    objective: Objective
    own: Chosen | None
    """Where runs declare this objective; None when a metric was named, which every run may have."""
    is_own: bool = False
    """Whether those runs are read as they declare it, with no other direction or reading."""
    warnings: tuple[str, ...] = ()
    """What is doubtful about it."""


_SAME_OBJECTIVE: Final = "(r.objective = ? AND r.objective_mode = ? AND r.objective_reading = ?)"


def ranked_by(
    reader: Reader,
    metric: str | None,
    baseline: RunRow | None,
    mode: Mode | None = None,
    reading: Reading | None = None,
) -> RankedBy:
    """Return what runs are ranked by: `metric`, else the declared objective.

    Raises:
        NotFound: no metric is named, and none declared.
    """
    declared = default_objective(reader, baseline)
    objective, warnings = _objective(reader, metric, declared, mode, reading)
    own = None
    if metric is None and declared is not None:
        own = Chosen(_SAME_OBJECTIVE, (declared.metric, declared.mode, declared.reading))
    return RankedBy(
        objective=objective,
        own=own,
        is_own=own is not None and objective == declared,
        warnings=tuple(warnings),
    )


def _objective(
    reader: Reader,
    metric: str | None,
    declared: Objective | None,
    mode: Mode | None,
    reading: Reading | None,
) -> tuple[Objective, list[str]]:
    """Return what is ranked by, and what is doubtful about it."""
    warnings: list[str] = []
    if metric is None or (declared is not None and metric == declared.metric):
        if declared is None:
            raise _no_objective(reader)
        objective = replace(
            declared, mode=mode or declared.mode, reading=reading or declared.reading
        )
    else:
        natural = natural_mode(metric)
        if mode is None and natural is None:
            warnings.append(
                f"nothing says which way {text.plain(metric)} gets better; lower is taken as better"
            )
        objective = Objective(
            metric=metric, mode=mode or natural or "min", reading=reading or "last"
        )
    natural = natural_mode(objective.metric)
    if mode is not None and natural is not None and natural != mode:
        usual = "lower" if natural == "min" else "higher"
        asked = "highest" if mode == "max" else "lowest"
        warnings.append(
            f"{text.plain(objective.metric)} is ranked with the {asked} first; by its name"
            f" {usual} is better"
        )
    return objective, warnings


def _no_objective(reader: Reader) -> NotFound:
    if not reader.rows("SELECT 1 FROM runs LIMIT 1"):
        return NotFound(
            f"no runs yet in the store {reader.store.name}", hint="python train.py +exp=baseline"
        )
    return NotFound("no run has declared an objective", hint="name a metric: expdb rank val/loss")


def _order(reader: Reader, by: RankedBy, chosen: Chosen, limit: int | None) -> list[str]:
    """Return the ids of the runs that can win, best first."""
    value, source, bound = _values(by)
    direction = "ASC" if by.objective.mode == "min" else "DESC"
    sql = (
        f"SELECT r.id, {value} AS v FROM {source} WHERE {_CAN_WIN} AND {chosen.sql}"
        f" ORDER BY v {direction}, r.created_at_ms, r.id"
    )
    sql += f" LIMIT {int(limit)}" if limit is not None else ""
    return [row[0] for row in reader.rows(sql, [*bound, *chosen.params])]


def _num_all(reader: Reader, by: RankedBy, chosen: Chosen) -> int:
    """Return how many runs can win."""
    value, source, bound = _values(by)
    sql = (
        f"SELECT count(*) FROM (SELECT {value} AS v FROM {source}"
        f" WHERE {_CAN_WIN} AND {chosen.sql})"
    )
    return int(reader.rows(sql, [*bound, *chosen.params])[0][0])


_CAN_WIN: Final = f"{COUNTS} AND isfinite(v)"


def _values(by: RankedBy) -> tuple[str, str, list[str]]:
    """Return the SQL of the ranked value, the tables it is of, and what is bound in them."""
    if by.is_own:
        return "r.value", "runs r", []
    joined = "runs r JOIN series s ON s.run = r.id AND s.key = ?"
    return value_sql(by.objective)[0], joined, [by.objective.metric]


def not_ranked_rows(
    reader: Reader,
    objective: Objective,
    chosen: Chosen,
    head: RunAt | None,
    *,
    is_own: bool = False,
) -> list[tuple[RunRow, str]]:
    """Return the runs that cannot win and why: Inf first, then NaN, then by state, newest first."""
    value = "r.value" if is_own else value_sql(objective)[0]
    where = f"NOT coalesce({COUNTS} AND isfinite({value}), false) AND {chosen.sql}"
    rows = run_rows(
        reader, where=where, params=chosen.params, head=head, objective=objective, is_own=is_own
    )
    return sorted(
        ((row, reason_not_ranked(row)) for row in rows),
        key=lambda item: (_severity(item[0]), STATE_ORDER.index(item[0].state)),
    )


def reason_not_ranked(row: RunRow) -> str:
    """Return why a run cannot win, in few words: `NaN since step 5`, `crashed`, `lacks val/ppl`."""
    if row.value is not None and not math.isfinite(row.value):
        since = "" if row.nonfinite_step is None else f" since step {row.nonfinite_step}"
        if math.isnan(row.value):
            return f"NaN{since}"
        return f"{text.nonfinite(row.value)}{since}, not finite"
    if row.state is not RunState.FINISHED:
        return str(row.state)
    if row.lacks:
        return f"lacks {text.first_of(row.lacks)}"
    return f"no {text.plain(row.objective.metric)}" if row.objective else "no objective"


def _severity(row: RunRow) -> int:
    if row.value is None:
        return 3
    if math.isinf(row.value):
        return 0
    return 1 if math.isnan(row.value) else 2


def nothing_ranked(
    reader: Reader,
    objective: Objective,
    not_ranked: Sequence[tuple[RunRow, str]],
    *,
    is_filtered: bool,
) -> NotFound:
    """Return the error for a ranking without a winner."""
    metric = text.plain(objective.metric)
    if is_filtered and not not_ranked:
        return NotFound("no run is selected", hint="expdb ls")
    having = [row for row, _ in not_ranked if row.value is not None]
    if not having and not is_filtered:
        keys = dict(reader.rows("SELECT key, count(*) FROM series GROUP BY key"))
        near = candidates.close(objective.metric, keys)
        named = ", ".join(f"{text.plain(key)} ({_runs(keys[key])})" for key in near)
        hint = f"nearest: {named}" if named else "the metrics of a run: expdb show RUN"
        of_exp = "SELECT count(*) FROM runs WHERE experiment = ?"
        if reader.rows(of_exp, [objective.metric])[0][0]:
            hint = f"{metric} is an experiment: -w 'exp = {metric}'"
        return NotFound(f"no run has a metric {metric}", hint=hint)
    kinds: Counter[str] = Counter()
    for row, reason in not_ranked:
        if row.value is not None and not math.isfinite(row.value):
            kinds["NaN" if math.isnan(row.value) else "Inf"] += 1
        else:
            kinds[reason] += 1
    why = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    return NotFound(
        f"none of {_runs(len(not_ranked))} can be ranked by {metric}: {why}",
        hint="expdb ls --sort -age",
    )


def _runs(number: int) -> str:
    return f"{number:,} run{'' if number == 1 else 's'}"


def _extra_metrics(reader: Reader, objective: Objective, ids: Sequence[str]) -> list[str]:
    """Return the evals that most of the ranked runs have, by name."""
    sql = """
        SELECT key, count(*) AS n FROM series
        WHERE key LIKE 'eval/%' AND NOT key LIKE '%\\_stderr' ESCAPE '\\' AND key != ?
            AND run IN (SELECT unnest(?))
        GROUP BY key ORDER BY n DESC, key LIMIT ?
    """
    found = reader.rows(sql, [objective.metric, list(ids), MAX_EXTRA])
    return sorted(row[0] for row in found)


def _noise(
    reader: Reader, objective: Objective, baseline: RunRow | None, newest: RunRow | None
) -> Noise | None:
    runs = [row for row in (baseline, newest) if row is not None]
    return noise_of(reader, runs[0], objective.metric, *runs[1:]) if runs else None


def _num_tied(
    reader: Reader, by: RankedBy, chosen: Chosen, first: RunRow, noise: Noise | None
) -> int:
    """Return how many runs from the first cannot be told from it, itself included."""
    if noise is None:
        return 0
    value, source, bound = _values(by)
    sql = (
        f"SELECT count(*) FROM (SELECT {value} AS v FROM {source}"
        f" WHERE {_CAN_WIN} AND {chosen.sql}) WHERE abs(v - ?) <= ?"
    )
    return int(reader.rows(sql, [*bound, *chosen.params, first.value, noise.band])[0][0])
