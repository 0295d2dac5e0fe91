"""What `status` returns.

Invariant: nothing here reads a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from expdb.query.entry import Entry
from expdb.query.results import RunRow

if TYPE_CHECKING:
    from expdb.query.gates import GateResult


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
class Reason:
    """One thing that makes a run another one than what is declared now."""

    kind: Literal["config", "environment", "file"]
    name: str
    """A dotted key, a variable, or a path of the repository."""
    key: str = ""
    """The config key whose value comes from the variable."""
    old: Any = None
    """The value of the run; markers of `expdb.digest` at what has none."""
    new: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRow:
    """One run that should exist or does, or one config file that declares none."""

    experiment: str
    variant: str = ""
    seed: int | None = None
    state: str
    """`up to date`, `stale`, `missing`, `invalid`, else the state of the run."""
    is_declared: bool
    run: RunRow | None = None
    """None of what is missing or invalid."""
    reasons: tuple[Reason, ...] = ()
    """Why it is stale, the strongest first."""
    fault: str = ""
    """Why a file cannot be trained."""
    overrides: tuple[str, ...] = ()
    """What its command says besides the experiment."""
    gates: tuple[GateResult, ...] = ()
    """How its run stands to the gates that it declares, where it is up to date."""

    @property
    def lacks(self) -> tuple[str, ...]:
        """What its run requires and has not, where it is up to date."""
        return self.run.lacks if self.run is not None and self.state == "up to date" else ()

    @property
    def is_well(self) -> bool:
        """Whether it is up to date, has what it requires, and misses no gate."""
        missed = any(gate.is_missed for gate in self.gates)
        return self.state == "up to date" and not self.lacks and not missed

    @property
    def name(self) -> str:
        """Experiment and variant."""
        return self.experiment + self.variant


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """What `status` shows: the work tree, what is declared, and what there is."""

    work_tree: WorkTreeStatus
    store: str
    num_runs: int
    bytes: int
    rows: tuple[StatusRow, ...]
    """What is declared, then the newest run of each other (experiment, variant, seed); by name."""
    counts: Mapping[str, int]
    """State -> number of runs, of all runs."""
    entry: Entry | None = None
    """Whose config declares; None where there is none."""
    metric: str | None = None
    warnings: tuple[str, ...] = ()
    """Damaged files that were left out."""
