"""What one run, its attempts and its ops hold; imported by its users as `expdb.model`.

Invariant: as there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from expdb.model_base import Objective, RunAt, RunId, RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What is known of one key without reading its points; min and max are over finite values."""

    key: str
    count: int
    nonfinite: int
    first_step: int
    first: float
    last_step: int
    last: float
    min_step: int | None = None
    min: float | None = None
    max_step: int | None = None
    max: float | None = None
    tail: tuple[float, ...] = ()
    """The last three values, oldest first, for the reading `mean_last_3` and for display."""
    nonfinite_step: int | None = None
    """Since which step the series is not finite up to its end; None if it ends finite."""

    def best(self, mode: str) -> tuple[float, int] | None:
        """Return (value, step) of the best finite value, or None when there is none."""
        value, step = (self.min, self.min_step) if mode == "min" else (self.max, self.max_step)
        return None if value is None or step is None else (value, step)

    def read(self, objective: Objective) -> tuple[float, int]:
        """Return (value, step) as the objective reads it; NaN where it has no finite value."""
        if objective.reading == "best":
            return self.best(objective.mode) or (math.nan, self.last_step)
        if objective.reading == "mean_last_3" and self.tail:
            return sum(self.tail) / len(self.tail), self.last_step
        return self.last, self.last_step


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What one attempt is fixed to in git; `commit` is None where there is nothing to pin."""

    commit: str | None = None
    """HEAD at the start (40 hex)."""
    branch: str | None = None
    """Branch name, or `detached`."""
    tree: str | None = None
    """Tree id of the captured work tree: the identity of the code."""
    dirty: bool = False
    num_edits: int = 0
    snapshot: str | None = None
    """The snapshot commit of a dirty work tree; None when clean."""
    remote: str | None = None
    used: Mapping[str, str] = field(default_factory=dict)
    """Repository path -> blob id, of the files that the process imported."""
    reproducible: bool = True
    reasons: tuple[str, ...] = ()
    """What is not captured, in plain words."""
    skipped: tuple[str, ...] = ()
    """Untracked paths that were left out (too large, secret)."""

    @property
    def pinned(self) -> str | None:
        """The commit whose tree is the code: the snapshot, else HEAD."""
        return self.snapshot or self.commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One checkpoint folder as its manifest describes it."""

    step: int
    bytes: int
    complete: bool
    attempt: int = 1
    created_at_ms: int = 0
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """File name -> {"bytes": int, "sha256": hex}."""
    problem: str = ""
    """Why it is not complete; empty when it is."""


def left_by(checkpoint: Checkpoint, resumed: Mapping[int, int | None]) -> int | None:
    """Return the first attempt that left a checkpoint behind; `resumed`: attempt -> its step."""
    later = (
        number
        for number, start in resumed.items()
        if start is not None and number > checkpoint.attempt and start < checkpoint.step
    )
    return min(later, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One process life of a run."""

    number: int
    pin: Pin
    started_at_ms: int = 0
    resumed_from: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """Names such as `python`, `torch`, `torch.num_threads`, `gpu` -> text."""
    data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Data name (`train`, `val`) -> {"digest", "name", "bytes", ...}."""
    work_tree: str = ""
    intervention: Mapping[str, Any] = field(default_factory=dict)
    """What was changed where it went on: skip_batches, skipped ([first, last]), lr_scale; rewind
    (rule, step, from, try) where a rule did it, else a person.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Eval:
    """One evaluation of one checkpoint on one task."""

    id: str
    task: str
    step: int
    metrics: Mapping[str, float]
    n: int | None = None
    shots: int | None = None
    scorer: str = ""
    items_digest: str = ""
    created_at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One alert of a rule with all that became of it, or one intervention."""

    step: int
    severity: Literal["info", "warn", "critical"]
    """The worst that it was."""
    rule: str
    message: str
    created_at_ms: int = 0
    key: str = ""
    """The metric that it is about; empty where it is about none."""
    now: str = ""
    """What became of it: open, critical since 201, over at 154; empty where nothing can."""
    is_acknowledged: bool = False
    """Whether somebody has seen it as severe as it is now."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else its line holds: value threshold version window batches good decision command ..."""

    @property
    def mark(self) -> str:
        """What an acknowledgement names it by; with its severity, so that what grows worse is open
        again.
        """
        said = f"{self.step} {self.severity} {self.rule} {self.key}"
        return " ".join(said.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One logged change of refs or of a work tree; the file is immutable.

    `before` and `after` hold what the kind needs: for `baseline` the ref's value; for `rollback`
    and `undo` the plan, the snapshot and the work tree's HEAD. An op of a work tree is two files:
    `phase` "begin" and "end" (or "abort"), the second naming the first in `parents`.
    """

    id: str
    kind: str
    phase: Literal["whole", "begin", "end", "abort"] = "whole"
    created_at_ms: int = 0
    parents: tuple[str, ...] = ()
    what: str = ""
    """One line for people: `rollback to k3f9 baseline@300`."""
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    undoes: str | None = None
    """The id of the op that this one undoes."""
    who: str = ""
    host: str = ""
    work_tree: str = ""
    """The absolute git directory of the work tree, or empty for ops on refs only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run as its folder describes it; `store.runs.read_run` fills it, JSON only."""

    id: RunId
    experiment: str
    variant: str
    """"" or `+optim.lr=0.01`: the task overrides left over, sorted, each with a leading plus."""
    seed: int | None
    state: RunState
    reason: str
    """Why it ended as it did, in one line; empty when it finished."""
    created_at_ms: int
    ended_at_ms: int | None
    last_step: int | None
    max_steps: int | None
    path: str
    """The run folder relative to the store, with forward slashes."""
    parent: RunAt | None
    fork: RunAt | None
    objective: Objective | None
    digest: str
    """`v1:<sha256>` under the rules in force when it ran."""
    canonical: str
    """The canonical JSON of the whole config before `ignore`, redacted."""
    settings: Mapping[str, Any]
    """The effective `expdb:` section: digest code keep require gates noise and the key names."""
    command: tuple[str, ...]
    attempts: tuple[Attempt, ...]
    series: Mapping[str, Series]
    checkpoints: tuple[Checkpoint, ...]
    evals: tuple[Eval, ...]
    events: tuple[Event, ...]
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    num_dropped: int = 0
    """Points that could not be kept after an I/O error."""
    bytes: int = 0
    problems: tuple[str, ...] = ()
    """Damaged files of this run, one line each."""
    study: str = ""
    """The search or series of runs that it belongs to; empty where it belongs to none."""
    host: str = ""
    """The host of the latest attempt; empty where it is not known."""
    saving: tuple[int, ...] = ()
    """The steps whose checkpoint a live process is writing; none of them is in `checkpoints`."""
    version: tuple[int, int, int] = (0, 0, 0)
    """(mtime_ns, inode, size) of status.json."""

    @property
    def name(self) -> str:
        """The experiment with its variant: `exp01+optim.lr=0.01`."""
        return self.experiment + self.variant

    @property
    def attempt(self) -> Attempt | None:
        """The latest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def pin(self) -> Pin:
        """The pin of the latest attempt."""
        return self.attempts[-1].pin if self.attempts else Pin(reasons=("no attempt was recorded",))

    @property
    def usable(self) -> tuple[Checkpoint, ...]:
        """The complete checkpoints on the run's own way to its end, by step.

        One of an attempt that a later attempt left at an earlier step belongs to points that are
        hidden.
        """
        return tuple(item for item in self.checkpoints if item.complete and not self.left(item))

    def left(self, checkpoint: Checkpoint) -> int | None:
        """Return the attempt that went on from before a checkpoint of an earlier one; else None."""
        return left_by(checkpoint, {one.number: one.resumed_from for one in self.attempts})

    @property
    def duration_s(self) -> float | None:
        """Wall time from creation to the end, for a run that ended."""
        if self.ended_at_ms is None:
            return None
        return max(0.0, (self.ended_at_ms - self.created_at_ms) / 1000)

    @property
    def lacks(self) -> tuple[str, ...]:
        """The metrics that its settings require and of which it has no finite value, as named."""
        required = self.settings.get("require")
        if not isinstance(required, list | tuple):
            return ()
        named = dict.fromkeys(str(metric) for metric in required)
        return tuple(metric for metric in named if not self._has(metric))

    def _has(self, metric: str) -> bool:
        found = self.series.get(metric)
        return found is not None and found.count > found.nonfinite

    def value(self) -> tuple[float, int] | None:
        """Return (value, step) of the run's objective; None when it has no such series."""
        if self.objective is None or self.objective.metric not in self.series:
            return None
        return self.series[self.objective.metric].read(self.objective)

    def best_step(self) -> int | None:
        """The step with the best finite objective."""
        if self.objective is None or self.objective.metric not in self.series:
            return None
        best = self.series[self.objective.metric].best(self.objective.mode)
        return None if best is None else best[1]
