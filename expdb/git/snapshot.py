"""The pin of an attempt: which code it runs, kept in git without touching anything the user sees.

Layout: `refs/expdb/pins/<commit>` names each pinned commit, clean (HEAD itself) or a snapshot whose
parent is HEAD.

Invariant: no state of git stops a start, and none is changed; what is not captured is said in plain
words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from expdb.git.attributes import drivers, filtered
from expdb.git.capture import Captured, capture
from expdb.git.command import GitError
from expdb.git.index import GITLINK, Entry, entries, temp_index, write_tree
from expdb.git.objects import commit_tree, set_ref
from expdb.git.saved import Saved, forget_saved, load_saved, save_worktree
from expdb.git.special import hidden_edits
from expdb.git.status import Change, Status, read_status
from expdb.git.untracked import DEFAULT_EXCLUDE, DEFAULT_SECRET_FILES
from expdb.git.used import used_files
from expdb.git.worktree import Unavailable, WorkTree
from expdb.model import Pin
from expdb.text import plain

__all__ = ["Saved", "forget_saved", "load_saved", "save_worktree", "take_pin"]

_NAMED = 3


@dataclass(slots=True)
class _Words:
    """What is said of a pin, and whether its code can be had again."""

    said: list[str] = field(default_factory=list)
    complete: bool = True

    def note(self, reason: str) -> None:
        """Say something that loses nothing."""
        self.said.append(reason)

    def lose(self, *reasons: str) -> None:
        """Say what is not captured."""
        self.said.extend(reasons)
        self.complete = self.complete and not reasons


def take_pin(
    worktree: WorkTree | Unavailable,
    *,
    store_root: Path,
    exclude: Sequence[str] = DEFAULT_EXCLUDE,
    secret_files: Sequence[str] = DEFAULT_SECRET_FILES,
    used: Iterable[str | Path] = (),
) -> Pin:
    """Return the pin of the code as it stands, with a snapshot commit where it differs from HEAD.

    `exclude` (patterns of `.gitignore`) and `secret_files` (name patterns) leave out untracked
    files only; `used` are the files that the process imported. Several processes may pin at once.
    """
    if isinstance(worktree, Unavailable):
        return Pin(reproducible=False, reasons=(worktree.reason,))
    try:
        status = read_status(worktree, untracked=False)
    except GitError as error:
        return _without_status(worktree, error)
    words = _Words()
    _say_state(worktree, status, words)
    try:
        return _pin(worktree, status, words, store_root, exclude, secret_files, used)
    except (GitError, OSError) as error:
        return _without_snapshot(status, words, error)


def _pin(
    worktree: WorkTree,
    status: Status,
    words: _Words,
    store_root: Path,
    exclude: Sequence[str],
    secret_files: Sequence[str],
    used: Iterable[str | Path],
) -> Pin:
    with temp_index(worktree, worktree.index_path) as index:
        captured = capture(
            worktree,
            index,
            head=status.head,
            changed=status.unstaged,
            store_root=store_root,
            exclude=exclude,
            secret_files=secret_files,
        )
        tree = write_tree(worktree, index)
        found = entries(worktree, index)
    words.lose(*captured.reasons)
    _say_hidden(worktree, status, captured, found, words)
    dirty = status.head is None or tree != worktree.tree_of(status.head)
    return Pin(
        commit=status.head,
        branch=status.branch,
        tree=tree,
        dirty=dirty,
        num_edits=len(status.changes) + len(captured.untracked) if dirty else 0,
        snapshot=_keep(worktree, status.head, tree if dirty else None, words),
        remote=worktree.remote(),
        used=_used(worktree, used, found, words),
        reproducible=words.complete,
        reasons=tuple(dict.fromkeys(words.said)),
        skipped=captured.skipped,
    )


def _keep(worktree: WorkTree, head: str | None, tree: str | None, words: _Words) -> str | None:
    """Set the pin's ref; return the snapshot commit, None for a clean work tree (`tree` None)."""
    snapshot: str | None = None
    try:
        if tree is not None:
            parents = [] if head is None else [head]
            snapshot = commit_tree(worktree, tree, parents, "expdb snapshot")
        pinned = snapshot or head
        if pinned is not None:
            set_ref(worktree, f"pins/{pinned}", pinned)
    except GitError as error:
        words.lose(f"the commit is not protected from git gc: {error.message}")
    return snapshot


def _without_snapshot(status: Status, words: _Words, error: GitError | OSError) -> Pin:
    """Return what can be said of code that could not be captured."""
    said = error.message if isinstance(error, GitError) else str(error)
    return Pin(
        commit=status.head,
        branch=status.branch,
        dirty=bool(status.changes),
        num_edits=len(status.changes),
        reproducible=False,
        reasons=(*dict.fromkeys(words.said), f"the work tree could not be captured: {said}"),
    )


def _without_status(worktree: WorkTree, error: GitError) -> Pin:
    """Return what can be said where git cannot read the work tree, as with a damaged index."""
    reasons = (f"the work tree cannot be read: {error.message}",)
    try:
        commit, branch = worktree.head(), worktree.branch()
    except GitError:
        return Pin(reproducible=False, reasons=reasons)
    return Pin(commit=commit, branch=branch, reproducible=False, reasons=reasons)


def _say_state(worktree: WorkTree, status: Status, words: _Words) -> None:
    if status.head is None:
        words.note("the repository has no commit yet")
    if worktree.is_shallow():
        words.note("a shallow clone: the history before it is absent")
    for change in status.changes:
        if "M" in change.submodule or "U" in change.submodule:
            words.lose(f"edits inside the submodule {plain(change.path)} are not captured")


def _say_hidden(
    worktree: WorkTree, status: Status, captured: Captured, found: Sequence[Entry], words: _Words
) -> None:
    """Say which edits flags and filters keep out of the tree."""
    for path in hidden_edits(worktree, found):
        words.lose(f"edits of {plain(path)} are hidden from git by a flag on it: not captured")
    changed = [change.path for change in status.changes if not _gone(change)]
    changed = [] if captured.is_raw else changed
    edited = filtered(worktree, [*changed, *captured.untracked])
    running = set(drivers(worktree)) if edited else set()
    through = {path: name for path, name in edited.items() if name in running}
    for name in sorted(set(through.values())):
        paths = [path for path, by in through.items() if by == name]
        words.lose(
            f"{_list(paths)} went through the git filter {name}: only its output is captured"
        )


def _gone(change: Change) -> bool:
    return change.letter == "D" or bool(change.submodule)


def _used(
    worktree: WorkTree, modules: Iterable[str | Path], found: Sequence[Entry], words: _Words
) -> dict[str, str]:
    plainly = [entry for entry in found if not (entry.skipped or entry.assumed)]
    known = {e.path: e.blob for e in plainly if e.mode.startswith("100")}
    used = used_files(worktree, modules, known=known)
    links = tuple(entry.path + "/" for entry in found if entry.mode == GITLINK)
    flagged = {entry.path for entry in found}
    lost = [path for path in used if path not in flagged and not path.startswith(links)]
    if lost:
        words.lose(f"{_list(lost)} was imported but is not captured")
    return used


def _list(paths: Sequence[str]) -> str:
    named = ", ".join(plain(path) for path in paths[:_NAMED])
    more = len(paths) - _NAMED
    return f"{named} and {more} more" if more > 0 else named
