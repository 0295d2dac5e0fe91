"""What `log --why` returns: frozen values, ready to be printed or written as JSON.

Invariant: nothing here reads a file; a change goes from the older side to the newer, on the way to
a run from the parent to the child.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from expdb.model import Objective
from expdb.query.results import Noise
from expdb.query.seed_results import MeanDelta

Kind = Literal["config", "file", "code", "environment", "data", "start"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that differs between two runs; ABSENT on the side that lacks it."""

    kind: Kind
    name: str
    """The config key, the path of the file, the names of the environment or of the data."""
    before: Any
    """A config value; the blob id of a file; the tree of the code; else a text."""
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two sides, each the seeds of one config, that differ in one thing alone."""

    before: tuple[str, ...]
    """Run ids, by seed."""
    after: tuple[str, ...]
    delta: MeanDelta
    """Of `after` against `before`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One change and what it did to the metric."""

    change: Change
    effect: MeanDelta | None
    """The mean over the pairs; None where no pair has values."""
    pairs: tuple[Pair, ...]
    disagree: bool = False
    """The pairs differ from each other beyond their noise: it depends on what else is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the way from a run to one that has it as parent, where anything changed."""

    run: str
    name: str
    parent: str
    value: float | None
    """The mean over seeds; None where no seed has finished with a finite value."""
    delta: MeanDelta | None
    changes: tuple[Change, ...]
    unknown: tuple[str, ...] = ()
    """What cannot be told of one of the two: `config`, `code`."""
    left: tuple[Change, ...] = ()
    """The changes, of several, that no pair of runs separates from the others."""

    @property
    def is_confounded(self) -> bool:
        """Whether more than one thing changed, and no other pairs tell them apart."""
        return bool(self.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """What `log --why` shows."""

    objective: Objective
    noise: Noise | None
    run: str | None
    """The run asked about; None for all runs of the store."""
    root: str | None
    """Where the way begins."""
    root_name: str
    root_value: float | None
    steps: tuple[Step, ...]
    """On the way to `run`, from the root; without a run, the confounded steps of the store."""
    total: MeanDelta | None
    """Of the run against the root."""
    causes: tuple[Cause, ...]
    """The changes on the way (without a run: all), the largest effect first."""
    beside: tuple[Cause, ...]
    """Further changes in which one run differs from one on the way, the largest effect first."""
    warnings: tuple[str, ...] = ()
