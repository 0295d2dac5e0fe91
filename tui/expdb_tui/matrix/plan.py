"""Running what is missing: the plan as a dialog shows it, and the process that carries it out.

Invariant: the process is a session of its own, so that it trains on when the app is left; what it
says goes to a file of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from expdb.actions.run.results import RunPlan, cost
from expdb.store.store import Store
from expdb.text import duration, plain
from expdb_tui.ink import Piece
from expdb_tui.marks import Marks
from expdb_tui.widgets.dialog import Deed, PlanShown

MAX_JOBS = 200


def said_cost(plan: RunPlan) -> str:
    """Return how many runs, and about how long they take one after the other."""
    count = len(plan.jobs)
    seconds = cost([job.estimate_s for job in plan.jobs], 1)
    about = "" if seconds is None else f", about {duration(seconds)}"
    return f"{count} run{'' if count == 1 else 's'}{about}"


def plan_shown(plan: RunPlan, marks: Marks) -> PlanShown:
    """Return what is asked before anything runs; a plan of nothing has no deed."""
    pairs: list[tuple[str, Sequence[Piece]]] = []
    for at, job in enumerate(plan.jobs[:MAX_JOBS]):
        name: list[Piece] = [(f"{plain(job.said):<24}", "text"), (f" {job.state:<10}", "dim")]
        if job.resumes is not None:
            name.append((f" goes on with {job.resumes[:4]} from step {job.step}", "dim"))
        elif job.estimate_s is not None:
            name.append((f" about {duration(job.estimate_s)}", "dim"))
        pairs.append(("runs" if at == 0 else "", name))
    if len(plan.jobs) > MAX_JOBS:
        pairs.append(("", [(f"and {len(plan.jobs) - MAX_JOBS:,} more", "dim")]))
    if plan.left_out:
        left = ", ".join(f"{count} {state}" for state, count in sorted(plan.left_out.items()))
        pairs.append(("left out", [(left, "dim")]))
    for name_of, fault in plan.invalid:
        pairs.append(("invalid", [(f"{plain(name_of)}: {plain(fault)}", "fail")]))
    if not plan.jobs:
        title: list[Piece] = [("Nothing to run", "text+bold")]
        more = (
            [("stale runs", [("expdb run --stale", "accent")])]
            if plan.left_out.get("stale")
            else []
        )
        more += (
            [("failed ones", [("expdb run --failed", "accent")])]
            if plan.left_out.get("failed")
            else []
        )
        return PlanShown(title=title, pairs=[*pairs, *more])
    pairs += [
        (
            "code",
            [("as it stands now, kept as a commit; this work tree stays free to edit", "text")],
        ),
        ("process", [("one after the other; goes on when this app is left", "text")]),
    ]
    title = [("Run what is missing  ", "text+bold"), (said_cost(plan), "dim")]
    return PlanShown(title=title, pairs=pairs, deeds=[Deed(label="Run")])


@dataclass(slots=True, kw_only=True)
class Runner:
    """The process that runs what is missing."""

    child: subprocess.Popen[bytes]
    log: Path
    num_jobs: int

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.child.poll() is not None

    def said(self) -> str:
        """Return how it ended, with its last line where it did not end well."""
        if self.child.returncode == 0:
            return "all that was missing has been run"
        try:
            lines = self.log.read_text(errors="replace").split("\n")
        except OSError:
            lines = []
        lines = [line.strip() for line in lines if line.strip()]
        last = next((line for line in lines if line.startswith("error:")), (lines or [""])[-1])
        return f"expdb run ended with exit {self.child.returncode}: {last}   {self.log}"


def start(store: Store, directory: Path, num_jobs: int) -> Runner:
    """Start `expdb run --missing` as a process of its own.

    Raises:
        OSError: it cannot be started.
    """
    handle, name = tempfile.mkstemp(prefix="expdb-run-", suffix=".log")
    words = [sys.executable, "-m", "expdb.cli.main", "--store", str(store.root.absolute())]
    with os.fdopen(handle, "wb") as out:
        child = subprocess.Popen(
            [*words, "run", "--missing"],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Runner(child=child, log=Path(name), num_jobs=num_jobs)
