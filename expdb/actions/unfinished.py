"""An op of a work tree that was cut off: finding it, and refusing to write until it is settled."""

from __future__ import annotations

from expdb.actions.record import decode
from expdb.actions.results import UnfinishedOp
from expdb.errors import Refused
from expdb.git.restore import path_states
from expdb.git.worktree import WorkTree
from expdb.store.ops import find_unfinished, is_held
from expdb.store.store import Store

HINTS = (
    "finish it:    expdb rollback --continue",
    "take it back: expdb rollback --abort",
)


def unfinished(worktree: WorkTree, store: Store, *, holding: bool = False) -> UnfinishedOp | None:
    """Return the op of this work tree that was cut off, or is under way; cheap when there is none.

    `holding` says that the caller has the lock of this work tree.
    """
    op = find_unfinished(worktree.git_dir, store.layout, holding=holding)
    if op is None:
        return None
    rows = decode(op).rows if op.after else ()
    states = path_states(worktree, rows) if rows else {}
    num_done = sum(1 for where in states.values() if where == "after")
    is_alive = not holding and is_held(worktree.git_dir)
    return UnfinishedOp(op=op, num_done=num_done, num_paths=len(rows), is_alive=is_alive)


def require_finished(worktree: WorkTree, store: Store, *, holding: bool = False) -> None:
    """Refuse while an op of this work tree is cut off or under way.

    Raises:
        Refused: one is.
    """
    found = unfinished(worktree, store, holding=holding)
    if found is not None:
        raise Refused(
            f"{found.line} (op {found.op.id}); nothing written",
            hint="wait for it, then again" if found.is_alive else HINTS,
        )
