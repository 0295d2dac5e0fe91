"""The difference between two trees of a repository, and whether an object is there at all."""

from __future__ import annotations

import re
from typing import NamedTuple

from expdb.git.worktree import WorkTree


class FileDiff(NamedTuple):
    """One file that differs between two trees."""

    status: str
    """A added, D deleted, M modified, T another type."""
    path: str
    added: int | None
    """Lines added; None for a binary file."""
    removed: int | None


def tree_diff(worktree: WorkTree, a: str, b: str) -> tuple[FileDiff, ...]:
    """Return the files that differ from `a` to `b` (ids of trees or commits), sorted by path.

    Raises:
        GitError: one of them is not in this repository.
    """
    words = ("diff-tree", "-r", "-z", "--raw", "--numstat", "--no-renames", "--no-ext-diff")
    done = worktree.git((*words, "--no-textconv", f"{a}^{{tree}}", f"{b}^{{tree}}"))
    letters: dict[str, str] = {}
    lines: dict[str, tuple[int | None, int | None]] = {}
    fields = iter(done.names)
    for field in fields:
        if field.startswith(":"):
            letters[next(fields)] = field.rpartition(" ")[2]
        else:
            added, removed, path = field.split("\t", 2)
            lines[path] = (_lines(added), _lines(removed))
    none: tuple[int | None, int | None] = (None, None)
    return tuple(
        FileDiff(letter, path, *lines.get(path, none)) for path, letter in sorted(letters.items())
    )


def has_object(worktree: WorkTree, id: str) -> bool:
    """Tell whether the object is in this repository; a name that is no id is not."""
    if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", id) is None:
        return False
    return worktree.git(("cat-file", "-e", id), check=False).rc == 0


def _lines(word: str) -> int | None:
    return None if word == "-" else int(word)
