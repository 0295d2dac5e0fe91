"""Means over seeds: runs of one experiment, variant and config count as one.

Invariant: of each seed the newest finished run with what it requires counts, if its value is
finite; the others are named. A difference of means has a half-width from the spreads of both sides
where both have three seeds, else from the noise of single runs where that is known, else none, and
then no outcome.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from expdb.index.reader import Reader
from expdb.model import Objective, RunAt
from expdb.query.measure import Z95
from expdb.query.noise import MIN_SEEDS, classify, noise_of
from expdb.query.rank import (
    Chosen,
    Mode,
    Reading,
    not_ranked_rows,
    nothing_ranked,
    ranked_by,
)
from expdb.query.results import Noise, RunRow
from expdb.query.runs import any_has_gates, baseline_row, names_of, run_rows, value_sql
from expdb.query.seed_results import MeanDelta, SeedGroup, SeedGroups
from expdb.query.student import variance, welch_half_width

Key = tuple[str, str, str]
"""Experiment, variant, digest."""

OLDEST_FIRST: Final = "r.created_at_ms, r.id"


def over_seeds(
    reader: Reader,
    metric: str | None = None,
    *,
    mode: Mode | None = None,
    reading: Reading | None = None,
    limit: int | None = None,
    head: RunAt | None = None,
    where: str = "",
    params: Sequence[Any] = (),
    newest_first: bool = False,
) -> SeedGroups:
    """Return the runs as groups over seeds, the best mean first.

    Args:
        reader: the index.
        metric: as `rank.ranking`, and so are mode, reading, head, where and params.
        limit: how many groups.
        newest_first: order groups by their newest run, and keep those without a value.

    Raises:
        NotFound: no metric is named and none declared, or no group has a value to rank by.
    """
    baseline = baseline_row(reader, head=head)
    by = ranked_by(reader, metric, baseline, mode, reading)
    objective = by.objective
    chosen = Chosen(where or "true", tuple(params))
    if not newest_first:
        chosen = chosen.and_(by.own)
    found = groups_of(reader, objective, chosen)
    not_ranked = not_ranked_rows(reader, objective, chosen, head)
    if not newest_first and not any(group.values for group in found):
        raise nothing_ranked(reader, objective, not_ranked, is_filtered=bool(where))
    base = None if baseline is None else _base_group(reader, objective, baseline, found)
    some = next((group for group in (base, *found) if group is not None and group.runs), None)
    noise = None if some is None else _noise(reader, objective, some, found)
    groups = [_with_delta(group, base, noise, objective) for group in found]
    if newest_first:
        groups.sort(key=lambda group: -group.newest_ms)
    else:
        groups = [group for group in groups if group.values]
        sign = 1 if objective.mode == "min" else -1
        groups.sort(key=lambda group: sign * (group.mean or 0.0))
    return SeedGroups(
        objective=objective,
        noise=noise,
        groups=tuple(_gated(reader, groups[:limit])),
        num_all=len(groups),
        baseline=baseline,
        not_ranked=tuple(not_ranked),
        warnings=by.warnings,
        base=base,
        ahead=None if base is not None else _ahead(groups, noise, objective),
    )


def _gated(reader: Reader, groups: Sequence[SeedGroup]) -> Sequence[SeedGroup]:
    if not any_has_gates(reader, [run for group in groups for run in group.runs]):
        return groups
    from expdb.query.gates import results_of_groups  # few runs have gates

    found = results_of_groups(reader, [group.runs for group in groups])
    return [replace(one, gates=gates) for one, gates in zip(groups, found, strict=True)]


@dataclass(slots=True, kw_only=True)
class _Gathered:
    """The runs of a group while they are read, the oldest first."""

    newest_ms: int = 0
    states: Counter[str] = field(default_factory=Counter)
    by_seed: dict[int | None, tuple[str, float | None]] = field(default_factory=dict)


def groups_of(reader: Reader, objective: Objective, chosen: Chosen) -> list[SeedGroup]:
    """Return the groups of the chosen runs, those with the oldest runs first."""
    value = value_sql(objective)[0]
    sql = (
        f"SELECT r.id, r.experiment, r.variant, r.digest, r.seed, r.state, r.created_at_ms,"
        f" len(r.lacks), {value}"
        " FROM runs r LEFT JOIN series s ON s.run = r.id AND s.key = ?"
        f" WHERE {chosen.sql} ORDER BY {OLDEST_FIRST}"
    )
    gathered: dict[Key, _Gathered] = {}
    for run, experiment, variant, digest, seed, state, created, lacking, found in reader.rows(
        sql, [objective.metric, *chosen.params]
    ):
        group = gathered.setdefault((experiment, variant, digest), _Gathered())
        group.newest_ms = created
        group.states[state] += 1
        if state == "finished" and not lacking:
            group.by_seed[seed] = run, found
    refs = names_of(reader)
    shared = Counter(key[:2] for key in gathered)
    return [_group(key, one, refs, shared[key[:2]] > 1) for key, one in gathered.items()]


def _group(
    key: Key, gathered: _Gathered, refs: Mapping[str, tuple[str, ...]], shares_name: bool
) -> SeedGroup:
    ordered = sorted(gathered.by_seed, key=lambda seed: (seed is None, seed or 0))
    counted = [
        (seed, run, value)
        for seed in ordered
        for run, value in [gathered.by_seed[seed]]
        if value is not None and math.isfinite(value)
    ]
    values = tuple(value for _, _, value in counted)
    return SeedGroup(
        experiment=key[0],
        variant=key[1],
        digest=key[2],
        runs=tuple(run for _, run, _ in counted),
        seeds=tuple(seed for seed, _, _ in counted),
        values=values,
        newest_ms=gathered.newest_ms,
        states=dict(gathered.states),
        mean=mean_of(values),
        sd=sd_of(values),
        refs=tuple(name for _, run, _ in counted for name in refs.get(run, ())),
        shares_name=shares_name,
    )


def mean_of(values: Sequence[float]) -> float | None:
    """Return the mean of the values, None of none."""
    return statistics.fmean(values) if values else None


def sd_of(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation, None of fewer than two values."""
    return math.sqrt(variance(values)) if len(values) > 1 else None


def key_of(of: SeedGroup | RunRow) -> Key:
    """Return what the runs of a group share."""
    return of.experiment, of.variant, of.digest


def _base_group(
    reader: Reader, objective: Objective, baseline: RunRow, found: Sequence[SeedGroup]
) -> SeedGroup | None:
    """Return the group of the baseline: as it was chosen, else all of it; None without a value."""
    chosen = next((group for group in found if key_of(group) == key_of(baseline)), None)
    if chosen is None or not chosen.values:
        same = Chosen("r.experiment = ? AND r.variant = ? AND r.digest = ?", key_of(baseline))
        chosen = next(iter(groups_of(reader, objective, same)), None)
    return chosen if chosen is not None and chosen.values else None


def _noise(
    reader: Reader, objective: Objective, base: SeedGroup, found: Sequence[SeedGroup]
) -> Noise | None:
    newest = max(found or [base], key=lambda group: group.newest_ms)
    ids = [base.runs[0], *newest.runs[-1:]]
    rows = run_rows(reader, where="r.id IN (SELECT unnest(?))", params=[ids])
    rows.sort(key=lambda row: row.id != base.runs[0])
    return noise_of(reader, rows[0], objective.metric, *rows[1:])


def _with_delta(
    group: SeedGroup, base: SeedGroup | None, noise: Noise | None, objective: Objective
) -> SeedGroup:
    if base is None or key_of(group) == key_of(base):
        return replace(group, is_baseline=base is not None)
    return replace(group, delta=mean_delta(base.values, group.values, noise, objective.mode))


def _ahead(
    groups: Sequence[SeedGroup], noise: Noise | None, objective: Objective
) -> MeanDelta | None:
    if len(groups) < 2:
        return None
    return mean_delta(groups[1].values, groups[0].values, noise, objective.mode)


def mean_delta(
    base: Sequence[float], values: Sequence[float], noise: Noise | None, mode: str | None
) -> MeanDelta | None:
    """Return how the mean of `values` differs from that of `base`; None where a side is empty.

    Args:
        base: one finite value a seed.
        values: the same of the other side.
        noise: the noise of single runs, used where a side has fewer than three seeds.
        mode: the direction that is better; None gives no outcome.
    """
    if not base or not values:
        return None
    delta = statistics.fmean(values) - statistics.fmean(base)
    half, how = None, ""
    if len(base) >= MIN_SEEDS and len(values) >= MIN_SEEDS:
        half, how = welch_half_width(base, values), "welch"
    elif noise is not None:
        half, how = Z95 * noise.sd * math.sqrt(1 / len(base) + 1 / len(values)), "noise"
    outcome = classify(delta, mode, half) if mode is not None else None
    return MeanDelta(value=delta, half_width=half, how=how, outcome=outcome)  # type: ignore[arg-type]
