"""`compare`: config, code, environment, data, metrics and evals of runs, and a verdict on each.

Invariant: the first run is the one measured against; nothing is said to be better without a reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from expdb import text
from expdb.errors import BadInput, NotFound
from expdb.index.reader import Reader
from expdb.model import Objective, Run
from expdb.query.compare_results import Comparison, MetricDiff
from expdb.query.diffs import (
    are_siblings,
    code_diff,
    config_diff,
    data_diff,
    environment_diff,
)
from expdb.query.measure import Measure, eval_diffs, metric_diffs
from expdb.query.noise import noise_of, spread_of
from expdb.query.results import Outcome
from expdb.query.verdict import label, verdict
from expdb.store import candidates
from expdb.store.direction import natural_mode
from expdb.store.resolve import Resolved

if TYPE_CHECKING:
    from expdb.query.gates import GateResult

MAX_RUNS: Final = 8
"""How many runs a filter may bring into one comparison."""


def comparison(
    reader: Reader,
    targets: Sequence[Resolved],
    *,
    metric: str | None = None,
    step: int | None = None,
    cwd: Path | None = None,
) -> Comparison:
    """Compare runs with the first of them.

    Args:
        reader: the index.
        targets: two runs or more.
        step: read all of them at this step; else at the last one that all have.
        metric: judge by this metric; else by the objective of the first run that declares one.
        cwd: whose repository holds the code; else the current folder's. The store's comes second.

    Raises:
        BadInput: fewer than two runs.
        NotFound: no run has the metric.
    """
    if len(targets) < 2:
        raise BadInput("one run cannot be compared", hint="expdb compare A B")
    runs = tuple(reader.run(target.run) for target in targets)
    config = config_diff(runs)
    siblings = [are_siblings(runs[0], run) for run in runs]
    objective = _objective(runs, metric)
    measure = Measure(reader, runs, objective, step=step)
    noise = noise_of(reader, runs[0], objective.metric, *runs[1:]) if objective else None
    verdicts = tuple(
        verdict(measure, at, noise, id_length=reader.id_length) for at in range(1, len(runs))
    )
    outcomes: list[Outcome | None] = [None, *(one.outcome for one in verdicts)]
    band = noise.band if noise is not None else None
    metrics = metric_diffs(measure, outcomes=outcomes, band=band)
    evals = tuple(_by_chance(diff, siblings) for diff in eval_diffs(measure))
    spread = None
    if objective is not None and all(siblings[1:]):
        spread = spread_of(reader, runs[0], objective.metric)
    return Comparison(
        runs=runs,
        objective=objective,
        step=measure.step,
        config=config,
        code=code_diff(runs, places=[cwd or Path.cwd(), reader.store.root.parent]),
        environment=environment_diff(runs, reader.store.layout),
        data=data_diff(runs),
        metrics=metrics,
        evals=evals,
        num_events=tuple(Counter(event.severity for event in run.events) for run in runs),
        verdicts=verdicts,
        noise=noise,
        ends=measure.ends,
        spread=spread,
        warnings=_left_out(measure, reader.id_length),
        gates=_gates(reader, runs) if step is None else (),
    )


def _gates(reader: Reader, runs: Sequence[Run]) -> tuple[tuple[GateResult, ...], ...]:
    """Return how the runs stand to the gates of the newest; those are about the ends of runs."""
    if not any(run.settings.get("gates") for run in runs):
        return ()
    from expdb.query.gates import compared_results  # few runs have gates

    return compared_results(reader, runs)


def _by_chance(diff: MetricDiff, siblings: Sequence[bool]) -> MetricDiff:
    """Return an eval without a verdict on runs that differ from the first in the seed alone."""
    outcomes = (
        Outcome.NO_DIFFERENCE if outcome is not None and is_sibling else outcome
        for outcome, is_sibling in zip(diff.outcomes, siblings, strict=True)
    )
    return replace(diff, outcomes=tuple(outcomes))


def asked_step(words: Sequence[str], targets: Sequence[Resolved]) -> int | None:
    """Return the step that `RUN@STEP` asks for; None where no word has one.

    Raises:
        BadInput: they ask for different steps.
    """
    pairs = zip(words, targets, strict=False)
    steps = sorted({one.step for word, one in pairs if "@" in word and one.step is not None})
    if len(steps) > 1:
        raise BadInput(
            f"runs are compared at one step, and {steps[0]:,} and {steps[1]:,} are asked for",
            hint="expdb compare A@STEP B@STEP",
        )
    return steps[0] if steps else None


def with_selected(
    reader: Reader, targets: Sequence[Resolved], where: str, params: Sequence[object]
) -> list[Resolved]:
    """Return the targets, and behind them the other runs that a filter selects, the oldest first.

    Raises:
        BadInput: more runs than one comparison shows.
    """
    sql = f"SELECT r.id FROM runs r WHERE {where} ORDER BY r.created_at_ms, r.id"
    known = {target.run for target in targets}
    ids = [row[0] for row in reader.rows(sql, params) if row[0] not in known]
    if len(targets) + len(ids) > MAX_RUNS:
        raise BadInput(
            f"{len(targets) + len(ids):,} runs are too many to compare: at most {MAX_RUNS}",
            hint="a longer filter, or: expdb ls --cols +optim.lr",
        )
    more = [Resolved(run=run, step=None, said="", is_literal=True) for run in ids]
    return [*targets, *more]


def _left_out(measure: Measure, id_length: int) -> tuple[str, ...]:
    """Return the damaged files of each run, which the comparison does without."""
    return tuple(
        f"{label(run, id_length)}: left out of the comparison: {text.plain(problem)}"
        for run, problems in zip(measure.runs, measure.problems(), strict=True)
        for problem in dict.fromkeys((*run.problems, *problems))
    )


def _objective(runs: Sequence[Run], metric: str | None) -> Objective | None:
    """Return what the runs are judged by: the named metric, else the first objective declared."""
    declared = [run.objective for run in runs if run.objective is not None]
    if metric is None:
        return declared[0] if declared else None
    for objective in declared:
        if objective.metric == metric:
            return objective
    keys = {key for run in runs for key in run.series}
    if metric not in keys:
        near = candidates.close(metric, keys)
        raise NotFound(
            f"none of these runs has a metric {text.plain(metric)}",
            hint=f"nearest: {', '.join(map(text.plain, near))}" if near else "expdb show RUN",
        )
    return Objective(metric=metric, mode=natural_mode(metric) or "min")
