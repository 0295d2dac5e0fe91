"""What `Loop` does for the watch of its models, and the share of updates that were clipped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from expdb.track.loop_state import LoopState
    from expdb.track.throughput import Pace
    from expdb.track.update import Engine, Result
    from expdb.track.watch.watch import Watch

WINDOW = 100


class Clipping:
    """The share of the last updates whose gradient was clipped; its window is in the checkpoint."""

    def __init__(self, loop: LoopState, clip: float) -> None:
        self._loop, self._clip = loop, clip

    def saw(self, grad_norm: float) -> dict[str, float]:
        """Take the norm of one update and return the share with it, by name."""
        last = [*self._loop.clipped, not grad_norm <= self._clip][-WINDOW:]
        self._loop.clipped = last
        return {"train/clip_fraction": sum(last) / len(last)}


def end_sample(engine: Engine, result: Result, pace: Pace) -> None:
    """End the sample of an update, with what its watch cannot know."""
    loop = engine.state.loop
    loop.highest_lr = max(loop.highest_lr, result.lr)
    if engine.watch is not None:
        rate = pace.tokens_per_s() if engine.watch.is_sampling else None
        engine.watch.end(result.loss, {} if rate is None else {"train/tokens_per_s": rate})


def watch_of(run: Any, engine: Engine, *, max_steps: int) -> Watch | None:
    """Return the watch that a loop drives: the script's own, or one as the settings say."""
    state = engine.state
    watch: Watch | None = getattr(run, "watched", None)
    section = (getattr(run, "settings", None) or {}).get("watch", {})
    if watch is None and section.get("enabled") and hasattr(run, "watch"):
        watch = run.watch(state.models, list(state.optims.values()))
    if watch is not None:
        watch.release()
        watch.be_ready(engine)
        watch.max_steps = max_steps
        watch.phases.highest = max(watch.phases.highest, state.loop.highest_lr)
    return watch
