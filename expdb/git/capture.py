"""Bringing an index of expdb's own to the state of the work tree.

Invariant: what could not be brought in is named; the rest is in. A filter that fails does not lose
a file: its raw bytes are stored, and that is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from expdb.git.attributes import despite_filters, drivers, without_filters
from expdb.git.command import GitError, first_line, nul_joined
from expdb.git.index import fill_index
from expdb.git.untracked import Untracked, find_untracked
from expdb.git.worktree import WorkTree
from expdb.text import plain

_FEW: Final = 200
_IN_ONE_PACK: Final = ("-c", "core.bigFileThreshold=1")
"""Git streams big files into one pack; thousands of loose objects take thousands of syncs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """What an index took in."""

    untracked: tuple[str, ...]
    skipped: tuple[str, ...]
    reasons: tuple[str, ...]
    is_raw: bool
    """A filter failed: the tracked files went in as they are."""


def capture(
    worktree: WorkTree,
    index: Path,
    *,
    head: str | None,
    changed: Sequence[str] | None,
    store_root: Path,
    exclude: Sequence[str],
    secret_files: Sequence[str],
) -> Captured:
    """Make `index` describe the work tree: tracked files as they are, untracked ones within the
    limits.

    `changed` are the tracked paths whose state on disk is not what `index` says, None when that is
    not known.

    Raises:
        GitError: git cannot read the repository.
    """
    if not index.exists():
        fill_index(worktree, index, head)
        changed = None
    reasons, is_raw = _add_tracked(worktree, index, changed)
    found = find_untracked(
        worktree, index, store_root=store_root, exclude=exclude, secret_files=secret_files
    )
    reasons += _add_untracked(worktree, index, found)
    return Captured(
        untracked=tuple(found.files),
        skipped=tuple(found.skipped),
        reasons=(*reasons, *found.reasons),
        is_raw=is_raw,
    )


def add_paths(worktree: WorkTree, index: Path, paths: Sequence[str]) -> None:
    """Take the named files into `index`, whether or not git ignores them; ones that are gone are
    left out.

    Raises:
        GitError: one of them cannot be read or its filter failed.
    """
    if paths:
        worktree.git(
            ("update-index", "--add", "--remove", "--replace", "-z", "--stdin"),
            index=index,
            stdin=nul_joined(paths),
        )


def missing_from(worktree: WorkTree, index: Path) -> list[str]:
    """Return the tracked paths whose state on disk is not what `index` says."""
    return despite_filters(worktree, ("diff-files", "--name-only", "-z"), index=index).names


def _add_tracked(
    worktree: WorkTree, index: Path, changed: Sequence[str] | None
) -> tuple[list[str], bool]:
    """Return what could not be taken in, and whether it was tried without filters."""
    words: tuple[str, ...] = ("add", "--update", "--ignore-errors")
    if changed is not None and len(changed) <= _FEW:
        if not changed or _add_few(worktree, index, words, changed):
            return [], False
    elif changed is not None:
        words = (*_IN_ONE_PACK, *words)
    done = worktree.git(words, index=index, check=False)
    if done.rc == 0:
        return [], False
    reasons = []
    names = drivers(worktree)
    is_raw = False
    if names:
        again = worktree.git((*without_filters(names), *words), index=index, check=False)
        is_raw = again.rc == 0 or first_line(again.err) != first_line(done.err)
        if is_raw:
            reasons.append(f"a git filter failed ({first_line(done.err)}): raw bytes are stored")
        done = again
    if done.rc != 0:
        left = missing_from(worktree, index)
        if not left:
            reasons.append(f"git could not take in every file ({first_line(done.err)})")
        reasons.extend(f"{plain(path)} cannot be read: its edits are not captured" for path in left)
    return reasons, is_raw


def _add_few(worktree: WorkTree, index: Path, words: Sequence[str], changed: Sequence[str]) -> bool:
    """Take in the named paths without a look at all others; tell whether it went well."""
    named = (*words, "--pathspec-from-file=-", "--pathspec-file-nul")
    done = worktree.git(named, index=index, stdin=nul_joined(changed), check=False)
    return done.rc == 0


def _add_untracked(worktree: WorkTree, index: Path, found: Untracked) -> list[str]:
    try:
        add_paths(worktree, index, found.files)
        return []
    except GitError as error:
        first = error
    good = []
    for path in found.files:  # rare: one of them changed meanwhile, or its filter fails
        try:
            add_paths(worktree, index, [path])
            good.append(path)
        except GitError:
            found.skipped.append(path)
    found.files[:] = good
    return [f"{len(found.skipped)} untracked files could not be captured ({first.message})"]
