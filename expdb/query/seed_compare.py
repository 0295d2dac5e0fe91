"""`compare --over seed`: metrics of groups of runs as means over their seeds.

Invariant: the first group is the one measured against; only the objective has an outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from expdb import text
from expdb.errors import BadInput, NotFound
from expdb.index.reader import Reader
from expdb.model import Objective, RunAt
from expdb.query.gates import group_results
from expdb.query.measure import FIRST_GROUPS, HIDDEN
from expdb.query.noise import classify, noise_of
from expdb.query.rank import Chosen, ranked_by
from expdb.query.results import Noise, Outcome, RunRow
from expdb.query.runs import run_rows
from expdb.query.seed_results import SeedComparison, SeedGroup, SeedMetric
from expdb.query.seeds import groups_of, key_of, mean_delta, mean_of, sd_of
from expdb.store import candidates
from expdb.store.direction import natural_mode


def compare_seeds(
    reader: Reader, runs: Sequence[str], *, metric: str | None = None, head: RunAt | None = None
) -> SeedComparison:
    """Compare the groups that these runs belong to with the group of the first.

    Raises:
        BadInput: the runs are all of one group, so there is nothing to compare.
        NotFound: no run has the metric.
    """
    where = "r.id IN (SELECT unnest(?))"
    rows = {row.id: row for row in run_rows(reader, where=where, params=[list(runs)], head=head)}
    ordered = [rows[run] for run in dict.fromkeys(runs) if run in rows]
    keys = list(dict.fromkeys(map(key_of, ordered)))
    if len(keys) < 2:
        raise BadInput(
            "over seeds these runs are one group: one experiment, variant and config",
            hint="expdb compare A B --over seed",
        )
    objective = _objective(reader, ordered, metric)
    used = objective or Objective(metric="")
    same = "r.experiment = ? AND r.variant = ? AND r.digest = ?"
    found = [group for key in keys for group in groups_of(reader, used, Chosen(same, key))]
    noise = noise_of(reader, ordered[0], used.metric, *ordered[1:]) if objective else None
    base, *others = found
    deltas = [mean_delta(base.values, one.values, noise, used.mode) for one in others]
    groups = [
        replace(base, is_baseline=True),
        *(replace(one, delta=delta) for one, delta in zip(others, deltas, strict=True)),
    ]
    return SeedComparison(
        groups=tuple(groups),
        objective=objective,
        noise=noise,
        metrics=_metrics(reader, groups, objective, noise),
        gates=group_results(reader, [group.runs for group in groups]),
    )


def _objective(reader: Reader, rows: Sequence[RunRow], metric: str | None) -> Objective | None:
    """Return what the groups are judged by: the named metric, else the first objective declared."""
    declared = [row.objective for row in rows if row.objective is not None]
    if metric is None:
        return declared[0] if declared else None
    for objective in declared:
        if objective.metric == metric:
            return objective
    sql = "SELECT DISTINCT key FROM series WHERE run IN (SELECT unnest(?))"
    keys = [row[0] for row in reader.rows(sql, [[row.id for row in rows]])]
    if metric not in keys:
        near = candidates.close(metric, keys)
        raise NotFound(
            f"none of these runs has a metric {text.plain(metric)}",
            hint=f"nearest: {', '.join(map(text.plain, near))}" if near else "expdb show RUN",
        )
    return ranked_by(reader, metric, None).objective


def _metrics(
    reader: Reader, groups: Sequence[SeedGroup], objective: Objective | None, noise: Noise | None
) -> tuple[SeedMetric, ...]:
    """Return the objective, then every other metric by its last value."""
    where = {run: at for at, group in enumerate(groups) for run in group.runs}
    hidden = " AND ".join(f"NOT starts_with(key, '{prefix}')" for prefix in HIDDEN)
    sql = (
        "SELECT key, run, last FROM series WHERE isfinite(last)"
        f" AND run IN (SELECT unnest(?)) AND {hidden}"
    )
    first = objective.metric if objective is not None else ""
    found: dict[str, list[dict[str, float]]] = {first: []} if first else {}
    for key, run, value in reader.rows(sql, [list(where)]):
        if key != first and not key.endswith("_stderr"):
            found.setdefault(key, [{} for _ in groups])[where[run]][run] = value
    out = []
    for key in sorted(found, key=lambda key: (key != first, _place(key), key)):
        if key == first:
            values = [group.values for group in groups]
        else:
            values = [
                tuple(one[run] for run in group.runs if run in one)
                for group, one in zip(groups, found[key], strict=True)
            ]
        own = objective if key == first else None
        out.append(_metric(key, values, own, noise if own else None))
    return tuple(out)


def _metric(
    key: str, values: Sequence[tuple[float, ...]], objective: Objective | None, noise: Noise | None
) -> SeedMetric:
    mode = objective.mode if objective is not None else None
    deltas = [mean_delta(values[0], one, noise, mode) for one in values[1:]]
    return SeedMetric(
        key=key,
        values=tuple(values),
        means=tuple(mean_of(one) for one in values),
        sds=tuple(sd_of(one) for one in values),
        deltas=(None, *deltas),
        is_objective=objective is not None,
    )


def _place(key: str) -> int:
    group = key.split("/", 1)[0]
    if group == "eval":
        return len(FIRST_GROUPS) + 1
    return FIRST_GROUPS.index(group) if group in FIRST_GROUPS else len(FIRST_GROUPS)


def eval_outcome(metric: SeedMetric, at: int) -> Outcome | None:
    """Return how a group's mean of an evaluation stands to the first group's.

    As with single runs, the direction is that of the name; None where that has none, or where no
    spread of seeds is known.
    """
    delta, mode = metric.deltas[at], natural_mode(metric.key)
    if delta is None or delta.half_width is None or mode is None:
        return None
    return classify(delta.value, mode, delta.half_width)
