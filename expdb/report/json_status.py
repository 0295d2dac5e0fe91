"""`status` as a document for `--json`, and why something is stale."""

from __future__ import annotations

from collections.abc import Sequence

from expdb.query.status_results import Reason, StatusRow, StoreStatus
from expdb.report.json import Data, document, of_keys, own_gates, run_row


def status(result: StoreStatus) -> Data:
    """Return `status`."""
    tree = result.work_tree
    return document(
        store=result.store,
        num_runs=result.num_runs,
        bytes=result.bytes,
        counts=dict(result.counts),
        work_tree={
            "in_git": tree.in_git,
            "branch": tree.branch,
            "commit": tree.commit,
            "edits": [{"status": letter, "path": path} for letter, path in tree.edits],
            "head": tree.head.id if tree.head else None,
            "head_step": tree.head_step,
            "equals_head": tree.equals_head,
            "unfinished": tree.unfinished,
        },
        runs=[run_row(row.run) for row in result.rows if row.run is not None],
        experiments=[_status_row(row) for row in result.rows],
    )


def _status_row(row: StatusRow) -> Data:
    return {
        "experiment": row.experiment,
        "variant": row.variant,
        "seed": row.seed,
        "state": row.state,
        "declared": row.is_declared,
        "run": row.run.id if row.run else None,
        "reasons": reasons(row.reasons),
        "fault": row.fault or None,
        "overrides": list(row.overrides),
        "lacks": list(row.lacks),
        "gates": own_gates(row.gates),
    }


def reasons(found: Sequence[Reason]) -> list[Data]:
    """Return why a run is not what is declared."""
    return [
        {
            "kind": reason.kind,
            "name": reason.name,
            "key": reason.key or None,
            **of_keys((reason.old, reason.new)),
        }
        for reason in found
    ]
