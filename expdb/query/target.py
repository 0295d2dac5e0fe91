"""Which run and step a rollback goes to, and why.

Invariant: without a word the ref `baseline` stands until a comparable run is better beyond the
noise band; a run without a sound checkpoint, without pinned code or without a metric that it
requires is never chosen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from expdb import text
from expdb.errors import NotFound
from expdb.index.reader import Reader
from expdb.model import Ref, Run, RunAt
from expdb.query.lookup import lookup
from expdb.query.noise import classify, noise_of
from expdb.query.points import Points
from expdb.query.results import Noise, Outcome, RunRow
from expdb.query.runs import NEWEST_FIRST, OWN_FIRST, run_rows
from expdb.store.refs import read_ref

BASELINE = "baseline"
FINISHED = "r.state = 'finished'"
SAME_OBJECTIVE = "r.objective = ? AND r.objective_mode = ? AND r.objective_reading = ?"
NUM_NAMED = 3
"""How many runners-up a line names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A run, a checkpoint of it, and why these."""

    run: Run
    step: int
    value: float | None
    """The objective at `step`; None when no point of it is there."""
    source: str
    """What chose it, for brackets behind it: `ref baseline`; empty when the user named it."""
    why: tuple[str, ...] = ()
    """Lines under the target: runners-up, a best step without a checkpoint."""
    said: str = ""
    """The resolution line of the user's word; empty when it was an id."""


def choose_target(reader: Reader, word: str | None, *, head: RunAt | None) -> Target:
    """Return the target of a rollback: what `word` names, else the best baseline.

    Raises:
        NotFound: nothing of that name, no checkpoint, or no run to go back to.
        Ambiguous: the word fits several things.
        BadInput: the word is none of the grammar.
    """
    if word is not None:
        resolved = lookup(reader, word, head=head)
        run = reader.run(resolved.run)
        said = "" if resolved.is_literal else resolved.said
        return _target(reader, run, resolved.step, source="", said=said)
    ref = read_ref(reader.store.layout, BASELINE)
    return _best(reader) if ref is None else _from_ref(reader, ref)


def best_retained(reader: Reader, run: Run) -> tuple[int, float | None, str]:
    """Return (step, objective there, a line about it) of the best checkpoint that is still there.

    Raises:
        NotFound: the run has no complete checkpoint.
    """
    steps = [item.step for item in run.usable]
    if not steps:
        raise NotFound(
            f"{_name(reader, run)} has no complete checkpoint",
            details=tuple(f"{item.step}  {item.problem}" for item in run.checkpoints),
            hint=f"expdb show {_short(reader, run.id)}",
        )
    if run.objective is None:
        return steps[-1], None, "it declares no objective; this is its last checkpoint"
    metric = run.objective.metric
    values, damaged = values_of(reader, run, metric)
    chosen: int | None = None
    for step in steps:
        value = values.get(step, math.nan)
        if math.isfinite(value) and (
            chosen is None or not run.objective.better(values[chosen], value)
        ):
            chosen = step
    if chosen is None:
        line = f"no checkpoint has a {metric}; this is the last one"
        return steps[-1], None, _joined(line, damaged)
    series = run.series.get(metric)
    best = None if series is None else series.best(run.objective.mode)
    if best is None or best[1] in steps or best[1] == chosen:
        return chosen, values[chosen], damaged
    shown = text.metric(best[0], text.decimals_for([best[0], values[chosen]]))
    line = f"its best step {best[1]} ({shown}) has no checkpoint; {chosen} is the best that has"
    return chosen, values[chosen], _joined(line, damaged)


def _joined(*lines: str) -> str:
    return "; ".join(line for line in lines if line)


def values_of(reader: Reader, run: Run, metric: str) -> tuple[dict[int, float], str]:
    """Return step -> value of a metric of a run, and a line about damaged files left out."""
    points = Points(reader, run.id, run_dir=reader.store.root / run.path)
    curve = points.of(metric)
    values = dict(zip(curve.steps.tolist(), curve.values.tolist(), strict=True))
    return values, f"left out: {'; '.join(points.problems)}" if points.problems else ""


def _target(
    reader: Reader,
    run: Run,
    step: int | None,
    *,
    source: str,
    why: tuple[str, ...] = (),
    said: str = "",
) -> Target:
    if step is None:
        step, value, line = best_retained(reader, run)
        why = (*why, line) if line else why
    else:
        objective = run.objective
        value, line = None, ""
        if objective is not None:
            values, line = values_of(reader, run, objective.metric)
            value = values.get(step)
        why = (*why, line) if line else why
    return Target(run=run, step=step, value=value, source=source, why=why, said=said)


def _from_ref(reader: Reader, ref: Ref) -> Target:
    try:
        base = reader.run(ref.run)
    except NotFound as error:
        raise NotFound(
            f"the ref baseline names {ref.run}, which this store does not have",
            hint="set another: expdb baseline RUN",
        ) from error
    value = base.value()
    if base.objective is None or value is None or not math.isfinite(value[0]):
        return _target(reader, base, ref.step, source="ref baseline")
    noise = noise_of(reader, base, base.objective.metric)
    rivals = _ahead(reader, base, value[0])
    beaten: list[RunRow] = []
    lines: list[str] = []
    for row in rivals:
        delta = (row.value or 0.0) - value[0]
        band = None if noise is None else noise.band
        if classify(delta, base.objective.mode, band) is not Outcome.BETTER:
            beaten.append(row)
            continue
        run = reader.run(row.id)
        fault = _fault(base, run)
        if fault:
            lines.append(f"{_say(reader, row, _decimals(rivals, base))} is better, but {fault}")
            continue
        line = _ahead_of_ref(reader, base, value[0], abs(delta), noise, _decimals(rivals, base))
        why = (line, *lines)
        return _target(reader, run, None, source="", why=why)
    if beaten:
        lines.append(_not_better(reader, beaten, noise, _decimals(rivals, base)))
    return _target(reader, base, ref.step, source="ref baseline", why=tuple(lines))


def _ahead(reader: Reader, base: Run, value: float) -> list[RunRow]:
    """Return the finished runs with the same objective and a better value, best first."""
    objective = base.objective
    assert objective is not None
    sign, direction = ("<", "ASC") if objective.mode == "min" else (">", "DESC")
    where = f"{FINISHED} AND {SAME_OBJECTIVE} AND r.id != ? AND isfinite(r.value)"
    params: list[Any] = [objective.metric, objective.mode, objective.reading, base.id]
    if math.isfinite(value):
        where += f" AND r.value {sign} ?"
        params.append(value)
    order = f"r.value {direction}, r.created_at_ms, r.id"
    return run_rows(reader, where=where, params=params, order=order)


def _best(reader: Reader) -> Target:
    """Return the best of the finished runs that can be compared with the measure.

    The measure, which sets objective, data and evals, is the newest finished run of the experiment
    `baseline`, else the newest finished run; one that lacks what it requires is none.
    """
    order = f"len(r.lacks) > 0, r.experiment = '{BASELINE}' DESC, {OWN_FIRST}, {NEWEST_FIRST}"
    done = run_rows(reader, where=FINISHED, order=order, limit=1)
    if not done:
        raise NotFound("no run has finished yet: there is nothing to go back to", hint="expdb ls")
    newest = done[0]
    if newest.lacks:
        raise NotFound(
            f"no finished run counts: {_short(reader, newest.id)} {text.plain(newest.name)} lacks"
            f" {text.first_of(newest.lacks)}, which it requires",
            hint=f"name it: expdb rollback {_short(reader, newest.id)}",
        )
    measure = reader.run(newest.id)
    if measure.objective is None:
        return _target(reader, measure, None, source="newest finished run, no baseline is set")
    rows = _ahead(reader, measure, math.nan)
    own = measure.value()
    if own is not None and math.isfinite(own[0]):
        at = sum(1 for row in rows if not measure.objective.better(own[0], row.value or 0.0))
        rows.insert(at, newest)
    lines: list[str] = []
    decimals = text.decimals_for([row.value for row in rows])
    for place, row in enumerate(rows):
        run = measure if row.id == measure.id else reader.run(row.id)
        fault = _fault(measure, run)
        if fault:
            if len(lines) < NUM_NAMED:
                lines.append(f"{_say(reader, row, decimals)} is left out: {fault}")
            continue
        after = rows[place + 1 : place + 1 + NUM_NAMED]
        if after:
            lines.insert(0, f"then {_listed([_say(reader, other, decimals) for other in after])}")
        source = f"best of {_count(len(rows), 'finished run')}, no baseline is set"
        return _target(reader, run, None, source=source, why=tuple(lines))
    num_done = reader.rows(f"SELECT count(*) FROM runs r WHERE {FINISHED}")[0][0]
    raise NotFound(
        f"none of {_count(num_done, 'finished run')} has a checkpoint, pinned code and a finite"
        f" {measure.objective.metric}",
        details=tuple(lines),
        hint="expdb ls",
    )


def _fault(base: Run, run: Run) -> str:
    """Return why `run` cannot take the place of `base`, or nothing."""
    if run.lacks:
        return f"it lacks {text.first_of(run.lacks)}"
    if _data(base) != _data(run):
        return "its data differ"
    mine, other = _evals(base), _evals(run)
    task = next((name for name in mine if name in other and mine[name] != other[name]), None)
    if task is not None:
        return f"its eval {task} has other items"
    if run.pin.pinned is None:
        return "its code is not pinned"
    if not run.usable:
        return "it has no complete checkpoint"
    return ""


def _data(run: Run) -> Mapping[str, object]:
    items = run.attempt.data if run.attempt is not None else {}
    return {name: item.get("digest") for name, item in items.items()}


def _evals(run: Run) -> dict[str, tuple[object, ...]]:
    newest = sorted(run.evals, key=lambda item: (item.step, item.created_at_ms))
    return {item.task: (item.items_digest, item.n, item.shots, item.scorer) for item in newest}


def _ahead_of_ref(
    reader: Reader, base: Run, value: float, lead: float, noise: Noise | None, decimals: int
) -> str:
    shown = text.metric(value, decimals)
    band = text.band(noise.band, decimals) if noise is not None else ""
    who = f"{_name(reader, base)} (ref baseline, {shown})"
    return f"better than {who} by {text.metric(lead, decimals)}, beyond noise {band}"


def _not_better(reader: Reader, rows: Sequence[RunRow], noise: Noise | None, decimals: int) -> str:
    named = [_say(reader, row, decimals) for row in rows[:NUM_NAMED]]
    if len(rows) > NUM_NAMED:
        named.append(f"{len(rows) - NUM_NAMED} more")
    verb = "is" if len(rows) == 1 else "are"
    if noise is None:
        return f"{_listed(named)} {verb} better, by what noise may be: none is declared or measured"
    return f"{_listed(named)} {verb} not better beyond noise {text.band(noise.band, decimals)}"


def _say(reader: Reader, row: RunRow, decimals: int) -> str:
    return f"{_short(reader, row.id)} {text.plain(row.name)} {text.metric(row.value, decimals)}"


def _name(reader: Reader, run: Run) -> str:
    return f"{_short(reader, run.id)} {text.plain(run.name)}"


def _short(reader: Reader, run: str) -> str:
    return text.short_id(run, reader.id_length)


def _decimals(rows: Sequence[RunRow], base: Run) -> int:
    value = base.value()
    return text.decimals_for([*(row.value for row in rows), None if value is None else value[0]])


def _listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
