"""What lists and rankings return: frozen values, ready to be printed, drawn or written as JSON.

Invariant: nothing here reads a file. What one verb returns alone has a file of its own, as each of
these classes costs a new process about a millisecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

from expdb.model import Objective, RunAt, RunState


class Outcome(StrEnum):
    """How a value stands against the one it is measured against, in the declared direction."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no_difference"
    INCONCLUSIVE = "inconclusive"


class Absent:
    """The value of a key that a config does not have (unlike null)."""

    def __repr__(self) -> str:
        return "-"


ABSENT: Final = Absent()


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The noise of one metric between two single runs."""

    metric: str
    sd: float
    """Standard deviation over seeds, in the metric's unit."""
    source: Literal["declared", "measured"]
    num_seeds: int = 1
    """How many seeds the standard deviation was measured over; 1 when declared."""

    @property
    def band(self) -> float:
        """The 95 % half-width of the difference of two single runs: 1.96 x sqrt(2) x sd."""
        return 1.959963984540054 * 1.4142135623730951 * self.sd


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How far the seeds of one config lie apart in a metric."""

    num_seeds: int
    low: float
    high: float
    sd: float | None
    """Sample standard deviation; None of fewer than two seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """The difference of one value to the baseline's, of the same seed where there is such a run."""

    value: float
    outcome: Outcome | None
    """None where only a delta makes sense (an unfinished run compared at an earlier step)."""
    at_step: int | None = None
    """The step both were read at, when that is not the end of both."""
    against: str = ""
    """The run that it is measured against."""
    other_seed: int | None = None
    """The seed of that run, where it is not the same and the configs differ too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run as lists show it."""

    id: str
    experiment: str
    variant: str
    seed: int | None
    state: RunState
    reason: str
    created_at_ms: int
    ended_at_ms: int | None
    last_step: int | None
    max_steps: int | None
    parent: str | None
    digest: str
    commit: str | None
    dirty: bool
    objective: Objective | None
    value: float | None
    """The objective as it reads; NaN is NaN; None when the run has no such series."""
    value_step: int | None
    nonfinite_step: int | None = None
    """Since when the objective is not finite."""
    refs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    is_head: bool = False
    path: str = ""
    bytes: int = 0
    delta: Delta | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Further metrics asked for, last values."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Columns asked for by name, as the run has them; without those that it lacks."""
    fork: RunAt | None = None
    lacks: tuple[str, ...] = ()
    """Required metrics without a finite value: with any, the run does not count."""

    @property
    def name(self) -> str:
        """The experiment with its variant."""
        return self.experiment + self.variant


USUAL: Final = (
    "run", "experiment", "seed", "state", "step", "objective", "delta", "age", "code",
)  # fmt: skip
"""What `ls` shows unless told; `objective` and `delta` go by their metric and by `vs baseline`."""


class ShownColumn(NamedTuple):
    """A column of a list: one that every list has, or one asked for by name."""

    name: str
    kind: Literal["usual", "field", "key", "metric"] = "usual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What `ls` shows: newest first, unless another order was asked for."""

    rows: tuple[RunRow, ...]
    num_all: int
    baseline: RunRow | None
    metric: str | None
    noise: Noise | None = None
    warnings: tuple[str, ...] = ()
    """Damaged files that were left out."""
    columns: tuple[ShownColumn, ...] = ()
    """The columns asked for; empty shows the usual ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What `rank` shows: best first; ties by creation time, older first."""

    objective: Objective
    noise: Noise | None
    rows: tuple[RunRow, ...]
    num_tied: int
    """How many rows from the first cannot be told from it; 0 without a noise band."""
    num_all: int
    """How many runs can be ranked; `rows` are the first of them."""
    not_ranked: tuple[tuple[RunRow, str], ...]
    """Runs with the objective that cannot win, and why."""
    apart: tuple[RunRow, ...]
    """Runs with another objective."""
    baseline: RunRow | None
    extra_metrics: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """What makes the ranking doubtful: a direction that does not fit the metric's name, damaged
    files that were left out.
    """
