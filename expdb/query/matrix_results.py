"""What is declared as a matrix: a row for each experiment and variant, a column for each seed.

Invariant: nothing here reads a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from expdb.model import Objective
from expdb.query.results import Noise
from expdb.query.seed_results import MeanDelta
from expdb.query.status_results import StatusRow


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """One experiment or variant."""

    experiment: str
    variant: str
    cells: tuple[StatusRow | None, ...]
    """As `Matrix.seeds`; None where no run of that seed is declared."""
    values: tuple[tuple[int, float], ...]
    """(place of the seed, objective) of the runs that count: up to date or stale, and finite."""
    fault: str = ""
    """Why the file cannot be trained; it has no cells then."""
    mean: float | None = None
    sd: float | None = None
    """Sample standard deviation; None with fewer than two values."""
    delta: MeanDelta | None = None
    """Against the row of the baseline."""
    is_baseline: bool = False

    @property
    def name(self) -> str:
        """Experiment and variant."""
        return self.experiment + self.variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """What is declared, and what came of it."""

    seeds: tuple[int | None, ...]
    """In order; None stands for runs without a seed, and is first."""
    rows: tuple[MatrixRow, ...]
    """By name."""
    counts: Mapping[str, int]
    """State -> how many declared runs, as `StatusRow.state`."""
    objective: Objective | None
    noise: Noise | None
    base: float | None
    """The mean of the row of the baseline."""
    num_others: int
    """Experiments, variants and seeds that have runs and are not declared."""
