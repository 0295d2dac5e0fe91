"""`expdb rollback --worktree DIR`: a fresh git work tree at the code of a run."""

from __future__ import annotations

import os
from pathlib import Path

from expdb.actions import checks
from expdb.actions.naming import at_step, checkpoint_path, named
from expdb.actions.ops import WORK_TREE_MADE
from expdb.actions.results import WorktreeResult
from expdb.errors import BadInput, Refused
from expdb.git.command import GitError
from expdb.git.index import GITLINK, entries
from expdb.git.worktree import Unavailable, WorkTree, find_worktree
from expdb.index.reader import Reader
from expdb.model import Op
from expdb.query.target import choose_target
from expdb.store import ops
from expdb.store.head import Head, read_head, write_head
from expdb.store.ids import new_id
from expdb.text import plain


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
        NotFound, Ambiguous, BadInput: the word names no run with a checkpoint, or the folder or the
            branch cannot be used.
        Refused: the checkpoint is damaged, the code is not in this repository, or git cannot write
            all of it; nothing is left of what was made.
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
    _require_free(store.root, worktree, folder, branch)
    made = _make(worktree, folder, commit, branch)
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
        branch=branch,
        submodules=tuple(e.path for e in entries(made) if e.mode == GITLINK),
    )


def _require_free(store_root: Path, worktree: WorkTree, folder: Path, branch: str | None) -> None:
    """Refuse a folder or a branch that is taken, before git makes half of it.

    Raises:
        BadInput: one of them cannot be used.
    """
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise BadInput(f"there is something at {plain(str(folder))} already")
    if folder.resolve().is_relative_to(store_root.resolve()):
        raise BadInput(f"{plain(str(folder))} lies in the store")
    listed = worktree.git(("worktree", "list", "--porcelain", "-z")).names
    if f"worktree {folder.resolve()}" in listed:
        raise BadInput(f"git has a work tree at {plain(str(folder))}", hint="git worktree prune")
    if branch is None:
        return
    if worktree.git(("check-ref-format", f"refs/heads/{branch}"), check=False).rc != 0:
        raise BadInput(f"{plain(branch)} is no name for a branch")
    if branch.startswith("-"):
        raise BadInput(f"{plain(branch)} is no name for a branch")
    if worktree.commit_of(f"refs/heads/{branch}") is not None:
        raise BadInput(f"there is a branch {plain(branch)} already")


def _make(worktree: WorkTree, folder: Path, commit: str, branch: str | None) -> WorkTree:
    """Make the work tree, whole or not at all.

    Raises:
        Refused: git cannot.
    """
    how = ("--detach",) if branch is None else ("-b", branch)
    existed = folder.exists()
    try:
        # A branch that the user will work on has its log from the start.
        words = ("-c", "core.logAllRefUpdates=true", "worktree", "add", *how, str(folder), commit)
        worktree.git(words)
        made = find_worktree(folder)
    except GitError as error:
        worktree.git(("worktree", "remove", "--force", str(folder)), check=False)
        if branch is not None:
            worktree.git(("update-ref", "-d", f"refs/heads/{branch}", commit), check=False)
        if existed:
            folder.mkdir(exist_ok=True)
        raise Refused(f"git cannot make that work tree: {error.message}") from error
    if isinstance(made, Unavailable):
        raise Refused(f"the work tree was made, and cannot be read: {made.reason}")
    return made
