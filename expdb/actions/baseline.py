"""`expdb baseline [RUN]`: show the ref `baseline`, or set it."""

from __future__ import annotations

import math
from typing import Any

from expdb.actions.naming import at_step, named
from expdb.actions.results import BaselineResult
from expdb.actions.unfinished import require_finished
from expdb.errors import NotFound, Refused
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.model import Op, Ref, Run, RunAt, RunState
from expdb.query.target import BASELINE
from expdb.store import ops
from expdb.store.ids import new_id
from expdb.store.refs import move_ref, read_ref
from expdb.store.resolve import Resolved
from expdb.store.store import Store
from expdb.text import first_of, short_id


def show_baseline(reader: Reader) -> BaselineResult:
    """Return where the ref `baseline` is; nothing is written."""
    ref = read_ref(reader.store.layout, BASELINE)
    at = _at(ref)
    try:
        run = None if ref is None else reader.run(ref.run)
    except NotFound:  # the run was removed; the ref still says which it was
        run = None
    return BaselineResult(before=at, after=at, op=None, run=run)


def set_baseline(
    reader: Reader, resolved: Resolved, *, worktree: WorkTree | None = None
) -> BaselineResult:
    """Move the ref `baseline` to a run, and write one op.

    Raises:
        Refused: the run is not finished, its objective is not finite, it lacks a metric that it
            requires, or an op of this work tree was cut off.
        Conflict: somebody else moved the ref meanwhile.
    """
    store = reader.store
    if worktree is not None:
        require_finished(worktree, store)
    run = reader.run(resolved.run)
    fault = _fault(run)
    if fault:
        who = short_id(run.id, reader.id_length)
        raise Refused(
            f"{named(run, reader.id_length)} cannot be the baseline: {fault}",
            hint=f"what happened: expdb show {who}",
        )
    before = _at(read_ref(store.layout, BASELINE))
    after = RunAt(run=run.id, step=resolved.step)
    if before == after:
        return BaselineResult(before=before, after=after, op=None, run=run)
    was = "none" if before is None else at_step(short_id(before.run, reader.id_length), before.step)
    op = ref_op(
        kind="baseline",
        name=BASELINE,
        before=before,
        after=after,
        what=f"{BASELINE} → {at_step(short_id(run.id, reader.id_length), after.step)} (was {was})",
        worktree=worktree,
    )
    move_ref(store.layout, BASELINE, "ref", before=before, after=after, op=op)
    return BaselineResult(before=before, after=after, op=op.id, run=run)


def ref_op(
    *,
    kind: str,
    name: str,
    before: RunAt | None,
    after: RunAt | None,
    what: str,
    worktree: WorkTree | None,
    undoes: str | None = None,
    ref_kind: str = "ref",
) -> Op:
    """Return the op of one move of a ref, not written yet."""
    return Op(
        id=new_id(),
        kind=kind,
        created_at_ms=ops.now_ms(),
        what=what,
        before={"ref": name, "kind": ref_kind, **_encode(before)},
        after={"ref": name, "kind": ref_kind, **_encode(after)},
        undoes=undoes,
        who=ops.who(),
        host=ops.host(),
        work_tree="" if worktree is None else str(worktree.git_dir),
    )


def decode_at(data: Any) -> RunAt | None:
    """Return the place of a ref as `before` or `after` of its op has it."""
    run = data.get("run")
    return None if not isinstance(run, str) else RunAt(run=run, step=data.get("step"))


def undo_ref(
    store: Store, op: Op, worktree: WorkTree | None
) -> tuple[Op, RunAt | None, RunAt | None]:
    """Move a ref back to where it was before `op`; return the undo's op, the ref before and after.

    Raises:
        Conflict: the ref has been moved since.
    """
    name, kind = str(op.before["ref"]), op.before["kind"]
    now, back = decode_at(op.after), decode_at(op.before)
    if _at(read_ref(store.layout, name)) == back:
        now = back  # cut off between its op and the move: there is nothing to take back
    undo = ref_op(
        kind="undo",
        name=name,
        before=now,
        after=back,
        what=f"undo of {op.id[:4]}",
        worktree=worktree,
        undoes=op.id,
        ref_kind=kind,
    )
    move_ref(store.layout, name, kind, before=now, after=back, op=undo)
    return undo, now, back


def _at(ref: Ref | None) -> RunAt | None:
    return None if ref is None else RunAt(run=ref.run, step=ref.step)


def _encode(at: RunAt | None) -> dict[str, Any]:
    return {"run": None, "step": None} if at is None else {"run": at.run, "step": at.step}


def _fault(run: Run) -> str:
    """Return why a run cannot be the baseline, or nothing."""
    if run.objective is not None:
        metric = run.objective.metric
        series = run.series.get(metric)
        value = run.value()
        if value is not None and not math.isfinite(value[0]):
            since = series.nonfinite_step if series is not None else None
            return f"{metric} is NaN" + ("" if since is None else f" since step {since}")
        if value is None and run.state is RunState.FINISHED:
            return f"it has no {metric}"
    if run.state is RunState.FINISHED:
        return f"it lacks {first_of(run.lacks)}, which it requires" if run.lacks else ""
    if run.state.is_alive:
        return f"it is {run.state}"
    return f"it {_PAST.get(run.state, f'is {run.state}')}" + (
        f" ({run.reason})" if run.reason else ""
    )


_PAST = {
    RunState.FAILED: "failed",
    RunState.CRASHED: "crashed",
    RunState.PREEMPTED: "was preempted",
}
