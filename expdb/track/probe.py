"""A process that somebody started to look at a run again: it records elsewhere, and stops early.

`expdb probe` sets EXPDB_PROBE to `STEP:FOLDER`. Such a process has its store in FOLDER, whatever
its config says, starts a run of its own, pins nothing in the repository, and ends when STEP updates
are done; its schedule and everything else are those of the whole run. With a task beside FOLDER,
`Loop` measures what that says (`probes/drive.py`), and the process ends with it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from expdb.errors import BadInput
from expdb.git.command import GitError
from expdb.git.used import used_files
from expdb.git.worktree import Unavailable, WorkTree
from expdb.model import Pin
from expdb.monitor.actions import TRAINING
from expdb.monitor.rule import Rule
from expdb.store.probing import VARIABLE, read_task
from expdb.track.used import imported_files

SETTINGS: dict[str, Any] = {"resume": "never", "mode": "on", "notify": {}}
"""What holds in such a process whatever the config says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Where such a process records, and when it ends."""

    store: Path
    stop_at: int
    task: dict[str, Any] | None = None
    """What is to be measured; None in a repetition."""

    def settings(self, known: dict[str, Any]) -> dict[str, Any]:
        """Return the settings of this process."""
        return {**known, **SETTINGS}

    def rules(self, known: Sequence[Rule]) -> tuple[Rule, ...]:
        """Return the rules of this process: they do only what belongs to the training that it
        repeats, and neither pause, stop, tag nor go back.
        """
        return tuple(
            replace(rule, actions=tuple(one for one in rule.actions if one.name in TRAINING))
            for rule in known
        )

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
    return Probe(store=Path(folder), stop_at=int(step), task=read_task(Path(folder)))
