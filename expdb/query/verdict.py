"""Whether one run is better than another, and why one may say so.

Invariant: `better` and `worse` need two finished runs with what they require, the same data, a
finite objective, a known noise band and more than another seed; anything else is inconclusive, with
the reason that comes first, or noise.
"""

from __future__ import annotations

import math

from expdb import text
from expdb.model import Objective, Run, RunState
from expdb.query.compare_results import Verdict
from expdb.query.diffs import are_siblings, data_digests
from expdb.query.measure import Measure, delta_of, percent_of
from expdb.query.noise import classify
from expdb.query.results import Noise, Outcome

TRAINING_DATA = "train"
DIGEST_CHARS = len("sha256:") + 8
SEED_ALONE = "same config, other seed: this is noise"


def verdict(measure: Measure, at: int, noise: Noise | None, *, id_length: int = 4) -> Verdict:
    """Return the verdict on the run at place `at` against the first."""
    run, objective = measure.runs[at], measure.objective
    base, value = measure.of_objective(0), measure.of_objective(at)
    delta = delta_of(base, value)
    pct = percent_of(objective.metric, base, delta) if objective else None
    reason = _inconclusive(measure, at, delta, id_length)
    if objective is None or reason:
        return Verdict(
            run=run.id,
            outcome=Outcome.INCONCLUSIVE,
            reason=reason,
            delta=delta,
            delta_pct=pct,
            step=measure.step,
        )
    decimals = text.decimals_for([base, value])
    said = f"{text.plain(objective.metric)} {_signed(objective, delta, decimals)}"
    said += f" ({text.percent(pct)})" if pct is not None else ""
    said += _where(measure, at)
    band = noise.band if noise else None
    outcome = classify(delta or 0.0, objective.mode, band)
    if are_siblings(measure.runs[0], measure.runs[at]):
        outcome, reason = Outcome.NO_DIFFERENCE, f"{said}: {SEED_ALONE}"
    elif band is None:
        reason = f"{said}: 1 seed each and no noise declared"
    else:
        where = "inside" if outcome is Outcome.NO_DIFFERENCE else "beyond"
        reason = f"{said}, {where} noise {text.band(band, decimals, key=objective.metric)}"
    return Verdict(
        run=run.id, outcome=outcome, reason=reason, delta=delta, delta_pct=pct, step=measure.step
    )


def _where(measure: Measure, at: int) -> str:
    """Return at which step the values stand, where that is not the end of both."""
    if measure.ends:
        return f" at step {measure.ends[at]}, against step {measure.ends[0]}"
    return "" if measure.at_end else f" at step {measure.step}"


def _inconclusive(measure: Measure, at: int, delta: float | None, id_length: int) -> str:
    """Return the first reason against a verdict, or nothing."""
    first, run = measure.runs[0], measure.runs[at]
    objective = measure.objective
    if objective is None:
        return "no objective is declared"
    metric = text.plain(objective.metric)
    for one in (first, run):
        if objective.metric not in one.series:
            other_metric = one.objective is not None and one.objective.metric != objective.metric
            shared = set(first.series) & set(run.series)
            if other_metric or not shared:
                return "no metric in common"
            return f"{label(one, id_length)} has no {metric}"
    for one in (first, run):
        if said := _not_finite(one, objective, id_length):
            return said
    if said := data_differ(first, run):
        return said
    if measure.step is None and not measure.ends:
        return f"no step in common of {metric}"
    if first.state is not RunState.FINISHED or run.state is not RunState.FINISHED:
        return _unfinished(measure, at, delta, id_length)
    if delta is None:
        return f"no value of {metric} at step {measure.step} in both"
    for one in (first, run):
        if one.lacks:
            return f"{label(one, id_length)} lacks {text.first_of(one.lacks)}, which it requires"
    return ""


def _not_finite(run: Run, objective: Objective, id_length: int) -> str:
    series = run.series[objective.metric]
    value = series.read(objective)[0]
    if math.isfinite(value):
        return ""
    since = "" if series.nonfinite_step is None else f" since step {series.nonfinite_step}"
    metric = text.plain(objective.metric)
    return f"{metric} is {text.nonfinite(value)} in {label(run, id_length)}{since}"


def data_differ(first: Run, run: Run) -> str:
    """Return what data the metrics of two runs were measured on that are not the same, or nothing.

    Training data may differ: that is a change under test. A digest that one run lacks says nothing.
    """
    mine, other = data_digests(first), data_digests(run)
    for name in sorted(mine):
        if name != TRAINING_DATA and name in other and mine[name] != other[name]:
            left, right = mine[name][:DIGEST_CHARS], other[name][:DIGEST_CHARS]
            return f"the {text.plain(name)} data differ: {text.plain(left)} and {text.plain(right)}"
    return ""


def _unfinished(measure: Measure, at: int, delta: float | None, id_length: int) -> str:
    """Return the reason for a run that has not finished, with the delta at the common step."""
    first, run = measure.runs[0], measure.runs[at]
    objective = measure.objective
    assert objective is not None
    metric = objective.metric
    short = min((first, run), key=lambda one: one.series[metric].last_step)
    ends = [one.series[metric].last_step for one in (first, run)]
    if ends[0] != ends[1]:
        said = f"{label(short, id_length)} has no {text.plain(metric)} after step {min(ends)}"
    else:
        stopped = first if first.state is not RunState.FINISHED else run
        verb = "is " if stopped.state.is_live else ""
        said = f"{label(stopped, id_length)} {verb}{stopped.state}"
    if delta is None:
        return said
    values = [measure.of_objective(0), measure.of_objective(at)]
    decimals = text.decimals_for(values)
    return f"{said}; at {measure.step}: {_signed(objective, delta, decimals)}"


def _signed(objective: Objective, delta: float | None, decimals: int) -> str:
    return text.signed(delta, decimals, key=objective.metric)


def label(run: Run, id_length: int = 4) -> str:
    """Return `exp09_fp16 c7t3`."""
    return f"{text.plain(run.name)} {run.id[:id_length]}"
