"""Which checkpoints of one run may go: a pure rule.

Invariant: a checkpoint goes only if it is complete, is not among the last n nor the best n, is not
protected, and is not the newest; everything the rule is not sure about stays.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from expdb.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """How many checkpoints a run keeps."""

    last: int | None = 2
    """The newest n, at least 1; None keeps all of them."""
    best: int = 1
    """The n with the best objective, of those evaluated at their own step."""

    def words(self) -> str:
        """Return the rule as people read it: `last 2, best 1`."""
        if self.last is None:
            return "all"
        return f"last {self.last}" + (f", best {self.best}" if self.best else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One checkpoint as the rule sees it."""

    step: int
    attempt: int = 1
    value: float | None = None
    """The objective at this step; None when it was not evaluated there."""
    complete: bool = True


def keep_of(settings: Mapping[str, Any]) -> Keep:
    """Return the rule of a `keep` section: {"last": 2, "best": 1}; `last: null` keeps all.

    Raises:
        BadInput: a key is unknown, or a value is not a whole number that makes sense.
    """
    unknown = sorted(set(settings) - {"last", "best"})
    if unknown:
        raise BadInput(f"keep has no key `{unknown[0]}`", hint="its keys are last and best")
    last, best = settings.get("last", 2), settings.get("best", 1)
    if last is not None and (not isinstance(last, int) or isinstance(last, bool) or last < 1):
        raise BadInput(f"keep.last is {last!r}, not a whole number of at least 1")
    if not isinstance(best, int) or isinstance(best, bool) or best < 0:
        raise BadInput(f"keep.best is {best!r}, not a whole number of at least 0")
    return Keep(last=last, best=best)


def removable(
    candidates: Sequence[Candidate],
    *,
    keep: Keep,
    mode: Literal["min", "max"],
    protected: Collection[int],
    newest: int,
) -> tuple[int, ...]:
    """Return the steps that may go, oldest first; `newest` is the step just saved."""
    named = dict.fromkeys(protected, "needed")
    kept = reasons(candidates, keep=keep, mode=mode, protected={**named, newest: "newest"})
    return tuple(sorted(one.step for one in candidates if one.step not in kept))


def reasons(
    candidates: Sequence[Candidate],
    *,
    keep: Keep,
    mode: Literal["min", "max"],
    protected: Mapping[int, str],
) -> dict[int, str]:
    """Return step -> why it stays, of those that do; `protected` says the same of what others need.

    Newness is (attempt, step): what a later attempt wrote is newer than any step of an earlier one.
    A value that is not finite is no value; of two equal values the newer checkpoint is better.
    """
    whole = sorted(
        (one for one in candidates if one.complete), key=lambda one: (one.attempt, one.step)
    )
    kept = {one.step: "not complete" for one in candidates if not one.complete}
    if keep.last is None:
        kept.update((one.step, "keep: all") for one in whole)
        return kept
    for one in whole[-keep.last :]:
        kept[one.step] = "newest" if one is whole[-1] else f"keep: last {keep.last}"
    for place, step in enumerate(_best_first(whole, mode)[: keep.best]):
        kept[step] = "best" if place == 0 else f"keep: best {keep.best}"
    known = {one.step for one in whole}
    kept.update((step, why) for step, why in protected.items() if step in known)
    return kept


def _best_first(whole: Sequence[Candidate], mode: Literal["min", "max"]) -> list[int]:
    sign = 1.0 if mode == "min" else -1.0
    valued = [
        (sign * one.value, -one.attempt, -one.step)
        for one in whole
        if one.value is not None and math.isfinite(one.value)
    ]
    return [-step for _, _, step in sorted(valued)]
