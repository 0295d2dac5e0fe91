"""Repeats in alternating pairs, ours then theirs, and the medians and ratios of them.

A pair lies close in time, so a ratio within it suffers less from other work than two separate rows;
a row's figure is the median over repetitions, with the extremes beside it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Scale = Literal["full", "moderate", "quick"]
Figures = Mapping[str, Any]
"""What one repetition measured: name -> number; other values are kept as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How much is measured."""

    reps: int = 5
    budget_s: float = 120.0
    """No further repetition of a row begins after so long."""
    scale: Scale = "full"
    """`moderate` for a busy machine; `quick` shows that all works, and no figure of it counts."""

    def size(self, full: int, moderate: int, quick: int) -> int:
        """Return how many of something to measure."""
        return {"full": full, "moderate": moderate, "quick": quick}[self.scale]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """All repetitions of one tracker at one workload."""

    workload: str
    name: str
    reps: Sequence[Figures] = ()
    ours: Sequence[Figures] = ()
    """The repetitions of expdb that each was paired with."""
    error: str = ""

    def median(self, key: str) -> float | None:
        """Return the median of a figure, or None where nothing was measured."""
        found = _numbers(self.reps, key)
        return statistics.median(found) if found else None

    def ratio(self, key: str) -> float | None:
        """Return the median over pairs of theirs to ours."""
        pairs = zip(_numbers(self.reps, key), _numbers(self.ours, key), strict=False)
        found = [theirs / ours for theirs, ours in pairs if ours]
        return statistics.median(found) if found else None

    def shown(self, key: str, digits: int) -> str:
        """Return a figure as `median (least-most)`."""
        found = _numbers(self.reps, key)
        if not found:
            return "-"
        texts = [f"{value:,.{digits}f}" for value in (statistics.median(found), *_ends(found))]
        return texts[0] if len(set(texts)) == 1 else f"{texts[0]} ({texts[1]}-{texts[2]})"


def repeated(
    options: Options, ours: Callable[[], Figures], theirs: Callable[[], Figures] | None
) -> tuple[list[Figures], list[Figures]]:
    """Return the repetitions of both, in turn; of ours alone where there is no other."""
    mine: list[Figures] = []
    others: list[Figures] = []
    until = time.monotonic() + options.budget_s
    for _ in range(options.reps):
        mine.append(ours())
        if theirs is not None:
            others.append(theirs())
        if time.monotonic() > until:
            break
    return mine, others


def _numbers(reps: Sequence[Figures], key: str) -> list[float]:
    return [float(item[key]) for item in reps if item.get(key) is not None]


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)
