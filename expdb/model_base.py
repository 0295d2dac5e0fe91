"""The nouns that every list of runs needs; imported by its users as `expdb.model`.

Invariant: as there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NewType

RunId = NewType("RunId", str)
"""10 characters of lower-case Crockford base32, a letter first."""

FORMAT = 1
"""The store format that this code writes."""

NEEDS = "0.1.0"
"""The first expdb that can read what this code writes."""

SEED_LIMIT = 10**38
"""A seed is below it, and above its negative: every reader of a store holds such a number exactly.
"""


class RunState(StrEnum):
    """The state a person sees; `paused`, `crashed` and `lost` are derived, never stored."""

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"
    PREEMPTED = "preempted"
    CRASHED = "crashed"
    LOST = "lost"

    @property
    def is_alive(self) -> bool:
        """Whether a process of the run is there: it trains, or waits for `expdb ctl RUN go`."""
        return self in (RunState.RUNNING, RunState.PAUSED)

    @property
    def is_live(self) -> bool:
        """Whether the run is alive, or is about to be."""
        return self.is_alive or self is RunState.PENDING


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The declared metric by which runs are ranked."""

    metric: str
    mode: Literal["min", "max"] = "min"
    reading: Literal["last", "best", "mean_last_3"] = "last"

    def better(self, left: float, right: float) -> bool:
        """Tell whether `left` is better than `right`; a non-finite value is never better."""
        if not math.isfinite(left):
            return False
        if not math.isfinite(right):
            return True
        return left < right if self.mode == "min" else left > right


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAt:
    """A run, and a step of it where one was named."""

    run: str
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """A unique name for one run or run@step."""

    name: str
    kind: Literal["ref", "tag"]
    run: str
    step: int | None
    op: str
