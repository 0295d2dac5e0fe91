"""`log --why` as a document for `--json`."""

from __future__ import annotations

from expdb.query.results import ABSENT
from expdb.query.seed_results import MeanDelta
from expdb.query.why_results import Cause, Change, Step, Why
from expdb.report.json import Data, document


def why(found: Why) -> Data:
    """Return `log --why`; `way` has the steps to the run, without one the confounded steps of all.

    `causes` are the changes on the way (without a run: all), `beside` further ones that pairs with
    a run on the way isolate. `pairs` has, for each, the runs of both sides by seed.
    """
    return document(
        objective={
            "metric": found.objective.metric,
            "mode": found.objective.mode,
            "reading": found.objective.reading,
        },
        noise=None if found.noise is None else {"sd": found.noise.sd, "band": found.noise.band},
        run=found.run,
        root=found.root,
        root_value=found.root_value,
        total=_delta(found.total),
        way=[_step(step) for step in found.steps],
        causes=[_cause(cause) for cause in found.causes],
        beside=[_cause(cause) for cause in found.beside],
        warnings=list(found.warnings),
    )


def _step(step: Step) -> Data:
    return {
        "run": step.run,
        "parent": step.parent,
        "value": step.value,
        "delta": _delta(step.delta),
        "changes": [_change(change) for change in step.changes],
        "unknown": list(step.unknown),
        "confounded": [_change(change) for change in step.left],
    }


def _cause(cause: Cause) -> Data:
    return {
        **_change(cause.change),
        "effect": _delta(cause.effect),
        "pairs_disagree": cause.disagree,
        "pairs": [
            {"before": list(p.before), "after": list(p.after), "delta": _delta(p.delta)}
            for p in cause.pairs
        ],
    }


def _change(change: Change) -> Data:
    sides = (change.before, change.after)
    return {
        "kind": change.kind,
        "name": change.name,
        "values": [None if value is ABSENT else value for value in sides],
        "absent": [at for at, value in enumerate(sides) if value is ABSENT],
    }


def _delta(delta: MeanDelta | None) -> Data | None:
    if delta is None:
        return None
    return {
        "value": delta.value,
        "half_width": delta.half_width,
        "outcome": None if delta.outcome is None else delta.outcome.value,
    }
