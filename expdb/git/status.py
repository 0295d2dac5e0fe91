"""What `git status` says, as values.

Invariant: asking never writes git's index, and submodule and untracked settings of the user do not
hide anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from expdb.git.attributes import despite_filters
from expdb.git.command import TIMEOUT_S

if TYPE_CHECKING:
    from expdb.git.worktree import WorkTree


class Change(NamedTuple):
    """One path that differs from HEAD, in the index or in the work tree."""

    letter: str
    """M modified, A added, D deleted, R renamed, T another type, U unmerged, ? untracked."""
    path: str
    submodule: str
    """Git's four letters `S<c><m><u>` for a submodule, else empty."""
    unstaged: tuple[str, ...] = ()
    """The paths of the index that the work tree has otherwise: this one, for a rename both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """HEAD and everything that differs from it."""

    head: str | None
    branch: str | None
    changes: tuple[Change, ...]

    @property
    def unstaged(self) -> list[str]:
        """The paths of git's index that the work tree has otherwise."""
        return [path for change in self.changes for path in change.unstaged]


def read_status(worktree: WorkTree, *, untracked: bool, timeout_s: float = TIMEOUT_S) -> Status:
    """Return HEAD, branch and changes; untracked files one by one where `untracked`.

    Raises:
        GitError: git cannot read the work tree.
    """
    words = (
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        "--find-renames",
        "--ignore-submodules=none",
        "--untracked-files=" + ("all" if untracked else "no"),
    )
    done = despite_filters(worktree, words, timeout_s=timeout_s)
    return parse_status(done.names)


def read_edits(worktree: WorkTree) -> list[tuple[str, str]]:
    """Return (letter, path) of all that differs from HEAD; letters are M A D R T U and ?.

    Raises:
        GitError: git cannot read the work tree.
    """
    changes = read_status(worktree, untracked=True).changes
    return [(change.letter, change.path) for change in changes]


def parse_status(fields: list[str]) -> Status:
    """Return the status in the NUL-separated fields of porcelain v2."""
    head: str | None = None
    branch: str | None = None
    changes: list[Change] = []
    left = iter(fields)
    for line in left:
        kind, _, rest = line.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            if name == "branch.oid":
                head = None if value == "(initial)" else value
            elif name == "branch.head":
                branch = "detached" if value == "(detached)" else value
        elif kind == "1":
            state, sub, *_, path = rest.split(" ", 7)
            unstaged: tuple[str, ...] = () if state[1] == "." else (path,)
            changes.append(Change(_letter(state), path, _submodule(sub), unstaged))
        elif kind == "2":
            state, sub, *_, path = rest.split(" ", 8)
            was = next(left, path)
            unstaged = () if state[1] == "." else (path, was) if state[1] in "RC" else (path,)
            changes.append(Change(_letter(state), path, _submodule(sub), unstaged))
        elif kind == "u":
            _, sub, *_, path = rest.split(" ", 9)
            changes.append(Change("U", path, _submodule(sub), (path,)))
        elif kind == "?":
            changes.append(Change("?", rest, ""))
    return Status(head=head, branch=branch, changes=tuple(changes))


def _letter(state: str) -> str:
    """Return one letter for the two states (index, work tree) of a path."""
    index, tree = state[0], state[1]
    if tree == "D":
        return "D"
    if index in "ARC":
        return "R" if index == "R" else "A"
    return tree if tree != "." else index


def _submodule(sub: str) -> str:
    return "" if sub.startswith("N") else sub
