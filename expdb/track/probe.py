"""A process that somebody started to look at a run again: it records elsewhere, and stops early.

`expdb probe` sets EXPDB_PROBE to `STEP:FOLDER`. Such a process has its store in FOLDER, whatever
its config says, starts a run of its own, pins nothing in the repository, and ends when STEP updates
are done; its schedule and everything else are those of the whole run.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.errors import BadInput
from expdb.git.command import GitError
from expdb.git.used import used_files
from expdb.git.worktree import Unavailable, WorkTree
from expdb.model import Pin
from expdb.store.probing import VARIABLE
from expdb.track.used import imported_files

SETTINGS: dict[str, Any] = {"resume": "never", "mode": "on", "notify": {}}
"""What holds in such a process whatever the config says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Where such a process records, and when it ends."""

    store: Path
    stop_at: int

    def settings(self, known: dict[str, Any]) -> dict[str, Any]:
        """Return the settings of this process."""
        return {**known, **SETTINGS}

    def pin(self, worktree: WorkTree | Unavailable) -> Pin:
        """Return the pin of the code that runs; nothing is written into the repository."""
        if isinstance(worktree, Unavailable):
            return Pin(reproducible=False, reasons=(worktree.reason,))
        try:
            return Pin(
                commit=worktree.head(),
                branch=worktree.branch(),
                tree=worktree.tree_of("HEAD"),
                used=used_files(worktree, imported_files()),
            )
        except GitError as error:
            return Pin(reproducible=False, reasons=(error.message,))


def current_probe() -> Probe | None:
    """Return what this process was started for; None for a run of its own.

    Raises:
        BadInput: the variable is not what expdb sets.
    """
    said = os.environ.get(VARIABLE)
    if not said:
        return None
    step, colon, folder = said.partition(":")
    if not (colon and step.isascii() and step.isdigit() and folder):
        raise BadInput(f"{VARIABLE} is {said!r:.60}, not STEP:FOLDER", hint=f"unset {VARIABLE}")
    return Probe(store=Path(folder), stop_at=int(step))
