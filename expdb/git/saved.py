"""The present state of a work tree, saved so that a rollback can be taken back.

Layout: `refs/expdb/undo/<op>` names a commit whose tree is the work tree and whose last parent is a
commit of the index's tree; its parent before that is HEAD, where there is one. Where git would not
write bytes back, the index's commit has a parent that holds them (`raw.py`). In `<git
dir>/expdb/`, `<op>.index` is git's index as it was and `<op>.base-index` the index that describes
the saved tree.

Invariant: saving changes nothing that the user sees; edits hidden by flags are saved too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from expdb.errors import Refused
from expdb.git.capture import add_paths, capture, missing_from
from expdb.git.command import nul_joined
from expdb.git.index import Entry, copy_index, entries, fill_index, temp_index, write_tree
from expdb.git.objects import REFS, commit_tree, drop_ref, set_ref
from expdb.git.raw import keep_raw
from expdb.git.special import is_sparse
from expdb.git.untracked import DEFAULT_EXCLUDE, DEFAULT_SECRET_FILES
from expdb.git.worktree import WorkTree
from expdb.text import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A work tree as it was, and how to get it back."""

    commit: str
    tree: str
    index_tree: str
    index_copy: Path
    """Git's index as it was; an empty index where there was none."""
    base_index: Path
    """An index that holds `tree` and knows the files; the restore starts from it."""
    untracked: tuple[str, ...] = ()
    """Untracked files that are in the tree."""
    skipped: tuple[str, ...] = ()
    """Untracked files that are not."""
    reasons: tuple[str, ...] = ()
    """What is not in the tree, in plain words."""
    raw: Mapping[str, str] = field(default_factory=dict)
    """Path -> blob of the bytes as they are on disk, for what git would write otherwise."""


def save_worktree(
    worktree: WorkTree,
    *,
    store_root: Path,
    op: str,
    exclude: Sequence[str] = DEFAULT_EXCLUDE,
    secret_files: Sequence[str] = DEFAULT_SECRET_FILES,
    also: Sequence[str] = (),
    raw: Sequence[str] = (),
) -> Saved:
    """Save work tree and index under `refs/expdb/undo/<op>`; `also` names files to save of any kind
    and size, `raw` files whose very bytes are kept beside what git makes of them.

    Raises:
        Refused: the index has unresolved conflicts.
        GitError: git cannot read or write the repository.
    """
    folder = worktree.private_dir
    folder.mkdir(exist_ok=True)
    index_copy, base_index = _paths(worktree, op)
    _save_index(worktree, index_copy)
    found = entries(worktree, index_copy)
    _require_resolved(found)
    with temp_index(worktree, index_copy) as temp:
        index_tree = write_tree(worktree, temp)
    head = worktree.head()
    with temp_index(worktree, index_copy) as temp:
        _clear_flags(worktree, temp, found)
        captured = capture(
            worktree,
            temp,
            head=head,
            changed=missing_from(worktree, temp),
            store_root=store_root,
            exclude=exclude,
            secret_files=secret_files,
        )
        add_paths(worktree, temp, also)
        tree = write_tree(worktree, temp)
        copy_index(temp, base_index, durable=True)
    kept, blobs = keep_raw(worktree, raw) if raw else (None, {})
    below = [] if kept is None else [kept]
    index_commit = commit_tree(worktree, index_tree, below, f"expdb: the index before {op}")
    parents = [index_commit] if head is None else [head, index_commit]
    commit = commit_tree(worktree, tree, parents, f"expdb: the work tree before {op}")
    set_ref(worktree, f"undo/{op}", commit)
    return Saved(
        commit=commit,
        tree=tree,
        index_tree=index_tree,
        index_copy=index_copy,
        base_index=base_index,
        untracked=captured.untracked,
        skipped=captured.skipped,
        reasons=captured.reasons,
        raw=blobs,
    )


def load_saved(worktree: WorkTree, op: str) -> Saved | None:
    """Return what was saved under `op`, without the lists; None when its ref or index is gone."""
    index_copy, base_index = _paths(worktree, op)
    ref = f"{REFS}undo/{op}"
    commit = worktree.commit_of(ref)
    if commit is None or not index_copy.is_file():
        return None
    tree = worktree.tree_of(commit)
    index_tree = worktree.tree_of(f"{commit}^2") or worktree.tree_of(f"{commit}^1")
    if tree is None or index_tree is None:
        return None
    return Saved(
        commit=commit,
        tree=tree,
        index_tree=index_tree,
        index_copy=index_copy,
        base_index=base_index,
    )


def forget_saved(worktree: WorkTree, op: str) -> None:
    """Drop what was saved under `op`: the ref and both index files."""
    drop_ref(worktree, f"undo/{op}")
    for path in _paths(worktree, op):
        path.unlink(missing_ok=True)


def _paths(worktree: WorkTree, op: str) -> tuple[Path, Path]:
    folder = worktree.private_dir
    return folder / f"{op}.index", folder / f"{op}.base-index"


def _save_index(worktree: WorkTree, target: Path) -> None:
    if not copy_index(worktree.index_path, target, durable=True):
        fill_index(worktree, target, None)
    elif any(worktree.git_dir.glob("sharedindex.*")):
        # A split index leans on a file that git may drop later; the copy has to stand alone.
        worktree.git(("update-index", "--no-split-index"), index=target)


def _require_resolved(found: Sequence[Entry]) -> None:
    paths = sorted({entry.path for entry in found if entry.stage != "0"})
    if paths:
        named = plain(paths[0]) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
        raise Refused(
            f"git's index has unresolved conflicts: {named}",
            hint="resolve them and git add the files, then again",
        )


def _clear_flags(worktree: WorkTree, index: Path, found: Sequence[Entry]) -> None:
    assumed = [entry.path for entry in found if entry.assumed]
    skipped = [e.path for e in found if e.skipped and os.path.lexists(worktree.top / e.path)]
    if skipped and is_sparse(worktree):
        skipped = []
    for option, paths in (("--no-assume-unchanged", assumed), ("--no-skip-worktree", skipped)):
        if paths:
            worktree.git(
                ("update-index", option, "-z", "--stdin"), index=index, stdin=nul_joined(paths)
            )
