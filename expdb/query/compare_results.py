"""What `compare` returns.

Invariant: nothing here reads a file. The first run of a comparison is the one measured against.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from expdb.model import Objective, Run
from expdb.query.results import Noise, Outcome, Spread

if TYPE_CHECKING:
    from expdb.query.gates import GateResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDiff:
    """One config key and its value in each run; ABSENT where a run lacks it."""

    key: str
    values: tuple[Any, ...]
    differs: bool
    """Whether any run has another value than the first, by canonical JSON: in Python `[1]` equals
    `[True]`, and nan equals nothing.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """One file that differs between two trees; line counts are None for binary files."""

    status: str
    """A, M, D or T."""
    path: str
    num_added: int | None
    num_removed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeDiff:
    """How the code of the runs differs."""

    same_tree: bool | None
    """None when a run is not pinned, or its objects are not in this repository."""
    files: tuple[FileDiff, ...] = ()
    note: str = ""
    """Why it cannot be told, in plain words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedDiff:
    """One named text (environment, package, data digest) in each run; None where absent."""

    name: str
    values: tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDiff:
    """One metric in each run, read at `step`; None where a run has no such point."""

    key: str
    values: tuple[float | None, ...]
    deltas: tuple[float | None, ...]
    """Against the first; the first is None."""
    deltas_pct: tuple[float | None, ...]
    better: tuple[bool | None, ...]
    """By the declared direction; None where no direction is known."""
    outcomes: tuple[Outcome | None, ...]
    step: int | None
    is_objective: bool = False
    noise: tuple[float | None, ...] = ()
    """The 95 % half-width of each delta, where it is known."""
    n: int | None = None
    """Items of an evaluation."""
    noise_how: str = ""
    """Where the half-width of an evaluation comes from: `paired items`, or `n items, correlation
    0.5 assumed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether one run is better than the first, and why one may say so."""

    run: str
    outcome: Outcome
    reason: str
    """One line: `val/loss +0.180 (+9.7 %), beyond noise ±0.022`."""
    delta: float | None = None
    delta_pct: float | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What `compare` shows."""

    runs: tuple[Run, ...]
    objective: Objective | None
    step: int | None
    """The step that metrics are read at: the last that all have; None where there is none."""
    config: tuple[ConfigDiff, ...]
    """Every key, sorted; see `ConfigDiff.differs`."""
    code: CodeDiff
    environment: tuple[NamedDiff, ...]
    data: tuple[NamedDiff, ...]
    metrics: tuple[MetricDiff, ...]
    evals: tuple[MetricDiff, ...]
    num_events: tuple[Mapping[str, int], ...]
    """Severity -> count, of each run."""
    verdicts: tuple[Verdict, ...]
    """One for each run after the first."""
    noise: Noise | None
    ends: tuple[int, ...] = ()
    """The last step of each run, where each is read there: a fork goes on where its source ends."""
    spread: Spread | None = None
    """Of the seeds of the config of all runs, where they differ in the seed alone."""
    warnings: tuple[str, ...] = ()
    """Damaged files that were left out."""
    gates: tuple[tuple[GateResult, ...], ...] = ()
    """For each gate of the newest run how every run stands to it, at its own end."""
