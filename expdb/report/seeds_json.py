"""Groups over seeds as JSON documents."""

from __future__ import annotations

from typing import Any

from expdb.model import Objective
from expdb.query.results import Noise
from expdb.query.seed_results import MeanDelta, SeedComparison, SeedGroup, SeedGroups
from expdb.report.gates import table
from expdb.report.json import document, own_gates
from expdb.report.seed_comparison import outcome_of

Data = dict[str, Any]


def groups(found: SeedGroups) -> Data:
    """Return `rank --over seed` and `ls --over seed`."""
    return document(
        groups=[group(one) for one in found.groups],
        num_all=found.num_all,
        objective=_objective(found.objective),
        noise=_noise(found.noise),
        not_ranked=[{"id": row.id, "reason": why} for row, why in found.not_ranked],
        baseline=found.baseline.id if found.baseline else None,
    )


def best(found: SeedGroups) -> Data:
    """Return `best --over seed`."""
    return document(
        group=group(found.groups[0]),
        objective=_objective(found.objective),
        noise=_noise(found.noise),
        baseline=found.baseline.id if found.baseline else None,
    )


def group(one: SeedGroup) -> Data:
    """Return one group; `values` stand in the order of `runs` and `seeds`."""
    return {
        "experiment": one.experiment,
        "variant": one.variant,
        "config_digest": one.digest,
        "runs": list(one.runs),
        "seeds": list(one.seeds),
        "values": list(one.values),
        "mean": one.mean,
        "sd": one.sd,
        "states": dict(sorted(one.states.items())),
        "is_baseline": one.is_baseline,
        "delta": _delta(one.delta),
        "gates": own_gates(one.gates),
    }


def comparison(found: SeedComparison) -> Data:
    """Return `compare --over seed`."""
    return document(
        groups=[group(one) for one in found.groups],
        objective=_objective(found.objective) if found.objective else None,
        noise=_noise(found.noise),
        metrics=[
            {
                "key": one.key,
                "means": list(one.means),
                "sds": list(one.sds),
                "seeds": [len(values) for values in one.values],
                "deltas": [_delta(delta) for delta in one.deltas[1:]],
            }
            for one in found.metrics
        ],
        verdicts=[{"outcome": outcome_of(one).value} for one in found.groups[1:]],
        gates=table(found.gates),
    )


def _delta(delta: MeanDelta | None) -> Data | None:
    if delta is None:
        return None
    return {
        "value": delta.value,
        "half_width": delta.half_width,
        "how": delta.how,
        "outcome": delta.outcome.value if delta.outcome else None,
    }


def _objective(objective: Objective) -> Data:
    return {"metric": objective.metric, "mode": objective.mode, "reading": objective.reading}


def _noise(noise: Noise | None) -> Data | None:
    return None if noise is None else {"sd": noise.sd, "source": noise.source}
