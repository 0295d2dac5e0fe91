"""What `status` returns.

Invariant: nothing here reads a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from expdb.query.results import RunRow


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTreeStatus:
    """How this work tree stands against HEAD."""

    in_git: bool
    reason: str = ""
    branch: str | None = None
    commit: str | None = None
    edits: tuple[tuple[str, str], ...] = ()
    """(status letter, path) of every edited or untracked file; against HEAD's tree when set."""
    head: RunRow | None = None
    head_step: int | None = None
    equals_head: bool = False
    baseline: RunRow | None = None
    """What the next run's parent would be when HEAD is not set."""
    unfinished: str = ""
    """The line about an op that was cut off; empty when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """What `status` shows: the work tree, and the runs by experiment, seed and state."""

    work_tree: WorkTreeStatus
    store: str
    num_runs: int
    bytes: int
    rows: tuple[RunRow, ...]
    """The newest run of each (experiment, variant, seed)."""
    counts: Mapping[str, int]
    """State -> number of runs."""
    metric: str | None = None
    warnings: tuple[str, ...] = ()
    """Damaged files that were left out."""
