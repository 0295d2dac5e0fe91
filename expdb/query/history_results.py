"""What `log --graph` and `events` show: frozen values, ready to be printed or written as JSON.

Invariant: nothing here reads a file; nodes stand in the order in which they are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from expdb.model import Event, RunAt
from expdb.query.results import Delta, Noise, RunRow


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """A config key whose value differs from the parent's; ABSENT on the side that lacks it."""

    key: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeChange:
    """Another tree of code than the parent's."""

    before: str
    """Tree id of the parent."""
    after: str
    num_files: int | None = None
    """None where the trees are not in this repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One run of a tree of runs, or finished runs that differ from each other in the seed alone."""

    rows: tuple[RunRow, ...]
    """By seed; never empty."""
    parent: int | None
    """The place of the parent among the nodes; None for a root."""
    children: tuple[int, ...]
    depth: int
    is_last: bool
    """Whether no sibling follows."""
    lost_parent: str | None = None
    """The parent's id where it is not in this store."""
    is_cycle: bool = False
    """Damaged parents go in a circle, and it is cut here."""
    fork: RunAt | None = None
    config: tuple[KeyChange, ...] = ()
    """The counted keys that differ from the parent's: those that both have first, then by key."""
    code: CodeChange | None = None
    used: tuple[str, ...] | None = None
    """The files that both imported with another content; None where one does not know its files."""
    code_at: str = ""
    """Where the code stands: `main 4be1f02+`; empty without a commit."""
    data: tuple[str, ...] = ()
    """Names of the data that differ from the parent's."""
    environment: tuple[str, ...] = ()
    """Names of the environment that both recorded with another text and that can move a number."""
    seed_differs: bool = False
    repeats_name: bool = False
    """Whether it has the name of its parent."""
    is_same: bool = False
    """All but the seed is as in an earlier sibling of the same name."""
    value: float | None = None
    """The objective; the mean over the rows."""
    delta: Delta | None = None
    against: tuple[str, ...] = ()
    """The runs that the delta is measured against."""

    @property
    def lead(self) -> RunRow:
        """The row that names the node."""
        return self.rows[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What `log --graph` shows: trees of runs, the oldest root first."""

    nodes: tuple[Node, ...]
    """Depth first; siblings of one name stand together, the oldest first."""
    num_shown: int
    """How many runs were asked for; the rest of the nodes' runs are their ancestors."""
    num_all: int
    metric: str | None
    noise: Noise | None = None
    warnings: tuple[str, ...] = ()
    """Damaged files that were left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One event and the run that it happened in."""

    run: str
    name: str
    seed: int | None
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTrouble:
    """The first event of a run that is more than a remark, and what came before it."""

    run: str
    event: Event
    good: int | None
    """The last complete checkpoint before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthy:
    """The last run of an experiment in which no rule warned, and what another differs in."""

    run: str
    name: str
    keys: tuple[str, ...]
    """The config keys whose values differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What rules find in a run, against what they found in it."""

    events: tuple[Event, ...]
    """Those of the replay, in the order in which they were found."""
    num_recorded: int
    new: tuple[Event, ...]
    """What was not recorded, or otherwise."""
    gone: tuple[Event, ...]
    """What was recorded and is not found, or otherwise."""
    is_equal: bool
    """Whether every line is the same."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventList:
    """What `events` shows: of one run by step, of several the newest first."""

    rows: tuple[EventRow, ...]
    num_all: int
    """How many events there are without a limit."""
    num_runs: int
    """How many runs were looked at."""
    of_one: bool = False
    """One run is shown by itself."""
    step: int | None = None
    """The only step that is shown, and that whole."""
    is_last_day: bool = False
    """Only the last day was looked at, since nothing else was asked for."""
    first: FirstTrouble | None = None
    """Of one run only."""
    healthy: Healthy | None = None
    """Of one step only."""
    replay: Replay | None = None
    """How what is shown was found again, and how it compares; None for what is recorded."""
