"""What an undo would do, before anybody is asked; nothing is written.

Invariant: the op and the plan are found by the code that carries the undo out.
"""

from __future__ import annotations

from dataclasses import dataclass

from expdb.actions import checks
from expdb.actions.baseline import decode_at
from expdb.actions.change import known_absent
from expdb.actions.naming import at_step
from expdb.actions.ops import is_of_ref, is_of_tree
from expdb.actions.preview import preview
from expdb.actions.results import BlockedPath, PlanPath
from expdb.actions.rollback import blocked_paths, planned_paths
from expdb.actions.undo import op_to_undo, undo_goal
from expdb.errors import Refused
from expdb.git.diff import has_object
from expdb.git.status import read_edits
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.model import Op, RunAt
from expdb.text import short_id


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    """What an undo would take back."""

    op: Op
    ref: str = ""
    """The ref that would move, for an op on refs; with where it is and where it was."""
    ref_now: str = ""
    ref_then: str = ""
    is_of_tree: bool = False
    """Whether files of the work tree change; else nothing but the store does."""
    paths: tuple[PlanPath, ...] = ()
    """By path; the blocked ones included."""
    blocked: tuple[BlockedPath, ...] = ()
    head: RunAt | None = None
    """Where HEAD comes back to; None: it follows the baseline."""


def plan_undo(reader: Reader, worktree: WorkTree | None, word: str | None = None) -> UndoPlan:
    """Return what `undo` would do.

    Raises:
        NotFound, Ambiguous, Refused: there is nothing to undo, or it cannot be undone here.
    """
    op = op_to_undo(reader.store, worktree, word)
    if is_of_tree(op) and worktree is not None:
        return _of_tree(reader, worktree, op)
    if is_of_ref(op):
        now, then = (_at(reader, decode_at(state)) for state in (op.after, op.before))
        return UndoPlan(op=op, ref=str(op.before["ref"]), ref_now=now, ref_then=then)
    return UndoPlan(op=op)


def _at(reader: Reader, at: RunAt | None) -> str:
    return "none" if at is None else at_step(short_id(at.run, reader.id_length), at.step)


def _of_tree(reader: Reader, worktree: WorkTree, op: Op) -> UndoPlan:
    goal = undo_goal(op)
    state = goal.state
    if state is None or not has_object(worktree, goal.commit):
        raise Refused(f"what op {op.id} saved is gone from this repository", hint="expdb ops")
    checks.require_calm(worktree)
    rows, blocked = preview(
        worktree,
        goal.tree,
        store_root=reader.store.root,
        exclude=goal.exclude,
        secret_files=goal.secret_files,
        known_absent=known_absent(worktree, goal),
        kept=state.raw,
    )
    blocked = (*checks.store_paths(reader.store, worktree, rows), *blocked)
    edits = dict((path, letter) for letter, path in read_edits(worktree))
    return UndoPlan(
        op=op,
        is_of_tree=True,
        paths=planned_paths(rows, edits, worktree.head()),
        blocked=blocked_paths(blocked),
        head=None if state.head is None else state.head.at,
    )
