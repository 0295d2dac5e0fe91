"""The difference between two trees as a patch, in bounded size.

Invariant: no program of the repository or of the user runs (external diffs, text conversions); a
binary file and a file above a size is a mark, never its content; what is left out is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from expdb.git.diff import FileDiff
from expdb.git.worktree import WorkTree

MAX_FILE_BYTES: Final = 1_000_000
"""A file above this is shown as binary files are: by a mark."""
MAX_LINES: Final = 5_000
"""How many changed lines one file may have, and all files together four times as many."""
MAX_FILES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A unified diff, as git writes it: bytes of any encoding."""

    text: bytes
    left_out: tuple[str, ...] = ()
    """Paths that differ and are not in it, for their size."""


def tree_patch(worktree: WorkTree, a: str, b: str, files: Sequence[FileDiff]) -> Patch:
    """Return how `files`, the difference from tree `a` to tree `b`, differ, sorted by path.

    Raises:
        GitError: one of the trees is not in this repository.
    """
    shown: list[str] = []
    left_out: list[str] = []
    room = 4 * MAX_LINES
    for file in files:
        lines = (file.added or 0) + (file.removed or 0)
        if lines > min(MAX_LINES, room) or len(shown) >= MAX_FILES:
            left_out.append(file.path)
            continue
        room -= lines
        shown.append(file.path)
    if not shown:
        return Patch(text=b"", left_out=tuple(left_out))
    words = (
        "-c", f"core.bigFileThreshold={MAX_FILE_BYTES}",
        "diff-tree", "-r", "-p", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
        "--submodule=short", "--ignore-submodules=none", "--src-prefix=a/", "--dst-prefix=b/",
        f"{a}^{{tree}}", f"{b}^{{tree}}", "--", *shown,
    )  # fmt: skip
    return Patch(text=worktree.git(words).out, left_out=tuple(left_out))
