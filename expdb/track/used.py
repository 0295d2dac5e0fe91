"""Which files of the repository this process has imported: a run is stale when they change."""

from __future__ import annotations

import sys
from dataclasses import replace

from expdb.conf.script import entry_script
from expdb.git.command import GitError
from expdb.git.used import used_files
from expdb.git.worktree import WorkTree, find_worktree
from expdb.model import Attempt


def imported_files() -> list[str]:
    """Return the entry script and the source file of every imported module, in no order."""
    found = {str(entry_script())}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py"):
            found.add(file)
    return list(found)


def used_now(attempt: Attempt) -> Attempt:
    """Return the attempt with the files that were imported since it started."""
    worktree = find_worktree(entry_script().parent)
    if attempt.pin.commit is None or not isinstance(worktree, WorkTree):
        return attempt
    try:
        found = used_files(worktree, imported_files())
    except (GitError, OSError):
        return attempt  # what was known at the start stays
    # A file edited while the run went on keeps the content that was imported at the start.
    return replace(attempt, pin=replace(attempt.pin, used={**found, **attempt.pin.used}))
