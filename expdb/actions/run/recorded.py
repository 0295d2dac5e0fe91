"""Which run a process has recorded: by its work tree, which is its own, or by its process id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from expdb.errors import Corrupt, ExpdbError
from expdb.model import RunState
from expdb.store import attempts
from expdb.store.files import read_json
from expdb.store.layout import RunLayout
from expdb.store.runs import run_dirs, state_now
from expdb.store.store import Store

NEWEST = 500
"""So many of the runs that were written last are looked at; a job has just ended."""
PROCESS: Final = ("host", "boot", "pid", "start")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The run of a job, as it stands now."""

    run: str
    state: RunState
    reason: str
    tree: str | None
    """The tree that its last attempt is pinned to."""


def recorded_by(store: Store, *, work_tree: str, who: Mapping[str, Any]) -> Recorded | None:
    """Return the run whose last attempt is of a work tree, else of a process; None for none.

    `work_tree` is the git directory of a work tree that no other process has, empty for none; `who`
    is the process as `owner.describe` has it.
    """
    newest = sorted(run_dirs(store.root), key=lambda item: -item[2][0])[:NEWEST]
    for run, path, _ in newest:
        layout = RunLayout(path)
        numbers = attempts.numbers(layout)
        if not numbers:
            continue
        try:
            attempt = attempts.read_pin(layout, numbers[-1])
            is_its = bool(work_tree) and attempt.work_tree == work_tree
            if not (is_its or _is_of(layout, numbers[-1], who)):
                continue
            state, reason = state_now(path, store_root=store.root)
        except ExpdbError:
            continue
        return Recorded(run=run, state=state, reason=reason, tree=attempt.pin.tree)
    return None


def _is_of(layout: RunLayout, attempt: int, who: Mapping[str, Any]) -> bool:
    try:
        found = read_json(layout.attempt(attempt) / "owner.json")
    except (OSError, Corrupt):
        return False
    return bool(who) and all(found.get(name) == who.get(name) for name in PROCESS)
