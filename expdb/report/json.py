"""Results as plain dicts for `--json`: one documented schema with a version.

Invariant: keys never change their meaning within a schema version; a number that is not finite is
the text "NaN", "Infinity" or "-Infinity"; times are UTC, ISO 8601.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from expdb.query.results import ABSENT
from expdb.query.things import things_between

if TYPE_CHECKING:
    from expdb.actions.results import OpRow, RollbackPlan, RollbackResult, WorktreeResult
    from expdb.model import Objective, Run, RunAt
    from expdb.query.compare_results import Comparison
    from expdb.query.gates import GateResult
    from expdb.query.media import RunMedia
    from expdb.query.results import Listing, Ranking, RunRow

SCHEMA_VERSION = 1

Data = dict[str, Any]
HIDDEN: Final = re.compile(
    "[\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)
"""Control and format characters that JSON itself does not escape."""


def dumps(data: Data, *, indent: int | None = 2) -> str:
    """Return the text of a document, non-finite numbers as texts.

    What a terminal would obey rather than show stands as `\\u202e`, which reads back the same.
    """
    text = json.dumps(finite(data), indent=indent, ensure_ascii=False, allow_nan=False)
    return HIDDEN.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def finite(value: Any) -> Any:
    """Return `value` with every non-finite number as its name, and what JSON lacks as text."""
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return "NaN"
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)


def document(**parts: Any) -> Data:
    """Return a document with the schema version first."""
    return {"schema_version": SCHEMA_VERSION, **parts}


def utc(time_ms: int | None) -> str | None:
    """Return a time as ISO 8601 in UTC with milliseconds."""
    if time_ms is None:
        return None
    moment = datetime.fromtimestamp(time_ms / 1000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def run_row(row: RunRow) -> Data:
    """Return a run of `ls`, `rank` and `status`."""
    made = {
        "id": row.id,
        "experiment": row.experiment,
        "variant": row.variant,
        "state": row.state.value,
        "created_at": utc(row.created_at_ms),
        "commit": row.commit,
        "dirty": row.dirty,
        "config_digest": row.digest,
        "seed": row.seed,
        "parent": row.parent,
        "objective": _objective(row.objective, row.value, row.value_step),
        "step": row.last_step,
        "max_steps": row.max_steps,
        "ended_at": utc(row.ended_at_ms),
        "reason": row.reason,
        "refs": list(row.refs),
        "labels": list(row.labels),
        "is_head": row.is_head,
        "path": row.path,
        "lacks": list(row.lacks),
    }
    if row.delta is not None:
        made["delta"] = {
            "value": row.delta.value,
            "outcome": row.delta.outcome.value if row.delta.outcome else None,
            "at_step": row.delta.at_step,
            "against": row.delta.against,
        }
    if row.metrics:
        made["metrics"] = dict(row.metrics)
    if row.extra:
        made["columns"] = dict(row.extra)
    return made


def _objective(objective: Objective | None, value: float | None, step: int | None) -> Data | None:
    if objective is None:
        return None
    return {
        "metric": objective.metric,
        "mode": objective.mode,
        "reading": objective.reading,
        "value": value,
        "step": step,
    }


def listing(result: Listing) -> Data:
    """Return `ls`."""
    return document(runs=[run_row(row) for row in result.rows], num_all=result.num_all)


def ranking(result: Ranking) -> Data:
    """Return `rank`; `num_tied` counts the first runs that noise cannot tell apart."""
    noise = result.noise
    return document(
        runs=[run_row(row) for row in result.rows],
        objective=_named_objective(result.objective),
        noise=None
        if noise is None
        else {"sd": noise.sd, "band": noise.band, "source": noise.source},
        num_tied=result.num_tied,
        not_ranked=[{"id": row.id, "reason": why} for row, why in result.not_ranked],
        apart=[row.id for row in result.apart],
        baseline=result.baseline.id if result.baseline else None,
    )


def best(result: Ranking) -> Data:
    """Return `best`."""
    return document(
        run=run_row(result.rows[0]),
        objective=_named_objective(result.objective),
        baseline=result.baseline.id if result.baseline else None,
    )


def _named_objective(objective: Objective) -> Data:
    return {"metric": objective.metric, "mode": objective.mode, "reading": objective.reading}


def run_at(at: RunAt | None) -> Data | None:
    """Return a run and its step."""
    return None if at is None else {"run": at.run, "step": at.step}


def run(value: Run) -> Data:
    """Return a run of `compare`, and the head of `show`."""
    pin = value.pin
    read = value.value()
    return {
        "id": value.id,
        "experiment": value.experiment,
        "variant": value.variant,
        "state": value.state.value,
        "created_at": utc(value.created_at_ms),
        "commit": pin.commit,
        "dirty": pin.dirty,
        "snapshot": pin.snapshot,
        "tree": pin.tree,
        "config_digest": value.digest,
        "seed": value.seed,
        "parent": value.parent.run if value.parent else None,
        "objective": _objective(value.objective, *(read or (None, None))),
        "step": value.last_step,
        "max_steps": value.max_steps,
        "lacks": list(value.lacks),
    }


def comparison(result: Comparison, *, all: bool = False) -> Data:
    """Return `compare`: what differs, or with `all` everything."""
    config = [diff for diff in result.config if all or diff.differs]
    environment = [d for d in result.environment if all or len(set(d.values)) > 1]
    verdicts = [
        {
            "run": verdict.run,
            "outcome": verdict.outcome.value,
            "reason": verdict.reason,
            "delta": verdict.delta,
            "delta_pct": verdict.delta_pct,
            "step": verdict.step,
        }
        for verdict in result.verdicts
    ]
    return document(
        runs=[run(item) for item in result.runs],
        config=[{"key": d.key, **of_keys(d.values)} for d in config],
        code={
            "same_tree": result.code.same_tree,
            "note": result.code.note,
            "files": [
                {
                    "status": file.status,
                    "path": file.path,
                    "added": file.num_added,
                    "removed": file.num_removed,
                }
                for file in result.code.files
            ],
        },
        environment=[{"key": d.name, "values": list(d.values)} for d in environment],
        data=[{"key": d.name, "values": list(d.values)} for d in result.data],
        changed=list(things_between(result)),
        step=result.step,
        ends=list(result.ends),
        spread=None if result.spread is None else asdict(result.spread),
        metrics=[_metric(diff) for diff in (*result.metrics, *result.evals)],
        verdict=verdicts[0] if verdicts else None,
        verdicts=verdicts,
        gates=_gates(result.gates),
        warnings=list(result.warnings),
    )


def _gates(rows: Sequence[Sequence[GateResult]]) -> list[Data]:
    """Return how each run of a comparison stands to each gate."""
    if not rows:
        return []
    from expdb.report.gates import table

    return table(rows)


def own_gates(gates: Sequence[GateResult]) -> list[Data]:
    """Return how one run stands to each of its gates."""
    if not gates:
        return []
    from expdb.report.gates import document

    return [document(one) for one in gates]


def of_keys(values: Sequence[Any]) -> Data:
    """Return values of a key; a run that lacks the key has null, and its place in `absent`."""
    return {
        "values": [None if value is ABSENT else value for value in values],
        "absent": [at for at, value in enumerate(values) if value is ABSENT],
    }


def _metric(diff: Any) -> Data:
    """Return one metric: with two runs plain numbers of the second, with more a list of them."""
    two = len(diff.values) == 2
    outcomes = [outcome.value if outcome else None for outcome in diff.outcomes]
    return {
        "key": diff.key,
        "values": list(diff.values),
        "delta": diff.deltas[1] if two else list(diff.deltas[1:]),
        "delta_pct": diff.deltas_pct[1] if two else list(diff.deltas_pct[1:]),
        "better": diff.better[1] if two else list(diff.better[1:]),
        "outcome": outcomes[1] if two else outcomes[1:],
        "step": diff.step,
    }


def shown(value: Run, media: RunMedia | None = None, gates: Sequence[GateResult] = ()) -> Data:
    """Return `show`."""
    from expdb.query.media import RunMedia

    media = media or RunMedia()
    return document(
        **run(value),
        path=value.path,
        command=list(value.command),
        reason=value.reason,
        ended_at=utc(value.ended_at_ms),
        fork=run_at(value.fork),
        attempts=len(value.attempts),
        reproducible=value.pin.reproducible,
        reasons=list(value.pin.reasons),
        environment=dict(value.attempt.environment) if value.attempt else {},
        data=dict(value.attempt.data) if value.attempt else {},
        checkpoints=[
            {"step": c.step, "bytes": c.bytes, "complete": c.complete, "problem": c.problem}
            for c in value.checkpoints
        ],
        saving=list(value.saving),
        metrics=[
            {
                "key": s.key,
                "points": s.count,
                "nonfinite": s.nonfinite,
                "last": s.last,
                "last_step": s.last_step,
                "min": s.min,
                "min_step": s.min_step,
                "max": s.max,
                "max_step": s.max_step,
            }
            for s in value.series.values()
        ],
        events=[
            {"step": e.step, "severity": e.severity, "rule": e.rule, "message": e.message}
            for e in value.events
        ],
        gates=own_gates(gates),
        labels=list(value.labels),
        notes=list(value.notes),
        media=[asdict(item) for item in media.keys],
        artifacts=[asdict(item) for item in media.artifacts],
        problems=list(dict.fromkeys([*value.problems, *media.problems])),
    )


def rollback_plan(plan: RollbackPlan) -> Data:
    """Return `rollback --dry-run`."""
    checkpoint = plan.checkpoint
    return document(
        target={"run": plan.target.run.id, "step": plan.target.step, "commit": plan.commit},
        plan=[{"path": row.path, "action": row.action, "note": row.note} for row in plan.paths],
        blocked=[{"path": b.path, "reason": b.reason, "savable": b.savable} for b in plan.blocked],
        checkpoint={
            "step": checkpoint.step,
            "bytes": checkpoint.bytes,
            "complete": checkpoint.complete,
            "path": plan.checkpoint_path,
        },
        config=[{"key": d.key, **of_keys(d.values)} for d in plan.config if d.differs],
        tree=plan.tree,
        nothing_to_do=plan.nothing_to_do,
    )


def rollback_result(result: RollbackResult) -> Data:
    """Return a rollback that was carried out, continued or taken back."""
    return document(
        op=result.op,
        how=result.how,
        run=result.run,
        step=result.step,
        tree=result.tree,
        num_paths=result.num_paths,
        num_left=result.num_left,
        undo_ref=result.undo_ref,
        saved_refs=list(result.saved_refs),
    )


def worktree(made: WorktreeResult) -> Data:
    """Return the work tree that a rollback made aside."""
    return document(
        op=made.op,
        run=made.target.run.id,
        step=made.target.step,
        commit=made.commit,
        tree=made.tree,
        path=made.path,
        branch=made.branch,
        submodules=list(made.submodules),
    )


def ops(rows: Sequence[OpRow]) -> Data:
    """Return `ops`, newest first."""
    return document(
        ops=[
            {
                "id": row.id,
                "kind": row.kind,
                "created_at": utc(row.created_at_ms),
                "what": row.what,
                "paths": row.num_paths,
                "state": row.state,
                "undone_by": row.undone_by,
                "can_undo": row.can_undo,
                "is_here": row.is_here,
            }
            for row in rows
        ]
    )
