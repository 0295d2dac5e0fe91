"""What `run` returns: the plan, and what came of each job.

Invariant: nothing here reads a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from expdb.model import Pin
from expdb.query.status_results import Reason
from expdb.store.jobs import Key

Which = Literal["missing", "stale", "failed", "all"]
"""Which declared runs get a job; `all` also has those that are up to date."""

End = Literal["done", "failed", "stopped", "not begun", "left", "taken", "done before"]
"""`left`: it stays in its queue without this process; `taken`: another process is at it; `done
before`: one had done it when it could be taken.
"""

NOT_DONE: Final = frozenset[str](["failed", "stopped", "not begun", "left"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One declared run that is to be trained."""

    experiment: str
    variant: str
    seed: int | None
    state: str
    """How it stands: `missing`, `stale`, `failed`, `crashed`, `preempted`, `up to date`."""
    reasons: tuple[Reason, ...] = ()
    argv: tuple[str, ...]
    resumes: str | None = None
    """The run that it goes on with; a new one is begun else."""
    step: int | None = None
    """The step that it goes on from."""
    estimate_s: float | None = None
    digest: str
    known: frozenset[str] = frozenset()
    """The runs of this declared run that there were when it was planned."""
    slurm: Mapping[str, Any] = field(default_factory=dict)
    """What its config asks of SLURM: `expdb.slurm`."""

    @property
    def name(self) -> str:
        """Experiment and variant."""
        return self.experiment + self.variant

    @property
    def key(self) -> Key:
        """What it is claimed by."""
        return self.name, self.seed

    @property
    def said(self) -> str:
        """How people write it: `exp01:s2`."""
        return self.name if self.seed is None else f"{self.name}:s{self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """What `run` is about to do."""

    jobs: tuple[Job, ...]
    num_declared: int
    """Of the experiments that were named, of all without a name."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """State -> declared runs that get no job."""
    invalid: tuple[tuple[str, str], ...] = ()
    """(experiment, why it cannot be trained)."""
    more: int = 0
    """Jobs beyond the number that was asked for."""
    folder: Path
    """Where the command is started."""
    code: Mapping[str, Any]
    """The section `expdb.code`: what a pin leaves out."""
    dirty: Literal["snapshot", "refuse"] = "snapshot"
    """Whether edits are kept as a snapshot, or nothing is trained with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The code that jobs run: a commit, or the work tree as it stands."""

    pin: Pin | None = None
    why_in_place: str = ""
    """Why jobs run in the user's own folder; empty where they have work trees of their own."""

    @property
    def commit(self) -> str | None:
        """The commit that the work trees of the jobs are at."""
        if self.why_in_place or self.pin is None:
            return None
        return self.pin.snapshot or self.pin.commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What came of one job."""

    job: Job
    end: End
    run: str | None = None
    """The run that it recorded."""
    said: str = ""
    """Why it is not done, in one line."""
    seconds: float = 0.0
    log: Path | None = None
    """What its process printed; None where it went well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Going:
    """How far the jobs are."""

    num_done: int
    num_failed: int
    num_running: int
    num_queued: int = 0
    """Jobs in a queue that do not run yet."""
    num_all: int
    eta_s: float | None
    queued: tuple[Job, str] | None = None
    """The job that was put into a queue just now, and what it is called there."""
    begun: Job | None = None
    """The job that began just now."""
    ended: Ended | None = None
    """The job that ended just now."""
    is_stopping: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What came of all jobs."""

    source: Source
    ended: tuple[Ended, ...]
    seconds: float
    was_stopped: bool = False

    @property
    def left(self) -> tuple[Ended, ...]:
        """What was planned and is not done."""
        return tuple(one for one in self.ended if one.end in NOT_DONE)

    @property
    def is_well(self) -> bool:
        """Whether nothing is left to do of what was planned."""
        return not self.left


def cost(estimates: Sequence[float | None], workers: int) -> float | None:
    """Return how long jobs take that are begun in order, so many at once; None if one is unknown.

    An estimate of a job that already runs is what is left of it; those come first.
    """
    free = [0.0] * max(1, workers)
    for estimate in estimates:
        if estimate is None:
            return None
        first = min(range(len(free)), key=free.__getitem__)
        free[first] += estimate
    return max(free)
