"""The plan of a change: the present state saved, the paths that differ, and what is in the way."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from expdb.git.blockers import blockers
from expdb.git.restore import Blocked, PlanRow, plan
from expdb.git.snapshot import Saved, save_worktree
from expdb.git.worktree import WorkTree

USUAL_MODES: Final = frozenset({0o644, 0o664, 0o755, 0o775})
"""Permission bits that a checkout makes; any others have to be kept apart."""


def save_and_plan(
    worktree: WorkTree,
    tree: str,
    *,
    op: str,
    store_root: Path,
    exclude: Sequence[str],
    secret_files: Sequence[str],
    force: bool = False,
) -> tuple[Saved, tuple[PlanRow, ...], tuple[Blocked, ...]]:
    """Save the work tree under `op`; return that, the plan to `tree`, and what blocks the plan.

    With `force` single files in the way are saved too, whatever their size, and block no longer.

    Raises:
        Refused: git's index has unresolved conflicts.
        GitError: git cannot read or write the repository.
    """
    also: list[str] = []
    while True:
        saved = save_worktree(
            worktree,
            store_root=store_root,
            op=op,
            exclude=exclude,
            secret_files=secret_files,
            also=also,
        )
        rows = plan(worktree, saved.tree, tree)
        blocked = blockers(worktree, saved, rows, secret_files=secret_files)
        more = [item.path for item in blocked if item.can_save and item.path not in also]
        if not force or not more:
            return saved, rows, blocked
        also += more


def odd_modes(top: Path, rows: Sequence[PlanRow]) -> dict[str, int]:
    """Return the permission bits of the plan's files that a checkout would not make again."""
    found: dict[str, int] = {}
    for row in rows:
        if row.before is None or not row.before[0].startswith("100"):
            continue
        try:
            mode = (top / row.path).lstat().st_mode
        except OSError:  # deleted since it was saved: a restore says so
            continue
        if stat.S_ISREG(mode) and stat.S_IMODE(mode) not in USUAL_MODES:
            found[row.path] = stat.S_IMODE(mode)
    return found
