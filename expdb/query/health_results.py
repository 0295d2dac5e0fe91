"""What `show --health` says of a run, as values.

Invariant: everything here comes from the records; nothing is guessed but the causes, and each of
those carries its reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from expdb.model import Event, Run, RunState
from expdb.query.history_results import Healthy

Area = Literal["data", "hyper-parameters", "model", "machine", "script"]
AREAS: tuple[Area, ...] = ("data", "hyper-parameters", "model", "machine", "script")
"""In the order in which they are looked at, after the run was repeated."""
Outcome = Literal["fired", "fine", "not judged"]
LookedBy = Literal["live", "today"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What may be behind it, with all that speaks for and against it."""

    name: str
    area: Area
    said: str
    score: int
    reasons: tuple[str, ...]
    against: tuple[str, ...] = ()
    command: str = ""
    """What to type to find out, or to go on without it; empty where nothing is to be typed."""
    label: str = ""
    """A word for that command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """One rule, and what came of it."""

    rule: str
    outcome: Outcome
    why: str = ""
    """Of one that could not judge: what it lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """Values around the first trouble: of each metric one a step, None where it has none."""

    step: int
    steps: tuple[int, ...]
    values: Mapping[str, tuple[float | None, ...]]
    batches: tuple[int, int] | None = None
    """The first and last micro-batch of that update."""
    layers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What was found out beside: where a number that is not finite came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """A run of the same config, seed and code, and whether it has the same first trouble."""

    run: str
    name: str
    same: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The health of one run."""

    run: Run
    found: tuple[Event, ...]
    """What rules found, by step; the marks of people and of the machinery left out."""
    looked_by: LookedBy
    """Whether the rules looked while it trained, or those of today do now."""
    looked: tuple[Looked, ...]
    around: Around | None = None
    good: int | None = None
    """The last complete checkpoint before the first trouble."""
    healthy: Healthy | None = None
    """The run to compare with, in which no rule warned."""
    repeats: tuple[Repeat, ...] = ()
    causes: tuple[Cause, ...] = ()
    """The likeliest first."""
    commands: tuple[tuple[str, str], ...] = ()
    """(label, command): repeat, then data, then the rest."""
    problems: tuple[str, ...] = field(default=())
    """Damaged files that are not in the picture."""

    @property
    def warned(self) -> tuple[Event, ...]:
        """What was found that is more than a remark."""
        return tuple(one for one in self.found if one.severity != "info")

    @property
    def is_broken(self) -> bool:
        """Whether it ended otherwise than it should."""
        return self.run.state in (RunState.FAILED, RunState.CRASHED, RunState.LOST)
