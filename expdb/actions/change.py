"""Carrying out a change of a work tree, so that it can be finished or taken back from any point.

The order: lock, mark, snapshot and plan, begin-op, files and index, verification, HEAD, end-op,
mark and lock away.

Invariant: before the begin-op nothing that the user sees is changed; after it the op has all that
is needed to go on in either direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from expdb.actions.checks import (
    own_paths,
    require_calm,
    require_foreign,
    require_free,
    store_paths,
)
from expdb.actions.live import Idle, require_none_started
from expdb.actions.plan import odd_modes, save_and_plan
from expdb.actions.record import Change, TreeState, decode, encode
from expdb.actions.unfinished import require_finished
from expdb.errors import Corrupt, Refused
from expdb.git.disk import State, kind_of
from expdb.git.index import entries
from expdb.git.restore import PlanRow, path_states, put_index_back, restore, verify
from expdb.git.snapshot import Saved, forget_saved
from expdb.git.untracked import DEFAULT_EXCLUDE, DEFAULT_SECRET_FILES
from expdb.git.worktree import WorkTree
from expdb.model import Op, RunAt
from expdb.store import ops
from expdb.store.files import exclusive
from expdb.store.head import Head, read_head, write_head
from expdb.store.ids import new_id
from expdb.store.store import Store
from expdb.text import plain

Kind = Literal["rollback", "undo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Where a work tree is to go, and why."""

    kind: Kind
    what: str
    """One line for people: `rollback to k3f9 baseline@300`."""
    tree: str
    commit: str
    at: RunAt | None = None
    """What HEAD becomes, set by the op itself; else it becomes `state.head`."""
    state: TreeState | None = None
    """The saved state that comes back, for an undo."""
    undoes: str | None = None
    created: frozenset[str] = frozenset()
    """Paths that the op created which an undo takes back."""
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    secret_files: tuple[str, ...] = DEFAULT_SECRET_FILES
    aside: str = "DIR"
    """A folder for a fresh work tree, for hints: `../at-k3f9`."""

    def after(self, op: str) -> TreeState:
        """Return the state that the op `op` leads to."""
        if self.state is not None:
            return self.state
        head = None if self.at is None else Head(run=self.at.run, step=self.at.step, op=op)
        return TreeState(tree=self.tree, commit=self.commit, index=None, head=head)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A change that was carried out."""

    op: Op
    """The begin-op."""
    change: Change
    num_written: int
    edited_outside: tuple[str, ...] = ()
    """Tracked paths outside the plan that were edited meanwhile; they were left as they are."""


def carry_out(
    store: Store,
    worktree: WorkTree,
    goal: Goal,
    *,
    force: bool = False,
    own: bool = False,
    idle: Idle | None = None,
) -> Done:
    """Bring the work tree to the goal; `idle` are the runs that need no further look.

    Raises:
        Refused: something would be lost, or is in the way; nothing was written.
        Conflict: another process is changing this work tree.
        Corrupt: the result is not what it should be; it can be continued or taken back.
    """
    op = new_id()
    with exclusive(ops.lock_path(worktree.git_dir), what="this work tree"):
        require_finished(worktree, store, holding=True)
        require_calm(worktree)
        marker = ops.Marker(
            op=op,
            store=str(store.root.resolve()),
            kind=goal.kind,
            what=goal.what,
            created_at_ms=ops.now_ms(),
        )
        ops.mark_unfinished(worktree.git_dir, marker)
        begun = False
        try:
            aside = goal.aside if goal.kind == "rollback" else ""
            require_none_started(store, worktree.git_dir, idle=idle, aside=aside)
            begin = _begin(store, worktree, goal, op, force=force, own=own)
            ops.write_op(store.layout, begin)
            begun = True
        finally:
            if not begun:
                forget_saved(worktree, op)
                ops.clear_unfinished(worktree.git_dir, op)
        try:
            return finish(store, worktree, begin)
        except Refused:
            _close_untouched(store, worktree, begin)
            raise


def _close_untouched(store: Store, worktree: WorkTree, begin: Op) -> None:
    """End an op that was refused before its first write; any other stays unfinished."""
    states = path_states(worktree, decode(begin).rows)
    if "after" not in states.values():
        _end(store, worktree, begin, phase="abort")


def _begin(store: Store, worktree: WorkTree, goal: Goal, op: str, *, force: bool, own: bool) -> Op:
    """Save the present state and return the begin-op, not written yet."""
    saved, rows, blocked = save_and_plan(
        worktree,
        goal.tree,
        op=op,
        store_root=store.root,
        exclude=goal.exclude,
        secret_files=goal.secret_files,
        known_absent=known_absent(worktree, goal),
        kept={} if goal.state is None else goal.state.raw,
        force=force,
    )
    blocked = (*store_paths(store, worktree, rows), *blocked)
    require_free(rows, blocked, kind=goal.kind, aside=goal.aside)
    if not own:
        require_foreign(own_paths(worktree, rows), aside=goal.aside)
    before, after = encode(
        Change(
            before=_state_of(worktree, saved, op, rows),
            after=goal.after(op),
            rows=rows,
            exclude=goal.exclude,
            secret_files=goal.secret_files,
        )
    )
    return Op(
        id=op,
        kind=goal.kind,
        phase="begin",
        created_at_ms=ops.now_ms(),
        what=goal.what,
        before=before,
        after=after,
        undoes=goal.undoes,
        who=ops.who(),
        host=ops.host(),
        work_tree=str(worktree.git_dir),
    )


def known_absent(worktree: WorkTree, goal: Goal) -> frozenset[str] | None:
    """Return the paths that a saved state did not have on disk, unless its tree has them."""
    if goal.state is None or goal.state.index is None:
        return None
    index = worktree.private_dir / f"{goal.state.index}.index"
    return goal.created | {entry.path for entry in entries(worktree, index)}


def _state_of(worktree: WorkTree, saved: Saved, op: str, rows: Sequence[PlanRow]) -> TreeState:
    return TreeState(
        tree=saved.tree,
        commit=saved.commit,
        index=op,
        head=read_head(worktree.git_dir),
        modes=odd_modes(worktree.top, rows),
        raw=saved.raw,
    )


def finish(
    store: Store,
    worktree: WorkTree,
    begin: Op,
    *,
    back: bool = False,
    saved_since: Mapping[str, State | None] | None = None,
    saved_refs: Sequence[str] = (),
) -> Done:
    """Do what a begin-op says, or with `back` take it back; any part may have been done already.

    `saved_since` are the paths that were edited since and are saved, each with what it was saved
    as: only as such it is overwritten.

    Raises:
        Refused: a path was edited since, or git's index is locked; nothing was written.
        Corrupt: the result is not what it should be.
    """
    recorded = decode(begin)
    change = recorded.reversed() if back else recorded
    private = worktree.private_dir
    num_written = 0
    if change.rows:
        num_written = restore(
            worktree,
            base_index=private / f"{begin.id}.base-index",
            tree=change.after.tree,
            rows=_as_saved(change.rows, saved_since or {}),
        )
    for path, mode in change.after.modes.items():
        if kind_of(worktree.top, path) == "file":
            (worktree.top / path).chmod(mode)
    outside = _verify(worktree, begin, change)
    if change.after.index is not None:
        put_index_back(worktree, private / f"{change.after.index}.index")
    write_head(worktree.git_dir, change.after.head)
    _end(store, worktree, begin, phase="abort" if back else "end", saved_refs=saved_refs)
    return Done(op=begin, change=change, num_written=num_written, edited_outside=outside)


def _as_saved(rows: Sequence[PlanRow], saved: Mapping[str, State | None]) -> tuple[PlanRow, ...]:
    """Return the rows with what was saved since as what stands before them."""
    return tuple(
        replace(row, before=saved[row.path], raw_before=None) if row.path in saved else row
        for row in rows
    )


def _end(
    store: Store,
    worktree: WorkTree,
    begin: Op,
    *,
    phase: Literal["end", "abort"],
    saved_refs: Sequence[str] = (),
) -> None:
    end = Op(
        id=new_id(),
        kind=begin.kind,
        phase=phase,
        created_at_ms=ops.now_ms(),
        parents=(begin.id,),
        what=begin.what,
        after={"saved": list(saved_refs)} if saved_refs else {},
        who=ops.who(),
        host=ops.host(),
        work_tree=begin.work_tree,
    )
    ops.write_op(ops.layout_of(begin.id, worktree.git_dir, store.layout), end)
    ops.clear_unfinished(worktree.git_dir, begin.id)


def _verify(worktree: WorkTree, begin: Op, change: Change) -> tuple[str, ...]:
    """Return the paths outside the plan that differ; they were edited meanwhile.

    Raises:
        Corrupt: a path of the plan is not what it should be.
    """
    planned = {row.path for row in change.rows}
    differing = verify(worktree, change.after.tree, change.rows)
    wrong = [path for path in differing if path in planned]
    if wrong:
        raise Corrupt(
            f"{begin.what}: {len(wrong)} of {len(planned)} paths did not come out as they should",
            details=tuple(plain(path) for path in wrong[:20]),
            hint="take it back: expdb rollback --abort",
        )
    return tuple(differing)
