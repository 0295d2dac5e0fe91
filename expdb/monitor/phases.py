"""Phases of training, read off the learning rate, and how often each is sampled.

    warmup     the rate rises from its first value
    stable     it stays, within a part in a thousand of the highest so far
    decay      it is below that

A rate that rises again later (restarts) is stable until it passes its highest.

Invariant: pure; the phase of a step depends on the rates up to it, and on the highest kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

Phase = Literal["warmup", "stable", "decay", "finetune"]
PHASES: Final[tuple[str, ...]] = get_args(Phase)
NEAR: Final = 1e-3
LADDER: Final = (1, 2, 5)
"""Intervals are these times powers of ten, so that longer ones fall on steps of shorter ones."""


@dataclass(slots=True, kw_only=True)
class Phases:
    """Follows the rate from step to step."""

    fixed: Phase | None = None
    """A phase that somebody named; the rate is then not looked at."""
    highest: float = 0.0
    last: float = math.nan

    def update(self, rate: float) -> Phase:
        """Take the rate of the next step and return its phase."""
        if self.fixed is not None:
            return self.fixed
        # The first rate may be 0, as many schedules begin: it rises from there.
        begins = math.isnan(self.last) and not self.highest
        rises = begins or rate > self.highest * (1 + 1e-9)
        self.highest, self.last = max(self.highest, rate), rate
        if rises:
            return "warmup"
        return "decay" if rate < self.highest * (1 - NEAR) else "stable"


def on_ladder(least: float) -> int:
    """Return the shortest interval of the ladder that is at least `least` steps."""
    size = 1
    while True:
        for one in LADDER:
            if one * size >= least:
                return one * size
        size *= 10


@dataclass(slots=True, kw_only=True)
class Interval:
    """Which steps are sampled: by phase, and seldom enough for a budget.

    Costs are means over the last samples and steps, so that the interval comes back after a slow
    spell. Without a budget it depends on the phases alone.
    """

    every: Mapping[str, int]
    budget_pct: float | None
    sample_s: float = 0.0
    """What one sample costs beyond an update without one."""
    step_s: float = 0.0
    base_s: float = 0.0
    """What an update without a sample costs the monitors."""
    num_samples: int = 0
    num_steps: int = 0
    phase: str = field(default="warmup")

    def now(self) -> int:
        """Return the interval in steps."""
        wanted = max(1, self.every[self.phase])
        if self.budget_pct is None or self.num_samples < 2 or self.step_s <= 0:
            return wanted
        room = self.budget_pct / 100.0 * self.step_s - self.base_s
        longest = LONGEST if room <= 0 else min(LONGEST, self.sample_s / room)
        return max(wanted, on_ladder(longest))

    def is_due(self, step: int) -> bool:
        """Tell whether a step is sampled; the first ones are, to learn what a sample costs."""
        return step % self.now() == 0

    def sampled(self, seconds: float) -> None:
        """Take what the monitors spent in a sampled update."""
        self.num_samples += 1
        # The first one imports and allocates: it is not what the later ones cost.
        weight = 1.0 if self.num_samples <= 2 else 0.25
        self.sample_s += weight * (seconds - self.sample_s)

    def stepped(self, seconds: float, spent_s: float | None) -> None:
        """Take what an update took, monitors left out, and what those spent if it had no sample."""
        self.num_steps += 1
        # The first update compiles and allocates: the second stands for both.
        weight = 1.0 if self.num_steps <= 2 else max(0.05, 1.0 / self.num_steps)
        self.step_s += weight * (seconds - self.step_s)
        if spent_s is not None:
            self.base_s += max(0.05, weight) * (spent_s - self.base_s)


LONGEST: Final = 10_000
"""Steps between samples at most: a monitor that is silent for ever is none."""
