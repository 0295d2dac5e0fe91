"""What a RUN (`store.runword`) names: one run, and a step of it where one was asked for.

A word is looked for in an order: keywords (`HEAD`, `best`), refs and tags, experiments (then an
experiment with its overrides), full ids, id prefixes of 4 and more characters.

Invariant: nothing here reads a file; whatever the text, only an ExpdbError is raised, and ambiguity
exists only inside one class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from expdb import text
from expdb.errors import BadInput, NotFound
from expdb.model import Objective, Ref, RunAt, RunState
from expdb.store import candidates
from expdb.store.candidates import MIN_PREFIX as MIN_PREFIX
from expdb.store.candidates import Place, finished, newest_of, say
from expdb.store.candidates import ResolveRow as ResolveRow
from expdb.store.direction import natural_mode
from expdb.store.runword import SELECTORS, STEP, Expr, parse

MetricValues = Callable[[str], Mapping[str, float]]
"""Metric name -> its last value in each run that has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The run that a word names."""

    run: str
    step: int | None
    said: str
    """`baseline = k3f9x2m7qd (ref baseline: exp baseline, seed 0)`."""
    is_literal: bool
    """The word is an id or the prefix of one: there is nothing to say."""
    is_open: bool = False
    """The word is a bare experiment, so that another seed of it may be taken."""


def resolve(
    word: str,
    rows: Sequence[ResolveRow],
    refs: Mapping[str, Ref],
    *,
    head: RunAt | None = None,
    metric_values: MetricValues | None = None,
    best_checkpoint: Callable[[ResolveRow], int | None] | None = None,
) -> Resolved:
    """Return the one run that `word` names.

    Args:
        word: a RUN.
        rows: all runs, in any order.
        refs: refs and tags by name.
        head: where this work tree came from.
        metric_values: asked for `best:METRIC` of a metric that is not the objective.
        best_checkpoint: asked for `@best` of a run whose best step has no checkpoint.

    Raises:
        NotFound: nothing is called so, or it has no such seed, parent, older run or checkpoint.
        Ambiguous: several candidates of one class.
        BadInput: the text is no RUN, or names several runs by `:all`.
    """
    search = _Search(rows, refs, head, metric_values)
    expr = search.parsed(word)
    if "all" not in expr.selectors:
        return search.resolved(word, expr, search.walk(expr), best_checkpoint)
    found = search.all(word, expr)
    if len(found) > 1:
        raise BadInput(
            f"{text.plain(word)} names {len(found)} runs; one is needed",
            hint=f"one of them: {found[0].run}",
        )
    return found[0]


def resolve_all(
    word: str,
    rows: Sequence[ResolveRow],
    refs: Mapping[str, Ref],
    *,
    head: RunAt | None = None,
    metric_values: MetricValues | None = None,
) -> tuple[Resolved, ...]:
    """Return every run that `word` names, newest first: several for `:all`, else one.

    Raises:
        NotFound, Ambiguous, BadInput: as `resolve`.
    """
    search = _Search(rows, refs, head, metric_values)
    expr = search.parsed(word)
    if "all" in expr.selectors:
        return search.all(word, expr)
    return (search.resolved(word, expr, search.walk(expr), None),)


class _Search:
    """The runs and names that one word is looked up in."""

    def __init__(
        self,
        rows: Sequence[ResolveRow],
        refs: Mapping[str, Ref],
        head: RunAt | None,
        metric_values: MetricValues | None,
    ) -> None:
        self.rows = rows
        self.refs = refs
        self.head = head
        self.metric_values = metric_values
        self.by_id = {row.id: row for row in rows}

    def parsed(self, said: str) -> Expr:
        """Parse; a name that holds colons itself is taken as it is."""
        rest, at, step = said.rpartition("@")
        known = {
            *self.refs,
            *(row.experiment for row in self.rows),
            *(row.name for row in self.rows),
        }
        if said in known:
            return Expr(word=said)
        if at and rest in known and STEP.fullmatch(step):
            return Expr(word=rest, step=step)
        return parse(said)

    def all(self, word: str, expr: Expr) -> tuple[Resolved, ...]:
        """Every run of the pool that stands before `:all`, newest first."""
        if expr.selectors.index("all") != len(expr.selectors) - 1 or expr.step:
            raise BadInput(
                f"nothing can follow `all` in {text.plain(word)}",
                hint=f"all runs: {text.plain(expr.word)}:all",
            )
        place = self.walk(expr._replace(selectors=expr.selectors[:-1]))
        ordered = sorted(place.pool, key=lambda row: row.age_key, reverse=True)
        places = (Place(row=row, pool=place.pool) for row in ordered)
        return tuple(self.resolved(word, expr, one, None) for one in places)

    def walk(self, expr: Expr) -> Place:
        """Find the word, then follow the selectors."""
        place = self.place(expr)
        for selector in expr.selectors:
            place = self.select(place, selector, expr.word)
        return place

    def place(self, expr: Expr) -> Place:
        """Find the word in the order of classes."""
        word = expr.word
        if word == "HEAD":
            return self.at_head()
        if word == "best":
            pool = tuple(self.rows)
            row = self.best(pool, expr.metric, "the store")
            return Place(row=row, pool=self.named(row), how=f"best {expr.metric or _metric(row)}")
        if (ref := self.refs.get(word)) is not None:
            return self.at(RunAt(run=ref.run, step=ref.step), f"{ref.kind} {word}")
        return self.at_experiment(word) or self.at_id(word) or self.missing(expr)

    def at_head(self) -> Place:
        """HEAD, which follows `baseline` until a rollback sets it."""
        if self.head is not None:
            return self.at(self.head, "HEAD")
        if (ref := self.refs.get("baseline")) is not None:
            return self.at(RunAt(run=ref.run, step=ref.step), "HEAD follows ref baseline")
        pool = tuple(
            row
            for row in self.rows
            if row.experiment == "baseline" and not row.variant and row.state is RunState.FINISHED
        )
        if not pool:
            raise NotFound(
                "HEAD is nowhere yet: nothing was rolled back and there is no baseline",
                hint="python train.py +exp=baseline",
            )
        row = max(pool, key=lambda row: row.age_key)
        return Place(row=row, pool=self.named(row), how="HEAD follows exp baseline")

    def at(self, target: RunAt, how: str) -> Place:
        """The run that a ref or HEAD names."""
        row = self.by_id.get(target.run)
        if row is None:
            raise NotFound(
                f"{text.plain(how)} names run {text.plain(target.run)}, which is not in the store",
                hint="expdb ls",
            )
        return Place(row=row, pool=self.named(row), step=target.step, how=how)

    def at_experiment(self, word: str) -> Place | None:
        """An experiment without overrides, its only variant, or a name with its overrides."""
        pool = tuple(row for row in self.rows if row.experiment == word)
        if pool:
            bare = tuple(row for row in pool if not row.variant)
            variants = {row.name for row in pool}
            if not bare and len(variants) > 1 and (done := finished(pool)):
                # A variant that never came to its end is nobody's word for the experiment.
                variants = {row.name for row in done}
                pool = tuple(row for row in pool if row.name in variants)
            if not bare and len(variants) > 1:
                candidates.too_many_variants(word, pool, text.id_length(self.by_id))
            return self.newest(bare or pool)
        pool = tuple(row for row in self.rows if row.name == word)
        if not pool and "+" in word:
            wanted = sorted(word.split("+"))
            pool = tuple(
                row for row in self.rows if row.variant and sorted(row.name.split("+")) == wanted
            )
        return self.newest(pool) if pool else None

    def newest(self, pool: tuple[ResolveRow, ...]) -> Place:
        """The newest finished run of the pool, else its newest run."""
        return Place(row=newest_of(pool), pool=pool, is_experiment=True)

    def at_id(self, word: str) -> Place | None:
        """A full id, or a prefix of one."""
        found = [self.by_id[word]] if word in self.by_id else []
        if not found and len(word) >= MIN_PREFIX:
            found = [row for row in self.rows if row.id.startswith(word)]
        if len(found) > 1:
            candidates.too_short(word, found)
        return Place(row=found[0], pool=self.named(found[0]), is_id=True) if found else None

    def named(self, row: ResolveRow) -> tuple[ResolveRow, ...]:
        """All runs of the same experiment and variant."""
        return tuple(
            other
            for other in self.rows
            if other.experiment == row.experiment and other.variant == row.variant
        )

    def select(self, place: Place, selector: str, word: str) -> Place:
        """Follow one selector."""
        said = text.plain(word)
        if selector == "parent":
            return self.parent_of(place)
        if selector == "best" or selector.startswith("best:"):
            row = self.best(place.pool, selector[5:] or None, said)
            return Place(row=row, pool=place.pool)
        if selector.startswith("s"):
            return self.seed_of(place, int(selector[1:]), said)
        older = finished(place.pool) or place.pool
        older = tuple(row for row in older if row.age_key < place.row.age_key)
        back = 1 if selector == "prev" else int(selector[1:])
        if len(older) < back:
            raise NotFound(
                f"{said} ({self.short(place.row)}) has {_count(len(older), 'older run')}",
                hint=f"the newest: {said}",
            )
        ordered = sorted(older, key=lambda row: row.age_key, reverse=True)
        return Place(row=ordered[back - 1], pool=place.pool)

    def seed_of(self, place: Place, seed: int, said: str) -> Place:
        """The newest run with that seed."""
        pool = tuple(row for row in place.pool if row.seed == seed)
        if not pool:
            seeds = sorted({row.seed for row in place.pool if row.seed is not None})
            has = f"it has {', '.join(map(str, seeds))}" if seeds else "its runs have no seed"
            raise NotFound(f"{said} has no run with seed {seed}; {has}", hint="expdb ls")
        return Place(row=newest_of(pool), pool=pool)

    def parent_of(self, place: Place) -> Place:
        """The recorded parent of the run."""
        row = place.row
        if row.parent is None:
            raise NotFound(
                f"{text.plain(row.name)} ({self.short(row)}) has no parent",
                hint=f"expdb show {row.id}",
            )
        parent = self.by_id.get(row.parent)
        if parent is None:
            label = f"{text.plain(row.name)} ({self.short(row)})"
            raise NotFound(
                f"the parent {text.plain(row.parent)} of {label} is not in the store",
                hint="expdb ls",
            )
        return Place(row=parent, pool=self.named(parent))

    def best(self, pool: Sequence[ResolveRow], metric: str | None, said: str) -> ResolveRow:
        """The best finished run of the pool that has what it requires; ties go to the older."""
        objective = self.objective_of(pool)
        mode = objective.mode if objective else "min"
        if metric is None or (objective is not None and metric == objective.metric):
            values = {
                row.id: row.value
                for row in pool
                if row.objective == objective and row.value is not None
            }
        else:
            mode = natural_mode(metric) or "min"
            values = dict(self.metric_values(metric)) if self.metric_values else {}
        ranked = [
            row
            for row in finished(pool)
            if row.does_count and math.isfinite(values.get(row.id, math.nan))
        ]
        if not ranked:
            wanted = metric or (objective.metric if objective else "objective")
            raise NotFound(
                f"no finished run of {said} has a finite {text.plain(wanted)}", hint="expdb ls"
            )
        sign = 1.0 if mode == "min" else -1.0
        return min(ranked, key=lambda row: (sign * values[row.id], row.age_key))

    def objective_of(self, pool: Sequence[ResolveRow]) -> Objective | None:
        """The objective of the baseline if the pool has it, else of the newest finished run."""
        ref = self.refs.get("baseline")
        baseline = self.by_id.get(ref.run) if ref else None
        if baseline is not None and baseline.objective and baseline in pool:
            return baseline.objective
        declared = [row for row in pool if row.objective is not None]
        return newest_of(declared).objective if declared else None

    def resolved(
        self,
        word: str,
        expr: Expr,
        place: Place,
        best_checkpoint: Callable[[ResolveRow], int | None] | None,
    ) -> Resolved:
        """Say what the word became."""
        row = place.row
        step = place.step if expr.step is None else self.step_of(row, expr, best_checkpoint)
        is_open = place.is_experiment and not expr.selectors and expr.step is None
        return Resolved(
            run=row.id,
            step=step,
            said=say(word, row, step, how=place.how),
            is_literal=place.is_id,
            is_open=is_open,
        )

    def step_of(
        self,
        row: ResolveRow,
        expr: Expr,
        best_checkpoint: Callable[[ResolveRow], int | None] | None,
    ) -> int:
        """The checkpoint that the step names."""
        label = f"{text.plain(row.name)} ({self.short(row)})"
        has = ", ".join(str(step) for step in sorted(row.checkpoints))
        if not row.checkpoints:
            raise NotFound(f"{label} has no checkpoint", hint=f"expdb show {row.id}")
        if expr.step == "last":
            return max(row.checkpoints)
        if expr.step == "best":
            step = row.best_step if row.best_step in row.checkpoints else None
            if step is None and best_checkpoint is not None:
                step = best_checkpoint(row)
            if step is None:
                why = (
                    f"at its best step {row.best_step}"
                    if row.best_step is not None
                    else "that is known as best"
                )
                raise NotFound(
                    f"{label} has no checkpoint {why}; it has {has}",
                    hint=f"expdb show {row.id}@last",
                )
            return step
        step = int(expr.step or 0)
        if step not in row.checkpoints:
            again = text.plain(str(expr._replace(step="best")))
            raise NotFound(
                f"{label} has no checkpoint {step}; it has {has}", hint=f"expdb show {again}"
            )
        return step

    def short(self, row: ResolveRow) -> str:
        """The id as lists show it."""
        return row.id[: text.id_length(self.by_id)]

    def missing(self, expr: Expr) -> NoReturn:
        """Raise: nothing is called so."""
        head, colon, tail = expr.word.partition(":")
        names = {row.name for row in self.rows} | {row.experiment for row in self.rows}
        if colon and (head in names or head in self.refs or self.at_id(head)):
            raise BadInput(f"{text.plain(tail)} is no selector", hint=f"selectors: {SELECTORS}")
        head, at, tail = expr.word.rpartition("@")
        if at and (head in names or head in self.refs or self.at_id(head)):
            raise BadInput(
                f"{text.plain(tail)} is no step", hint="after @ comes a number, best or last"
            )
        raise candidates.no_such_run(expr.word, self.rows, self.refs)


def _metric(row: ResolveRow) -> str:
    return row.objective.metric if row.objective else ""


def _count(number: int, noun: str) -> str:
    return f"no {noun}" if number == 0 else f"only {number} {noun}{'' if number == 1 else 's'}"
