"""What a person's words name, asked of the index.

Invariant: the answer is that of `store.resolve` over all runs; most words need only the runs of one
experiment, so only those are fetched unless the word fits nothing there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from expdb import text
from expdb.errors import Corrupt, ExpdbError
from expdb.index.reader import Reader
from expdb.model import Objective, RunAt, RunState
from expdb.query.points import Points
from expdb.query.usable import USABLE
from expdb.store.candidates import say
from expdb.store.resolve import Resolved, ResolveRow, resolve, resolve_all
from expdb.store.runword import parse

FIELDS = (
    "r.id, r.experiment, r.variant, r.seed, r.state, r.created_at_ms, r.objective,"
    " r.objective_mode, r.objective_reading, r.value, r.parent, r.best_step,"
    " len(r.lacks) = 0"
)


def lookup(reader: Reader, word: str, *, head: RunAt | None = None) -> Resolved:
    """Return the run that `word` names.

    Raises:
        NotFound, Ambiguous, BadInput: as `store.resolve.resolve`.
    """
    few = _few(reader, word, head)
    if few is not None:
        try:
            return _resolve(reader, word, few, head)
        except ExpdbError:
            pass  # asked again of all runs: for the nearest names, and for ids long enough
    return _resolve(reader, word, resolve_rows(reader), head)


def lookup_all(reader: Reader, word: str, *, head: RunAt | None = None) -> tuple[Resolved, ...]:
    """Return every run that `word` names, newest first: several for `:all`.

    Raises:
        NotFound, Ambiguous, BadInput: as `store.resolve.resolve_all`.
    """
    return resolve_all(
        word,
        resolve_rows(reader),
        reader.names,
        head=head,
        metric_values=lambda metric: _last_values(reader, metric),
    )


def lookup_many(
    reader: Reader,
    words: Sequence[str],
    *,
    head: RunAt | None = None,
) -> list[Resolved]:
    """Return the runs that several words name, of one seed where that can be.

    A bare experiment takes the newest seed that all words have; a word that names one run fixes the
    seed. Where no seed is common each keeps its own, and says so.

    Raises:
        NotFound, Ambiguous, BadInput: as `lookup`, and as `lookup_all` for a word with `:all`.
    """
    found: list[tuple[str, Resolved]] = []
    for word in words:
        if "all" in parse(word).selectors:
            found += [(word, item) for item in lookup_all(reader, word, head=head)]
        else:
            found.append((word, lookup(reader, word, head=head)))
    if len(found) < 2 or not any(item.is_open for _, item in found):
        return [item for _, item in found]
    return _one_seed(reader, found)


def _one_seed(reader: Reader, found: Sequence[tuple[str, Resolved]]) -> list[Resolved]:
    fixed = {_row(reader, item.run).seed for _, item in found if not item.is_open} - {None}
    by_seed = [_seeds(reader, item.run) if item.is_open else {} for _, item in found]
    open_ones = [seeds for seeds in by_seed if seeds]
    common = set.intersection(*(set(seeds) for seeds in open_ones)) if open_ones else set()
    if fixed:
        common &= fixed if len(fixed) == 1 else set()
    both = "both" if len(found) == 2 else "all"
    if not common:
        note = f"no seed {both} have"
        return [
            _said(reader, word, item.run, note) if item.is_open else item for word, item in found
        ]
    # The newest seed is the one whose oldest run among the words is the newest.
    seed = max(common, key=lambda s: (min(seeds[s].age_key for seeds in open_ones), -s))
    out = []
    for (word, item), seeds in zip(found, by_seed, strict=True):
        run = seeds[seed].id if seeds else item.run
        moved = run != item.run
        out.append(_said(reader, word, run, f"the seed {both} have") if moved else item)
    return out


def _said(reader: Reader, word: str, run: str, note: str) -> Resolved:
    said = say(word, _row(reader, run), None, note=note)
    return Resolved(run=run, step=None, said=said, is_literal=False, is_open=True)


def _row(reader: Reader, run: str) -> ResolveRow:
    return resolve_rows(reader, "r.id = ?", [run])[0]


def _seeds(reader: Reader, run: str) -> dict[int, ResolveRow]:
    """Return seed -> the newest run of the same name, finished ones where the named run is."""
    row = _row(reader, run)
    where = "r.experiment = ? AND r.variant = ? AND r.seed IS NOT NULL"
    rows = resolve_rows(reader, where, [row.experiment, row.variant])
    if row.state is RunState.FINISHED:
        rows = [other for other in rows if other.state is RunState.FINISHED]
    return {
        other.seed: other
        for other in sorted(rows, key=lambda other: other.age_key)
        if other.seed is not None
    }


def _resolve(
    reader: Reader,
    word: str,
    rows: Sequence[ResolveRow],
    head: RunAt | None,
) -> Resolved:
    return resolve(
        word,
        rows,
        reader.names,
        head=head,
        metric_values=lambda metric: _last_values(reader, metric),
        best_checkpoint=lambda row: best_checkpoint(reader, row),
    )


def _few(reader: Reader, word: str, head: RunAt | None) -> list[ResolveRow] | None:
    """Return the runs that decide what `word` names; None where all of them do."""
    try:
        expr = parse(word)
        word.encode()
    except (ExpdbError, UnicodeEncodeError):
        return None
    if expr.word == "best" or "parent" in expr.selectors:
        return None
    if expr.word == "HEAD":
        target = head.run if head else None
        ref = reader.refs.get("baseline")
        target = target or (ref.run if ref else None)
        if target is None:
            return None
        words, runs = [], [target]
    else:
        words = [expr.word, word, word.rpartition("@")[0] or word]
        runs = [reader.names[expr.word].run] if expr.word in reader.names else []
    where = """(r.experiment, r.variant) IN (
        SELECT (experiment, variant) FROM runs
        WHERE experiment IN (SELECT unnest(?)) OR name IN (SELECT unnest(?))
            OR id IN (SELECT unnest(?)) OR (len(?) >= 4 AND starts_with(id, ?)))"""
    prefix = words[0] if words else ""
    return resolve_rows(reader, where, [words, words, runs, prefix, prefix])


def resolve_rows(
    reader: Reader, where: str | None = None, params: Sequence[object] = ()
) -> list[ResolveRow]:
    """Return runs as resolution needs them; `where` is SQL over `r`, None for all of them."""
    rows = reader.rows(f"SELECT {FIELDS} FROM runs r WHERE {where or 'true'}", params)
    kept = _usable_steps(reader, [row[0] for row in rows] if where else None)
    return [
        ResolveRow(
            id=row[0],
            experiment=row[1],
            variant=row[2],
            seed=row[3],
            state=RunState(row[4]),
            created_at_ms=row[5],
            objective=Objective(metric=row[6], mode=row[7], reading=row[8]) if row[6] else None,
            value=row[9],
            parent=row[10],
            checkpoints=kept.get(row[0], ()),
            best_step=row[11],
            does_count=row[12],
        )
        for row in rows
    ]


def _usable_steps(reader: Reader, runs: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
    """Return run -> the steps of its checkpoints that can be gone back to, ascending.

    None stands for every run: to bind the ids of 10,000 costs more than the answer.
    """
    sql = f"SELECT c.run, list(c.step ORDER BY c.step) FROM checkpoints c WHERE {USABLE}"
    sql += "" if runs is None else " AND c.run IN (SELECT unnest(?))"
    bound = [] if runs is None else [list(runs)]
    found = reader.rows(f"{sql} GROUP BY c.run", bound)
    return {run: tuple(steps) for run, steps in found}


def _last_values(reader: Reader, metric: str) -> dict[str, float]:
    return dict(reader.rows("SELECT run, last FROM series WHERE key = ?", [metric]))


def best_checkpoint(reader: Reader, row: ResolveRow) -> int | None:
    """Return the checkpoint at whose step the objective is best; None if no point is at one."""
    if row.objective is None:
        return None
    points = Points(reader, row.id)
    curve = points.of(row.objective.metric)
    if points.problems:
        raise Corrupt(
            f"which checkpoint of {text.plain(row.name)} is the best cannot be told:"
            f" {text.plain(points.problems[0])}",
            hint=f"name a step: {', '.join(map(str, row.checkpoints))}",
        )
    sign = 1.0 if row.objective.mode == "min" else -1.0
    kept = [
        (sign * value, step)
        for step, value in zip(curve.steps.tolist(), curve.values.tolist(), strict=True)
        if step in row.checkpoints and math.isfinite(value)
    ]
    return min(kept)[1] if kept else None
