"""The files of the repository that a process really used.

Invariant: installed packages are no part of the repository's code, wherever they lie.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from expdb.git.objects import hash_files
from expdb.git.worktree import WorkTree

_INSTALLED: Final = frozenset({"site-packages", "dist-packages", ".git"})


def used_files(
    worktree: WorkTree, modules: Iterable[Path], *, known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return repository path -> blob id, sorted by path, for the files that lie in the work tree.

    `known` holds the ids of files that are on disk as an index says; the rest is hashed as git
    would store it. Files that are gone are left out.
    """
    known = known or {}
    paths = used_paths(worktree, modules)
    hashed = hash_files(worktree, [path for path in paths if path not in known])
    found = {path: known.get(path) or hashed.get(path) for path in paths}
    return {path: blob for path, blob in found.items() if blob is not None}


def used_paths(worktree: WorkTree, modules: Iterable[Path]) -> list[str]:
    """Return the repository paths of `modules`, sorted; installed packages and outside files are
    left out.
    """
    top = os.path.realpath(worktree.top)
    roots = [os.path.realpath(prefix) for prefix in {sys.prefix, sys.base_prefix}]
    installed = [root + os.sep for root in roots if root.startswith(top + os.sep)]
    found = set()
    for module in modules:
        full = os.path.realpath(module)
        if not full.startswith(top + os.sep) or full.startswith(tuple(installed)):
            continue
        path = full[len(top) + 1 :]
        if _INSTALLED.isdisjoint(Path(path).parts):
            found.add(path)
    return sorted(found)
