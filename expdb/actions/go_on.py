"""`rollback --continue` and `--abort`: an op that was cut off is finished, or taken back.

Invariant: a path that is neither as before nor as after the op was edited since; it is listed, and
kept, unless it is saved first.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal, cast

from expdb.actions.change import Kind, finish
from expdb.actions.record import Change, decode
from expdb.actions.results import RollbackResult
from expdb.errors import NotFound, Refused
from expdb.git.disk import State, kind_of
from expdb.git.index import entries
from expdb.git.objects import REFS
from expdb.git.restore import path_states
from expdb.git.snapshot import save_worktree
from expdb.git.worktree import WorkTree
from expdb.model import Op
from expdb.store import ops
from expdb.store.files import exclusive
from expdb.store.store import Store
from expdb.text import plain


def continue_(store: Store, worktree: WorkTree, *, force: bool = False) -> RollbackResult:
    """Finish the op of this work tree that was cut off; `force` saves edits made since first.

    Raises:
        NotFound: there is none.
        Refused: paths were edited since; nothing was written.
        Conflict: another process is at it.
    """
    return _settle(store, worktree, back=False, force=force)


def abort(store: Store, worktree: WorkTree, *, force: bool = False) -> RollbackResult:
    """Take back the op of this work tree that was cut off; everything is as before it.

    Raises:
        NotFound, Refused, Conflict: as `continue_`.
    """
    return _settle(store, worktree, back=True, force=force)


def _settle(store: Store, worktree: WorkTree, *, back: bool, force: bool) -> RollbackResult:
    started = time.monotonic()
    with exclusive(ops.lock_path(worktree.git_dir), what="this work tree"):
        begin = ops.find_unfinished(worktree.git_dir, store.layout, holding=True)
        if begin is None:
            raise NotFound("nothing is unfinished in this work tree", hint="expdb ops")
        change = decode(begin)
        states = path_states(worktree, change.rows) if change.rows else {}
        edited = [path for path, where in states.items() if where == "other"]
        saved: dict[str, State | None] = {}
        saved_refs: tuple[str, ...] = ()
        if edited:
            can_save = not any(kind_of(worktree.top, path) == "folder" for path in edited)
            if not force or not can_save:
                raise _edited(begin, edited, back=back, can_save=can_save)
            ref, saved = _save_again(store, worktree, begin, change, edited)
            saved_refs = (ref,)
        goal = "before" if back else "after"
        left = sum(1 for where in states.values() if where != goal)
        try:
            finish(store, worktree, begin, back=back, saved_since=saved, saved_refs=saved_refs)
        except Refused as error:
            if error.details and not error.hints:  # found by the restore, before its first write
                raise _edited(begin, list(error.details), back=back, can_save=False) from error
            raise
    how: Literal["aborted", "continued"] = "aborted" if back else "continued"
    head = change.after.head if begin.kind == "rollback" else None
    return RollbackResult(
        op=begin.id,
        how=how,
        kind=cast("Kind", begin.kind),
        what=begin.what,
        num_paths=len(change.rows),
        num_left=left,
        tree=(change.before if back else change.after).tree,
        undo_ref=f"{REFS}undo/{begin.id}",
        seconds=time.monotonic() - started,
        run=None if head is None else head.run,
        step=None if head is None else head.step,
        saved_refs=saved_refs,
    )


def _save_again(
    store: Store, worktree: WorkTree, begin: Op, change: Change, edited: Sequence[str]
) -> tuple[str, dict[str, State | None]]:
    """Save the present state beside the first one, under the next free name.

    Returns its ref, and each edited path with what it is saved as, None where it is absent.
    """
    number = 2
    while worktree.commit_of(f"{REFS}undo/{begin.id}.{number}") is not None:
        number += 1
    saved = save_worktree(
        worktree,
        store_root=store.root,
        op=f"{begin.id}.{number}",
        exclude=change.exclude,
        secret_files=change.secret_files,
        also=edited,
    )
    found = {entry.path: (entry.mode, entry.blob) for entry in entries(worktree, saved.base_index)}
    return f"{REFS}undo/{begin.id}.{number}", {path: found.get(path) for path in edited}


def _edited(begin: Op, paths: Sequence[str], *, back: bool, can_save: bool = True) -> Refused:
    were = "1 path was" if len(paths) == 1 else f"{len(paths)} paths were"
    verb = "--abort" if back else "--continue"
    hints = [f"look at it first:         git diff {REFS}undo/{begin.id} -- {plain(paths[0])}"]
    if can_save:
        hints.insert(0, f"save your edit and go on: expdb rollback {verb} --force")
    return Refused(
        f"{were} edited since the {begin.kind} stopped: {', '.join(map(plain, paths[:5]))}"
        + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
        + "; nothing written",
        details=tuple(plain(path) for path in paths) if len(paths) > 1 else (),
        hint=tuple(hints),
    )
