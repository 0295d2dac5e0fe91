"""`expdb rollback --worktree DIR`: a fresh git work tree at the code of a run."""

from __future__ import annotations

from pathlib import Path

from expdb.actions import checks
from expdb.actions.naming import at_step, checkpoint_path, named
from expdb.actions.ops import WORK_TREE_MADE
from expdb.actions.results import WorktreeResult
from expdb.errors import BadInput, Refused
from expdb.git.command import GitError
from expdb.git.worktree import Unavailable, WorkTree, find_worktree
from expdb.index.reader import Reader
from expdb.model import Op
from expdb.query.target import choose_target
from expdb.store import ops
from expdb.store.head import Head, read_head, write_head
from expdb.store.ids import new_id


def to_worktree(
    reader: Reader,
    worktree: WorkTree,
    folder: Path,
    word: str | None = None,
    *,
    branch: str | None = None,
) -> WorktreeResult:
    """Make a fresh git work tree at the code of a run, with HEAD there; this one stays as it is.

    Raises:
        NotFound, Ambiguous, BadInput: the word names no run with a checkpoint, or the folder cannot
            be used.
        Refused: the checkpoint is damaged, or the code is not in this repository.
    """
    store = reader.store
    head = read_head(worktree.git_dir)
    target = choose_target(reader, word, head=None if head is None else head.at)
    run = target.run
    checkpoint = checks.require_checkpoint(
        reader, run, target.step, command="expdb rollback --worktree DIR"
    )
    commit, tree = checks.require_code(reader, worktree, run, checks.pin_of(run, checkpoint))
    folder = folder.absolute()
    how = ("--detach",) if branch is None else ("-b", branch)
    try:
        worktree.git(("worktree", "add", *how, str(folder), commit))
    except GitError as error:
        raise BadInput(f"no work tree can be made there: {error.message}") from error
    made = find_worktree(folder)
    if isinstance(made, Unavailable):
        raise Refused(f"the work tree was made, and cannot be read: {made.reason}")
    op = Op(
        id=new_id(),
        kind=WORK_TREE_MADE,
        created_at_ms=ops.now_ms(),
        what=f"work tree at {at_step(named(run, reader.id_length), target.step)}",
        after={"run": run.id, "step": target.step, "commit": commit, "tree": tree},
        who=ops.who(),
        host=ops.host(),
        work_tree=str(made.git_dir),
    )
    ops.write_op(store.layout, op)
    write_head(made.git_dir, Head(run=run.id, step=target.step, op=op.id))
    return WorktreeResult(
        path=str(folder),
        target=target,
        commit=commit,
        tree=tree,
        op=op.id,
        checkpoint=checkpoint,
        checkpoint_path=checkpoint_path(run, target.step),
    )
