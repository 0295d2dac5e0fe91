"""False events, recall and delay of a rule on a class of curves.

Alarms within 20 steps are one event. A fault is found by an event from 4 steps before to 60 steps
after its begin; every other event before it is false, and what comes after it is not counted.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.detectors.curves import Curve
from bench.detectors.rivals import Rule

MERGED: Final = 20
EARLY: Final = 4
LATE: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How a rule did on curves of one class."""

    num_curves: int
    num_steps: int
    """Steps at which an event is a false one."""
    num_false: int
    num_found: int
    delays: tuple[int, ...]

    @property
    def false_10k(self) -> float:
        """False events in 10,000 steps."""
        return self.num_false / self.num_steps * 10_000 if self.num_steps else 0.0

    @property
    def recall(self) -> float:
        """The share of faults that were found."""
        return self.num_found / self.num_curves

    @property
    def delay(self) -> float | None:
        """The median delay of those found."""
        return statistics.median(self.delays) if self.delays else None


def events(rule: Rule, curve: Curve) -> list[int]:
    """Return the first step of each event of a rule."""
    found: list[int] = []
    last = -MERGED - 1
    for step, (loss, norm) in enumerate(zip(curve.loss, curve.norm, strict=True)):
        if rule(step, loss, norm):
            if step - last > MERGED:
                found.append(step)
            last = step
    return found


def score(made: Iterable[tuple[Rule, Curve]]) -> Score:
    """Return the score of a rule, fresh for every curve."""
    num_curves = num_steps = num_false = 0
    delays: list[int] = []
    for rule, curve in made:
        num_curves += 1
        found = events(rule, curve)
        begin = len(curve.loss) if curve.fault is None else curve.fault - EARLY
        num_steps += begin
        num_false += sum(step < begin for step in found)
        if curve.fault is not None:
            hits = [step for step in found if begin <= step <= curve.fault + LATE]
            delays += [hits[0] - curve.fault] if hits else []
    return Score(
        num_curves=num_curves, num_steps=num_steps, num_false=num_false,
        num_found=len(delays), delays=tuple(delays),
    )  # fmt: skip


def spread(delays: Sequence[int]) -> int:
    """Return the delay within which 95 % of those found were."""
    ordered = sorted(delays)
    return ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
