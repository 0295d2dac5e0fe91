"""`expdb ops`: what was changed, newest first, and what can be undone.

Invariant: an op is undone while an undo of it is in force, that is, done and not undone itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from expdb.actions.results import OpRow
from expdb.git.worktree import WorkTree
from expdb.model import Op
from expdb.store.ops import read_marker, read_ops
from expdb.store.store import Store

REF_KINDS = frozenset({"baseline", "tag"})
RUN_KINDS = frozenset({"label", "note", "ack", "rm", "restore", "gc", "pull"})
TREE_KINDS = frozenset({"rollback"})
WORK_TREE_MADE = "worktree"
"""Of a folder that `rollback --worktree` made: git removes it, no undo does."""
UNDOABLE = TREE_KINDS | REF_KINDS | RUN_KINDS
"""Kinds of which plain `undo` takes the newest; an undo is taken back by its own id only."""


class History:
    """The ops of a store, begin and end joined; `read_ops` gives them oldest first."""

    def __init__(self, found: Sequence[Op]) -> None:
        ends = {parent: op for op in found if op.phase in ("end", "abort") for parent in op.parents}
        self.ops = [op for op in found if op.phase in ("whole", "begin")]
        self.state: dict[str, Literal["done", "unfinished", "aborted"]] = {
            op.id: _state(op, ends.get(op.id)) for op in self.ops
        }
        self.undos: dict[str, list[Op]] = {}
        for op in self.ops:
            if op.undoes is not None and self.state[op.id] == "done":
                self.undos.setdefault(op.undoes, []).append(op)

    def undone_by(self, op: Op) -> Op | None:
        """Return the undo of `op` that is in force."""
        return next((u for u in self.undos.get(op.id, ()) if self.undone_by(u) is None), None)

    def stands(self, op: Op) -> bool:
        """Tell whether `op` was done and is in force."""
        return self.state[op.id] == "done" and self.undone_by(op) is None

    def newest_to_undo(self, work_tree: str) -> Op | None:
        """Return the op that a plain `undo` in this work tree takes."""
        for op in reversed(self.ops):
            is_ours = op.work_tree == work_tree and op.kind in UNDOABLE
            if is_ours and not only_adds(op) and self.stands(op):
                return op
        return None


def op_rows(
    store: Store,
    worktree: WorkTree | None,
    *,
    all_trees: bool = False,
    problems: list[str] | None = None,
) -> list[OpRow]:
    """Return the ops of this work tree and of the store, newest first; with `all_trees` every op.

    Damaged ones are named in `problems` and passed over.
    """
    history = History(read_ops(store.layout, problems=[] if problems is None else problems))
    here = "" if worktree is None else str(worktree.git_dir)
    mark = None if worktree is None else read_marker(worktree.git_dir)
    rows = []
    for op in reversed(history.ops):
        other = bool(op.work_tree) and op.work_tree != here
        if other and not all_trees and is_of_tree(op):
            continue
        state = history.state[op.id]
        if state == "unfinished" and not other and (mark is None or mark.op != op.id):
            state = (
                "aborted"  # its mark was removed by hand: it can be neither continued nor undone
            )
        undo = history.undone_by(op)
        rows.append(
            OpRow(
                id=op.id,
                kind=op.kind,
                created_at_ms=op.created_at_ms,
                what=op.what,
                num_paths=len(op.after.get("plan", ())) if is_of_tree(op) else None,
                state=state,
                undone_by=None if undo is None else undo.id,
                can_undo=state == "done" and undo is None and _is_ours(op, other=other),
                is_here=False,
                other_work_tree=other,
                who=op.who,
                host=op.host,
            )
        )
    return _mark_here(rows)


def _is_ours(op: Op, *, other: bool) -> bool:
    """Tell whether an undo in this work tree could take the op back."""
    if only_adds(op):
        return False
    return not is_of_tree(op) or (not other and op.kind != WORK_TREE_MADE)


def is_of_ref(op: Op) -> bool:
    """Tell whether an op moved a ref, and no file of a work tree."""
    return "ref" in op.before


def is_of_marks(op: Op) -> bool:
    """Tell whether an op changed labels, notes or what is acknowledged."""
    return "mark" in op.before


def is_of_trash(op: Op) -> bool:
    """Tell whether an op moved runs into the trash or back."""
    return "trash" in op.before


def is_of_gc(op: Op) -> bool:
    """Tell whether an op collected checkpoints and pins, or brought them back."""
    return "checkpoints" in op.before


def only_adds(op: Op) -> bool:
    """Tell whether an op only added to runs that were here, as a pull may: nothing is undone."""
    return "pulled" in op.after and not op.before["trash"]


def is_of_tree(op: Op) -> bool:
    """Tell whether an op changed files of a work tree, not only names and folders of the store."""
    return not (is_of_ref(op) or is_of_marks(op) or is_of_trash(op) or is_of_gc(op))


def _state(op: Op, end: Op | None) -> Literal["done", "unfinished", "aborted"]:
    if op.phase == "whole" or (end is not None and end.phase == "end"):
        return "done"
    return "unfinished" if end is None else "aborted"


def _mark_here(rows: list[OpRow]) -> list[OpRow]:
    from dataclasses import replace

    for place, row in enumerate(rows):
        if not row.other_work_tree and row.state == "done" and row.num_paths is not None:
            rows[place] = replace(row, is_here=True)
            break
    return rows
