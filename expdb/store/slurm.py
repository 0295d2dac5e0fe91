"""SLURM's queue, by its own commands: what is in it, what became of a job, what is to end.

Invariant: "gone" is said of a job of this user alone, which the queue of its own cluster does not
have; where that queue cannot be asked, nothing is known.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from expdb.store.programs import ask

KEPT_S: Final = 2.0
"""So long an answer of the queue holds: it is asked for all jobs at once, and not without pause."""
PENDING: Final = "PENDING"


@dataclass(slots=True)
class _Answer:
    """What the queue said last; one for all that ask."""

    asked_at: float = -KEPT_S
    states: dict[str, str] | None = None


_answer = _Answer()


def describe(job: str) -> dict[str, Any]:
    """Return a job that is in the queue, as the files of its owner name it."""
    return {"job": job, "cluster": cluster(), "uid": os.getuid()}


def around() -> dict[str, Any] | None:
    """Return the job that this process runs in; None outside of SLURM."""
    job = os.environ.get("SLURM_JOB_ID")
    if not job:
        return None
    return {"job": job, "cluster": os.environ.get("SLURM_CLUSTER_NAME"), "uid": os.getuid()}


def is_gone(job: object) -> bool | None:
    """Tell whether a job (see `describe`) has left the queue; None where nobody here knows."""
    if not isinstance(job, Mapping) or not isinstance(job.get("job"), str):
        return None
    if job.get("uid") != os.getuid():
        return None  # a cluster may hide the jobs of others
    known = states()
    if known is None or job.get("cluster") != cluster():
        return None
    return job["job"] not in known


def states() -> dict[str, str] | None:
    """Return job -> state of the jobs of this user that are in the queue; None: not to be had."""
    if time.monotonic() - _answer.asked_at >= KEPT_S:
        said = _ask("squeue", "--noheader", "--array", f"--user={os.getuid()}", "--format=%A %T")
        _answer.states = None if said is None else dict(_pairs(said))
        _answer.asked_at = time.monotonic()
    return _answer.states


def forget() -> None:
    """Ask the queue anew the next time: it has another job now."""
    _answer.asked_at = -KEPT_S


def _pairs(said: str) -> list[tuple[str, str]]:
    rows = (line.split() for line in said.splitlines())
    return [(row[0], row[1]) for row in rows if len(row) == 2]


@cache
def cluster() -> str | None:
    """Return the name of the cluster whose commands are here; None where there are none."""
    found = re.search(r"^ClusterName\s*=\s*(\S+)", _ask("scontrol", "show", "config") or "", re.M)
    return found[1] if found else None


def end_of(job: str) -> str:
    """Return how a job that is gone ended, as SLURM says it: `TIMEOUT`; empty: not known any more.

    It is known for some minutes without accounting, and longer with it.
    """
    found = re.search(r"\bJobState=(\S+)", _ask("scontrol", "--oneliner", "show", "job", job) or "")
    if found:
        return found[1]
    said = _ask("sacct", "--noheader", "--parsable2", "--allocations", "-j", job, "-o", "State")
    return (said or "").strip().split(" ")[0]


def cancel(job: str) -> None:
    """Take a job out of the queue, or kill it where it runs."""
    _ask("scancel", job)


def ask_to_end(job: str) -> None:
    """Take a job out of the queue that has not begun; one that runs gets SIGTERM."""
    _ask("scancel", f"--state={PENDING}", job)
    _ask("scancel", "--signal=TERM", job)


def _ask(*argv: str) -> str | None:
    """Return what a command of SLURM prints; None where it is not there, fails or hangs."""
    env = {**os.environ, "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}
    answer = ask(*argv, env=env)
    return answer.out if answer is not None and answer.code == 0 else None
