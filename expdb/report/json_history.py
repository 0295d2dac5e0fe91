"""`log --graph` and `events` as documents for `--json`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expdb.query.history_results import EventList, EventRow, History, Node, Replay
from expdb.query.results import ABSENT
from expdb.report.json import Data, document, run_at, utc

if TYPE_CHECKING:
    from expdb.actions.results import AckResult


def history(result: History) -> Data:
    """Return `log --graph`: the nodes in the order in which they are drawn, each with its place."""
    return document(
        nodes=[_node(node, result) for node in result.nodes],
        metric=result.metric,
        num_all=result.num_all,
        noise=None if result.noise is None else {"sd": result.noise.sd, "band": result.noise.band},
    )


def _node(node: Node, result: History) -> Data:
    lead, delta = node.lead, node.delta
    return {
        "id": lead.id,
        "runs": [row.id for row in node.rows],
        "experiment": lead.experiment,
        "variant": lead.variant,
        "seeds": [row.seed for row in node.rows],
        "state": lead.state.value,
        "parent": lead.parent,
        "parent_in_store": node.parent is not None,
        "children": [result.nodes[at].lead.id for at in node.children],
        "fork": run_at(node.fork),
        "changes": {
            "config": [
                {
                    "key": one.key,
                    "values": [None if v is ABSENT else v for v in (one.before, one.after)],
                    "absent": [at for at, v in enumerate((one.before, one.after)) if v is ABSENT],
                }
                for one in node.config
            ],
            "code": None
            if node.code is None
            else {
                "trees": [node.code.before, node.code.after],
                "files": node.code.num_files,
            },
            "used": None if node.used is None else list(node.used),
            "data": list(node.data),
            "environment": list(node.environment),
            "seed": node.seed_differs,
        },
        "value": node.value,
        "delta": None if delta is None else delta.value,
        "at_step": None if delta is None else delta.at_step,
        "outcome": None if delta is None or delta.outcome is None else delta.outcome.value,
        "against": list(node.against),
    }


def events(result: EventList) -> Data:
    """Return `events`, in the order of the rows."""
    first, healthy = result.first, result.healthy
    return document(
        events=[event_row(row) for row in result.rows],
        num_all=result.num_all,
        num_runs=result.num_runs,
        first=None
        if first is None
        else {"step": first.event.step, "rule": first.event.rule, "good_checkpoint": first.good},
        healthy=None
        if healthy is None
        else {"run": healthy.run, "experiment": healthy.name, "differing": list(healthy.keys)},
        replay=None if result.replay is None else replay(result.replay),
    )


def acknowledged(result: AckResult) -> Data:
    """Return the events of a run that were acknowledged."""
    return document(
        run=result.run.id,
        acknowledged=[
            {"step": one.step, "severity": one.severity, "rule": one.rule, "key": one.key}
            for one in result.events
        ],
        op=result.op,
    )


def replay(found: Replay) -> Data:
    """Return how a replay compares with the run."""
    return {
        "is_equal": found.is_equal,
        "num_recorded": found.num_recorded,
        "num_same": len(found.events) - len(found.new),
        "new": [{"step": one.step, "rule": one.rule, "key": one.key} for one in found.new],
        "gone": [{"step": one.step, "rule": one.rule, "key": one.key} for one in found.gone],
        "problems": list(found.problems),
    }


def event_row(row: EventRow) -> Data:
    """Return one event with its run."""
    return {
        "run": row.run,
        "experiment": row.name,
        "seed": row.seed,
        "step": row.event.step,
        "severity": row.event.severity,
        "rule": row.event.rule,
        "key": row.event.key,
        "message": row.event.message,
        "now": row.event.now,
        "acknowledged": row.event.is_acknowledged,
        "facts": dict(row.event.facts),
        "created_at": utc(row.event.created_at_ms),
    }
