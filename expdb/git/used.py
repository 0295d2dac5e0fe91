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
    worktree: WorkTree, modules: Iterable[str | Path], *, known: Mapping[str, str] | None = None
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


def used_paths(worktree: WorkTree, modules: Iterable[str | Path]) -> list[str]:
    """Return the repository paths of `modules`, sorted; installed packages, files outside and what
    is no file are left out.
    """
    top = os.path.realpath(worktree.top) + os.sep
    roots = [os.path.realpath(prefix) + os.sep for prefix in {sys.prefix, sys.base_prefix}]
    installed = tuple(root for root in roots if root.startswith(top))
    folders: dict[str, str] = {}
    found = set()
    for module in modules:
        folder, name = os.path.split(module)
        # Thousands of modules lie in a few hundred folders: each is resolved once.
        if folder not in folders:
            folders[folder] = os.path.realpath(folder) + os.sep
        full = folders[folder] + name
        if os.path.islink(full):  # noqa: PTH114 - for thousands of modules
            full = os.path.realpath(full)
        if not full.startswith(top) or full.startswith(installed):
            continue
        path = full[len(top) :]
        if _INSTALLED.isdisjoint(Path(path).parts) and Path(full).is_file():
            found.add(path)
    return sorted(found)
