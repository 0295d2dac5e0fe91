"""What `run` knows of a job that it has begun, wherever that runs.

Invariant: a job has its claim, and its place where it has one, from before it begins until
`finish`; `leave` hands both to the job itself.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from expdb.actions.run.recorded import Recorded
from expdb.actions.run.results import Job
from expdb.store.files import Held
from expdb.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A job that is this process's to run."""

    job: Job
    claim: Held
    own: ExitStack
    """What gives it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How the process of a job ended."""

    status: int | None
    """Its exit status, minus the signal that ended it; None where it left none."""
    said: str
    """In one line: `exit 1`, `SLURM says TIMEOUT`."""
    how: Literal["ran", "not begun", "taken"] = "ran"
    """`taken`: when it came to run, another process had it."""


class Begun(Protocol):
    """A job that was begun."""

    @property
    def job(self) -> Job:
        """Which one."""

    @property
    def log(self) -> Path:
        """What its process prints."""

    @property
    def queued_as(self) -> str:
        """What it is called in a queue: `SLURM 1234`; empty where it just runs."""

    def began(self) -> float | None:
        """Return when it began to run, by the monotonic clock; None while it waits in a queue."""

    def exit(self) -> Exit | None:
        """Return how it ended; None before that."""

    def finish(self, store: Store) -> Recorded | None:
        """Give back what it had, once it has ended, and return the run that it recorded."""

    def stop(self, *, at_once: bool) -> None:
        """Have it save and end, or end it."""

    def leave(self) -> None:
        """Let it go on without this process."""

    def abandon(self, store: Store) -> None:
        """End it at once, and give back what it had."""
