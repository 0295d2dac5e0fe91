"""How many files differ between trees, for many pairs with one git process."""

from __future__ import annotations

import re
from collections.abc import Collection

from expdb.git.worktree import WorkTree

TREE = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")

Pair = tuple[str, str]
"""Two tree ids."""


def num_changed(worktree: WorkTree, pairs: Collection[Pair]) -> dict[Pair, int]:
    """Return how many files differ in each pair of trees that are both in this repository.

    Raises:
        GitError: git cannot read the repository.
    """
    here = _present(worktree, {tree for pair in pairs for tree in pair})
    wanted = [pair for pair in dict.fromkeys(pairs) if here.issuperset(pair)]
    if not wanted:
        return {}
    words = ("diff-tree", "--stdin", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff")
    heads = [f"{before} {after}\n" for before, after in wanted]
    counts, at = [0] * len(wanted), -1
    for field in worktree.git(words, stdin="".join(heads).encode()).names:
        # A pair's head ends in a line end, its paths in NUL; a pair without a path is a head alone.
        while at + 1 < len(heads) and field.startswith(heads[at + 1]):
            at += 1
            field = field.removeprefix(heads[at])
        counts[at] += 1
    return dict(zip(wanted, counts, strict=True))


def _present(worktree: WorkTree, trees: Collection[str]) -> set[str]:
    asked = "".join(f"{tree}\n" for tree in sorted(trees) if TREE.fullmatch(tree))
    form = "--batch-check=%(objectname) %(objecttype)"
    lines = worktree.git(("cat-file", form), stdin=asked.encode()).text.split("\n")
    return {line.removesuffix(" tree") for line in lines if line.endswith(" tree")}
