"""Notices about a run itself: it ended, its process died, its host is silent, no step comes.

Invariant: each has a name that is the same whoever notices it, so that it is told once.
"""

from __future__ import annotations

import time
from typing import Final

from expdb.notify.item import SHORT, Item, Severity
from expdb.text import duration

SEVERITY: Final[dict[str, Severity]] = {
    "failed": "critical", "crashed": "critical", "stalled": "critical", "lost": "warn",
    "preempted": "info", "finished": "info",
}  # fmt: skip


def notice_of_end(
    run: str, name: str, state: str, why: str, *, attempt: int, step: int | None, at_ms: int = 0
) -> Item:
    """Return the notice that a run ended: finished, preempted, failed, crashed or lost."""
    go_on = state in ("crashed", "preempted", "lost")
    return Item(
        run=run,
        name=name,
        severity=SEVERITY[state],
        rule=f"run_{state}",
        message=why or state,
        step=step,
        action="go on from its last checkpoint" if go_on else "",
        command=f"expdb {'resume' if go_on else 'show'} {run[:SHORT]}",
        created_at_ms=at_ms or time.time_ns() // 1_000_000,
        notice=f"{state}-{attempt}",
    )


def notice_of_silence(
    run: str,
    name: str,
    *,
    attempt: int,
    step: int | None,
    silent_s: float,
    usual_s: float | None,
    last_ms: int,
) -> Item:
    """Return the notice that a run lives and takes no step; one for each silence."""
    usual = "" if usual_s is None else f"; a step takes {duration(usual_s)} as a rule"
    return Item(
        run=run,
        name=name,
        severity=SEVERITY["stalled"],
        rule="run_stalled",
        message=f"no step for {duration(silent_s)}, and its process lives{usual}",
        step=step,
        action="look where the process waits: loader, network, another rank",
        command=f"expdb tail {run[:SHORT]}",
        created_at_ms=last_ms + round(silent_s * 1000),
        notice=f"stalled-{attempt}-{last_ms // 1000}",
    )
