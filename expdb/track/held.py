"""The run of the Hydra job that is running, started by `hydra/callbacks=expdb`.

Invariant: one job has one run. A `start()` in the job's own code gets that one; a run that has
ended is held no longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from expdb.track.quiet import QuietRun
    from expdb.track.run import Run

_held: list[Run | QuietRun] = []


def hold(run: Run | QuietRun) -> None:
    """Give `run` to every `start()` from now on, until `release`."""
    _held[:] = [run]


def release() -> None:
    """Let `start()` start runs again."""
    _held.clear()


def held() -> Run | QuietRun | None:
    """Return the run of this job; None without one, or when it has ended."""
    run = next(iter(_held), None)
    return run if run is not None and is_open(run) else None


def is_open(run: Run | QuietRun) -> bool:
    """Tell whether this process may still end the run; a quiet one has no end."""
    ours = getattr(run, "_is_ours", None)
    return ours is None or bool(ours())
