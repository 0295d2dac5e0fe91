"""Sparse checkouts, and the flags that hide edits from git."""

from __future__ import annotations

import os
from collections.abc import Iterable

from expdb.git.disk import as_kept, state_on_disk
from expdb.git.index import GITLINK, Entry
from expdb.git.worktree import WorkTree


def is_sparse(worktree: WorkTree) -> bool:
    """Tell whether a sparse checkout is in force."""
    return worktree.config_true("core.sparseCheckout", default=False)


def hidden_edits(worktree: WorkTree, found: Iterable[Entry]) -> tuple[str, ...]:
    """Return the files whose edits git does not see because of a flag on them."""
    flagged = [e for e in found if (e.skipped or e.assumed) and e.mode != GITLINK]
    flagged = [e for e in flagged if e.assumed or os.path.lexists(worktree.top / e.path)]
    if not flagged:
        return ()
    modes = worktree.config_true("core.filemode", default=True)
    states = state_on_disk(worktree, {e.path: e.blob for e in flagged}, modes=modes)
    return tuple(
        e.path for e in flagged if states[e.path] != as_kept((e.mode, e.blob), modes=modes)
    )
