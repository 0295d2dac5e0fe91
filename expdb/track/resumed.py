"""Which run a start resumes, from which step, and with what changed."""

from __future__ import annotations

from dataclasses import dataclass

from expdb.errors import Corrupt, NotFound, Refused
from expdb.model import Run, RunState
from expdb.store.going_on import require_step
from expdb.store.runs import find_run_dir, read_run
from expdb.track import launch, resume
from expdb.track.intervene import NONE, Intervention
from expdb.track.prepare import Start


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """A run that a start goes on with."""

    run: Run
    assume_dead: bool
    """Whether its owner is known to be gone."""
    at: int | None = None
    """The step asked for; None for the last good checkpoint."""
    change: Intervention = NONE


def find_resumed(begun: Start) -> Resumed | None:
    """Return the run that this start resumes; None for a new one.

    A launch that its scheduler started again goes on where it was: it neither goes back to the step
    that its command names, nor skips batches once more.

    Raises:
        NotFound, Ambiguous, BadInput, Refused: the run or the step asked for is not there, or it
            has another config.
    """
    wanted = begun.settings["resume"]
    if wanted in (None, False, "never", "off"):
        return None
    announced = launch.announced(begun.store.layout, begun.launch)
    restarted = announced is not None and begun.launch.restart > int(announced.get("restart", 0))
    known = str(announced.get("run")) if announced is not None and restarted else None
    if wanted == "auto":
        return None if known is None else _of_launch(begun, known)
    at = resume.find_run(begun.store, str(wanted), begun.head)
    run = read_run(find_run_dir(begun.store.root, at.run), store_root=begun.store.root)
    gone = bool(begun.settings["assume_dead"]) and run.state is RunState.LOST
    again = known == run.id
    step = None if again else at.step
    resume.require_can_resume(run, assume_dead=gone, at=step)
    resume.require_same_config(run, begun.composed, begun.settings, begun.seed)
    if step is not None:
        require_step(begun.store, run, step)
    change = NONE if again else begun.intervention
    return Resumed(run=run, assume_dead=gone, at=step, change=change)


def _of_launch(begun: Start, known: str) -> Resumed | None:
    """Return the run of this launch before its restart, if it can go on."""
    try:
        folder = find_run_dir(begun.store.root, known)
        run = read_run(folder, store_root=begun.store.root)
        resume.require_same_config(run, begun.composed, begun.settings, begun.seed)
    except (NotFound, Corrupt, Refused):
        return None
    return Resumed(run=run, assume_dead=True) if run.state is not RunState.FINISHED else None
