"""`compare --code`: the patches from the code of the first run to that of each other."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from expdb.git.command import GitError
from expdb.git.diff import tree_diff
from expdb.git.patch import tree_patch
from expdb.git.worktree import WorkTree
from expdb.model import Run
from expdb.query.compare_results import FileDiff
from expdb.query.diffs import not_here, repository, unpinned


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePatch:
    """How the code of one run differs from that of the first."""

    first: Run
    run: Run
    files: tuple[FileDiff, ...] = ()
    """Sorted by path."""
    text: str = ""
    """A unified diff; bytes that are not UTF-8 are surrogates."""
    left_out: tuple[str, ...] = ()
    """Paths whose difference is too large to be shown."""
    note: str = ""
    """Why there is no patch, in plain words; empty where there is one or nothing differs."""


def patches(runs: Sequence[Run], *, places: Sequence[Path], text: bool) -> tuple[CodePatch, ...]:
    """Return one patch for each run after the first; without `text` only its files.

    `places` are folders in whose repositories the trees are looked for, in that order.
    """
    return tuple(_patch(runs[0], run, places, text) for run in runs[1:])


def _patch(first: Run, run: Run, places: Sequence[Path], text: bool) -> CodePatch:
    if note := unpinned((first, run)):
        return CodePatch(first=first, run=run, note=note)
    a, b = first.pin.tree or "", run.pin.tree or ""
    if a == b:
        return CodePatch(first=first, run=run)
    found = repository(places, (a, b))
    if not isinstance(found, WorkTree):
        return CodePatch(first=first, run=run, note=not_here(found, first, run))
    try:
        files = tree_diff(found, a, b)
        made = tree_patch(found, a, b, files) if text else None
    except (GitError, subprocess.SubprocessError) as error:
        return CodePatch(first=first, run=run, note=str(error))
    return CodePatch(
        first=first,
        run=run,
        files=tuple(
            FileDiff(status=f.status, path=f.path, num_added=f.added, num_removed=f.removed)
            for f in files
        ),
        text="" if made is None else made.text.decode("utf-8", "surrogateescape"),
        left_out=() if made is None else made.left_out,
    )
