"""`log --why`: which change moved a metric, by pairs of runs that differ in that change alone.

Invariant: an effect is given to a change only where a pair of sides differs in nothing else; where
several things changed at once and no pair separates them, nothing is given to any of them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from expdb import text
from expdb.errors import NotFound
from expdb.index.reader import Reader
from expdb.model import Objective, RunAt
from expdb.query.diffs import rules_in
from expdb.query.family import with_ancestors
from expdb.query.noise import classify, noise_of, settings_of
from expdb.query.rank import ranked_by
from expdb.query.results import Noise, Outcome, RunRow
from expdb.query.runs import baseline_row, run_rows
from expdb.query.seed_results import MeanDelta
from expdb.query.seeds import mean_delta
from expdb.query.why_groups import Group, changes_between, groups_of, unknown_of
from expdb.query.why_pairs import Sides, change_key, single_changes
from expdb.query.why_results import Cause, Change, Pair, Step, Why
from expdb.store import candidates

TRAINING_DATA = "train"


def why(reader: Reader, metric: str, *, run: str | None = None, head: RunAt | None = None) -> Why:
    """Return what moved a metric, on the way to `run` or in the whole store.

    Raises:
        NotFound: no run has the metric.
    """
    _require(reader, metric)
    by = ranked_by(reader, metric, baseline_row(reader, head=head))
    rows = _ends(reader, run)
    newest = max(rows, key=lambda row: (row.created_at_ms, row.id))
    ignore, seed_key = rules_in(settings_of(reader, newest))
    groups = groups_of(reader, by.objective, ignore=ignore, seed_key=seed_key)
    parents = dict(reader.rows("SELECT id, parent FROM runs"))
    of = {one: group for group in groups for one in group.runs}
    way = _way(run, parents, of) if run is not None else []
    baseline = baseline_row(reader, head=head) or rows[0]
    noise = noise_of(reader, baseline, by.objective.metric, newest)
    judge = _Judge(by.objective, noise)
    sides = single_changes(groups, first=way)
    edges = list(pairwise(way)) if run is not None else _edges(parents, of)
    steps = [judge.step(old, new, sides) for old, new in edges]
    steps = [step for step in steps if step.changes or step.unknown]
    wanted = [change for step in steps for change in step.changes]
    on_way = judge.causes(sides, wanted) if run is not None else judge.causes(sides)
    touched = [one for one in sides if one.old in way or one.new in way]
    named = {change_key(cause.change) for cause in on_way}
    beside = judge.causes(touched) if run is not None else []
    return Why(
        objective=by.objective,
        noise=noise,
        run=run,
        root=way[0].runs[0] if way else None,
        root_name=way[0].name if way else "",
        root_value=way[0].mean if way else None,
        steps=tuple(steps) if run is not None else tuple(s for s in steps if s.is_confounded),
        total=judge.delta(way[0], way[-1]) if len(way) > 1 else None,
        causes=tuple(on_way),
        beside=tuple(one for one in beside if change_key(one.change) not in named),
        warnings=(*by.warnings, *_unpinned(groups)),
    )


def _require(reader: Reader, metric: str) -> None:
    keys = [row[0] for row in reader.rows("SELECT DISTINCT key FROM series")]
    if metric not in keys:
        near = candidates.close(metric, keys)
        raise NotFound(
            f"no run has a metric {text.plain(metric)}",
            hint=f"nearest: {', '.join(map(text.plain, near))}" if near else "expdb ls",
        )


def _ends(reader: Reader, run: str | None) -> list[RunRow]:
    """Return the newest run of the store and the one asked about."""
    newest = "(SELECT id FROM runs ORDER BY created_at_ms DESC, id DESC LIMIT 1)"
    return run_rows(reader, where=f"r.id = {newest} OR r.id = ?", params=[run or ""])


def _unpinned(groups: Iterable[Group]) -> list[str]:
    number = sum(len(group.runs) for group in groups if group.tree is None)
    if not number:
        return []
    runs = "1 run" if number == 1 else f"{number:,} runs"
    return [f"the code of {runs} was not pinned: a change of it between them cannot be seen"]


def _way(run: str, parents: dict[str, str | None], of: dict[str, Group]) -> list[Group]:
    """Return the groups from the root to the run, each once in a row."""
    way: list[Group] = []
    for one in reversed(with_ancestors([run], parents)):
        if not way or of[one] is not way[-1]:
            way.append(of[one])
    return way


def _edges(parents: dict[str, str | None], of: dict[str, Group]) -> list[tuple[Group, Group]]:
    """Return every parent and child of the store that are not of one make, each pair once."""
    found: dict[tuple[int, int], tuple[Group, Group]] = {}
    for run, parent in parents.items():
        if parent is not None and parent in of and of[parent] is not of[run]:
            found[id(of[parent]), id(of[run])] = of[parent], of[run]
    return list(found.values())


class _Judge:
    """What turns two sides into a difference with its noise."""

    def __init__(self, objective: Objective, noise: Noise | None) -> None:
        self._objective = objective
        self._noise = noise

    def delta(self, old: Group, new: Group) -> MeanDelta | None:
        """Return the difference of the means, over the seeds that both have where they have any."""
        both = [seed for seed in old.found if seed in new.found and seed is not None]
        left, right = (
            [group.found[seed][1] for seed in (both or group.found)] for group in (old, new)
        )
        return mean_delta(left, right, self._noise, self._objective.mode)

    def step(self, old: Group, new: Group, sides: Sequence[Sides]) -> Step:
        """Return one step of a way."""
        changes = changes_between(old, new)
        unknown = unknown_of(old, new)
        left: tuple[Change, ...] = ()
        if len(changes) + len(unknown) > 1:
            left = tuple(one for one in changes if not self.causes(sides, [one])[0].pairs)
        delta = self.delta(old, new)
        if delta is not None and any(map(_spoils, changes)):
            delta = replace(delta, outcome=Outcome.INCONCLUSIVE)
        return Step(
            run=new.runs[0], name=new.name, parent=old.runs[0], value=new.mean,
            delta=delta, changes=changes, unknown=unknown, left=left,
        )  # fmt: skip

    def causes(self, sides: Sequence[Sides], wanted: Sequence[Change] | None = None) -> list[Cause]:
        """Return each change with its pairs, the largest effect first.

        Only those `wanted`, in their direction and even without a pair; else all that have one.
        """
        found: dict[Hashable, tuple[Change, list[Pair]]] = {}
        for change in wanted or ():
            found.setdefault(change_key(change), (change, []))
        taken: set[tuple[Hashable, int]] = set()
        for one in sides:
            key = change_key(one.change)
            if key not in found:
                if wanted is not None:
                    continue
                found[key] = one.change, []
            change, pairs = found[key]
            marks = {(key, id(one.old)), (key, id(one.new))}
            pair = self._pair(one, is_forward=repr(change.before) == repr(one.change.before))
            # Pairs that share a run are not independent, and say the same twice.
            if pair is not None and taken.isdisjoint(marks):
                taken |= marks
                pairs.append(pair)
        made = [self._cause(change, pairs) for change, pairs in found.values()]
        kept = made if wanted is not None else [cause for cause in made if cause.pairs]
        return sorted(kept, key=lambda c: -abs(c.effect.value) if c.effect else math.inf)

    def _pair(self, sides: Sides, *, is_forward: bool) -> Pair | None:
        old, new = (sides.old, sides.new) if is_forward else (sides.new, sides.old)
        delta = self.delta(old, new)
        if delta is None:
            return None
        both = [seed for seed in old.found if seed in new.found and seed is not None]
        before, after = (
            tuple(group.found[seed][0] for seed in (both or group.found)) for group in (old, new)
        )
        return Pair(before=before, after=after, delta=delta)

    def _cause(self, change: Change, pairs: Sequence[Pair]) -> Cause:
        if not pairs:
            return Cause(change=change, effect=None, pairs=())
        deltas = [pair.delta for pair in pairs]
        value = math.fsum(one.value for one in deltas) / len(deltas)
        halves = [one.half_width for one in deltas if one.half_width is not None]
        # The pairs of one change have no run in common, so their noise is independent.
        half = math.hypot(*halves) / len(halves) if len(halves) == len(deltas) else None
        low, high = (pick(deltas, key=lambda one: one.value) for pick in (min, max))
        disagree = half is not None and high.value - low.value > math.hypot(
            low.half_width or 0.0, high.half_width or 0.0
        )
        is_told = not (disagree or _spoils(change))
        outcome = classify(value, self._objective.mode, half) if is_told else Outcome.INCONCLUSIVE
        how = deltas[0].how if all(one.how == deltas[0].how for one in deltas) else ""
        effect = MeanDelta(value=value, half_width=half, how=how, outcome=outcome)
        return Cause(change=change, effect=effect, pairs=tuple(pairs), disagree=disagree)


def _spoils(change: Change) -> bool:
    """Tell whether a change makes the metric another one: it was measured on other data."""
    return change.kind == "data" and change.name != TRAINING_DATA
