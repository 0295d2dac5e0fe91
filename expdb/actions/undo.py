"""`expdb undo [OP]`: the state before an op comes back; an undo is an op and can be undone.

Invariant: an undo saves the present state first, like a rollback; nothing that was ever in the work
tree at a rollback or an undo is lost.
"""

from __future__ import annotations

import time
from dataclasses import replace

from expdb.actions.baseline import undo_ref
from expdb.actions.change import Goal, carry_out
from expdb.actions.gc.collect import undo_gc
from expdb.actions.live import require_idle
from expdb.actions.marks import undo_mark
from expdb.actions.ops import (
    WORK_TREE_MADE,
    History,
    is_of_gc,
    is_of_marks,
    is_of_ref,
    is_of_trash,
    is_of_tree,
    only_adds,
)
from expdb.actions.record import decode
from expdb.actions.restore import undo_removal
from expdb.actions.results import UndoResult
from expdb.actions.unfinished import require_finished
from expdb.errors import Ambiguous, BadInput, NotFound, Refused
from expdb.git.diff import has_object
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.model import Op
from expdb.store.ops import read_ops
from expdb.store.store import Store

MIN_PREFIX = 4
WORK_TREE_KINDS = ("rollback", "undo")


def undo(
    reader: Reader,
    worktree: WorkTree | None,
    word: str | None = None,
    *,
    force: bool = False,
    problems: list[str] | None = None,
) -> UndoResult:
    """Undo the op called `word`, else the newest of this work tree that stands.

    `force` saves single files in the way first. Damaged ops are named in `problems` and passed
    over.

    Raises:
        NotFound: there is no such op, or nothing to undo.
        Ambiguous: several op ids begin so.
        Refused: it cannot be undone here and now; nothing was written.
        Conflict: the ref that it moved has been moved since.
        Corrupt: the store cannot be written.
    """
    started = time.monotonic()
    op = op_to_undo(reader.store, worktree, word, problems=problems)
    if not is_of_tree(op) or worktree is None:
        return replace(_undo_record(reader, worktree, op), seconds=time.monotonic() - started)
    return _undo_tree(reader, worktree, op, started=started, force=force)


def op_to_undo(
    store: Store,
    worktree: WorkTree | None,
    word: str | None = None,
    *,
    problems: list[str] | None = None,
) -> Op:
    """Return the op that an undo takes back: the one called `word`, else the newest that stands.

    Raises:
        NotFound, Ambiguous, Refused: see `undo`.
    """
    if worktree is not None:
        require_finished(worktree, store)
    history = History(read_ops(store.layout, problems=[] if problems is None else problems))
    here = "" if worktree is None else str(worktree.git_dir)
    op = history.newest_to_undo(here) if word is None else _named(history, word)
    if op is None:
        raise NotFound("nothing to undo in this work tree", hint="expdb ops --all")
    _require_standing(history, op)
    if is_of_tree(op) and (worktree is None or op.work_tree != here):
        raise Refused(f"op {op.id} was made in another work tree", hint="undo it there")
    return op


def _undo_record(reader: Reader, worktree: WorkTree | None, op: Op) -> UndoResult:
    """Undo an op on a ref, on marks, on the trash or of a collection."""
    if is_of_ref(op):
        ref = str(op.before["ref"])
        done, before, after = undo_ref(reader.store, op, worktree)
        return UndoResult(op=done.id, undone=op, ref=ref, ref_before=before, ref_after=after)
    if is_of_marks(op):
        done, what = undo_mark(reader.store, op, worktree)
        kind = str(op.before["mark"])
        return UndoResult(op=done.id, undone=op, record=(kind, what))
    if is_of_gc(op):
        done, what = undo_gc(reader, op, worktree)
        return UndoResult(op=done.id, undone=op, record=("gc", what))
    assert is_of_trash(op)
    done, what = undo_removal(reader, op, worktree)
    return UndoResult(op=done.id, undone=op, record=("runs", what))


def _undo_tree(
    reader: Reader, worktree: WorkTree, op: Op, *, started: float, force: bool
) -> UndoResult:
    idle = require_idle(reader, worktree.git_dir)
    state = decode(op).before
    index = worktree.private_dir / f"{state.index}.index"
    if not has_object(worktree, state.commit) or not index.is_file():
        raise Refused(
            f"what op {op.id} saved is gone from this repository; nothing written",
            hint=f"its paths: expdb ops; its commit was {state.commit[:7]}",
        )
    done = carry_out(reader.store, worktree, undo_goal(op), force=force, own=True, idle=idle)
    actions = [row.action for row in done.change.rows]
    return UndoResult(
        op=done.op.id,
        undone=op,
        num_changed=actions.count("change"),
        num_created=actions.count("create"),
        num_deleted=actions.count("delete"),
        num_staged=_num_staged(worktree),
        head=None if state.head is None else state.head.at,
        seconds=time.monotonic() - started,
    )


def undo_goal(op: Op) -> Goal:
    """Return the goal of the undo of a change of a work tree.

    Raises:
        Corrupt: the op records none.
    """
    change = decode(op)
    return Goal(
        kind="undo",
        what=f"undo of {op.id[:MIN_PREFIX]}",
        tree=change.before.tree,
        commit=change.before.commit,
        state=change.before,
        undoes=op.id,
        created=frozenset(row.path for row in change.rows if row.before is None),
        exclude=change.exclude,
        secret_files=change.secret_files,
    )


def _named(history: History, word: str) -> Op:
    if len(word) < MIN_PREFIX:
        raise BadInput(f"an op is named by {MIN_PREFIX} characters or more", hint="expdb ops --all")
    found = [op for op in history.ops if op.id.startswith(word)]
    if not found:
        raise NotFound(f"there is no op {word}", hint="expdb ops --all")
    if len(found) > 1:
        raise Ambiguous(
            f"{word} begins {len(found)} op ids",
            details=tuple(f"{op.id}  {op.what}" for op in found),
            hint="one more character is enough",
        )
    return found[0]


def _require_standing(history: History, op: Op) -> None:
    if is_of_tree(op) and op.kind not in WORK_TREE_KINDS:
        removed = "the folder goes by: git worktree remove DIR"
        hint = removed if op.kind == WORK_TREE_MADE else "expdb ops"
        raise Refused(f"op {op.id} ({op.what}) cannot be undone", hint=hint)
    if only_adds(op):
        raise Refused(
            f"op {op.id} ({op.what}) brought no new run: there is nothing to take away",
            hint="expdb ops",
        )
    undone = history.undone_by(op)
    if undone is not None:
        raise Refused(
            f"op {op.id} is undone already, by {undone.id}",
            hint=f"again: expdb undo {undone.id[:MIN_PREFIX]}",
        )
    if history.state[op.id] != "done":
        raise Refused(f"op {op.id} ({op.what}) was taken back before it ended", hint="expdb ops")


def _num_staged(worktree: WorkTree) -> int:
    """Return how many paths git's index has that HEAD has not, or differently."""
    head = worktree.head()
    if head is None:
        return len(worktree.git(("ls-files", "-z")).names)
    return len(worktree.git(("diff-index", "--cached", "--name-only", "-z", head)).names)
