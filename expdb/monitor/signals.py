"""The signals: what is measured in training, in which unit, and what a value of it is for.

Invariant: every name that expdb logs by itself has exactly one entry, and every entry says which
decision it serves. A pattern's `*` stands for any text, slashes too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, get_args

from expdb.errors import BadInput
from expdb.monitor.signal_table import ROWS, Family

FAMILIES: Final[tuple[str, ...]] = get_args(Family)
DIRECTIONS: Final = ("lower", "higher", "range", "none")
PHASES: Final = ("all", "warmup", "stable", "eval", "start")
COSTS: Final = ("free", "step", "sampled", "rare")


CARRIED: Final = frozenset(["train/noise_scale", "layer/*/emb_drift"])
"""Values that hang on the samples before them, so no other process gives the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One kind of measured value."""

    pattern: str
    unit: str
    family: Family
    direction: str
    """Which way is better: lower, higher, range (inside a band), none."""
    phase: str
    """When it is worth a look: all, warmup, stable, eval (with evaluations), start (step 0)."""
    decision: str
    """What a bad value makes one do; never empty."""
    cost: str
    """free: known anyway; step: a little on each update; sampled: on sampled updates; rare: on few
    of those.
    """

    @property
    def is_sampled(self) -> bool:
        """Whether only some updates have a point, so that two recordings may differ in which."""
        return self.cost in ("sampled", "rare")

    @property
    def is_carried(self) -> bool:
        """Whether a value hangs on earlier samples of its process."""
        return self.pattern in CARRIED


def _signals() -> tuple[Signal, ...]:
    return tuple(
        Signal(
            pattern=pattern, unit=unit, family=family, direction=direction, phase=phase, cost=cost,
            decision=decision,
        )
        for pattern, unit, family, direction, phase, cost, decision in ROWS
    )  # fmt: skip


@cache
def registry() -> tuple[Signal, ...]:
    """Return all built-in signals, in the order of docs/monitoring.md.

    Raises:
        BadInput: an entry is not whole (see `require_whole`).
    """
    found = _signals()
    require_whole(found)
    return found


def require_whole(signals: Sequence[Signal]) -> None:
    """Refuse entries without a decision, of an unknown family, or that share a pattern.

    Raises:
        BadInput: the first such entry.
    """
    seen: set[str] = set()
    for one in signals:
        for name, value, known in (
            ("family", one.family, FAMILIES),
            ("direction", one.direction, DIRECTIONS),
            ("phase", one.phase, PHASES),
            ("cost", one.cost, COSTS),
        ):
            if value not in known:
                raise BadInput(
                    f"the signal {one.pattern} has the {name} {value!r}",
                    hint=f"it is one of: {' '.join(known)}",
                )
        if not one.decision.strip():
            raise BadInput(f"the signal {one.pattern} has no decision")
        if not one.unit.strip():
            raise BadInput(f"the signal {one.pattern} has no unit")
        if one.pattern in seen:
            raise BadInput(f"the signal {one.pattern} is there twice")
        seen.add(one.pattern)


def signal_of(key: str) -> Signal | None:
    """Return the entry of a metric: the one with its very name, else the first pattern."""
    return _found(key)


@cache
def _found(key: str) -> Signal | None:
    signals = registry()
    for one in signals:
        if one.pattern == key:
            return one
    return next((one for one in signals if _regex(one.pattern).fullmatch(key)), None)


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(".+".join(map(re.escape, pattern.split("*"))), re.DOTALL)
