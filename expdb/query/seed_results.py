"""What queries over seeds return: groups of runs that differ by their seed alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from expdb.model import Objective
from expdb.query.results import Noise, Outcome, RunRow

if TYPE_CHECKING:
    from expdb.query.gates import GateResult


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanDelta:
    """The difference of two means over seeds."""

    value: float
    half_width: float | None
    """The 95 % half-width; None where no noise is known and a side has fewer than 3 seeds."""
    how: Literal["welch", "noise", ""]
    """What the half-width comes from: the spreads of both sides, or the noise of single runs."""
    outcome: Outcome | None
    """None for metrics without a declared direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedGroup:
    """The runs of one experiment, variant and config; the newest finished one of each seed."""

    experiment: str
    variant: str
    digest: str
    runs: tuple[str, ...]
    """The runs that count, by seed; as `values`."""
    seeds: tuple[int | None, ...]
    values: tuple[float, ...]
    """The metric of each, finite."""
    newest_ms: int
    """When the newest run of the group began, whatever its state."""
    states: Mapping[str, int]
    """State -> how many runs of the group, also of those that do not count."""
    mean: float | None = None
    sd: float | None = None
    """Sample standard deviation; None with fewer than two values."""
    delta: MeanDelta | None = None
    """Against the group of the baseline."""
    is_baseline: bool = False
    refs: tuple[str, ...] = ()
    gates: tuple[GateResult, ...] = ()
    """How its mean stands to the gates of its newest run that counts; where groups are listed."""
    shares_name: bool = False
    """Whether another group has the same experiment and variant, with another config."""

    @property
    def name(self) -> str:
        """The experiment with its variant."""
        return self.experiment + self.variant


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedGroups:
    """What `--over seed` shows."""

    objective: Objective
    noise: Noise | None
    groups: tuple[SeedGroup, ...]
    """Best mean first, or newest first; ties by creation, the older first."""
    num_all: int
    """How many groups there are without a limit."""
    baseline: RunRow | None
    not_ranked: tuple[tuple[RunRow, str], ...] = ()
    """Runs with the metric that do not count, and why."""
    warnings: tuple[str, ...] = ()
    base: SeedGroup | None = None
    """The group that the others are measured against, be it among them or not."""
    ahead: MeanDelta | None = None
    """The first group against the second, where there is no group to measure against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedMetric:
    """One metric of several groups."""

    key: str
    values: tuple[tuple[float, ...], ...]
    """For each group the finite values of its runs."""
    means: tuple[float | None, ...]
    sds: tuple[float | None, ...]
    deltas: tuple[MeanDelta | None, ...]
    """Against the first group; the first is None."""
    is_objective: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedComparison:
    """What `compare --over seed` shows; the first group is the one measured against."""

    groups: tuple[SeedGroup, ...]
    objective: Objective | None
    noise: Noise | None
    metrics: tuple[SeedMetric, ...]
    """The objective first."""
    warnings: tuple[str, ...] = field(default=())
    gates: tuple[tuple[GateResult, ...], ...] = ()
    """For each gate of the newest run how the mean of every group stands to it."""
