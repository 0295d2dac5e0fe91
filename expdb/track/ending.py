"""How a run ends: what is said of it, and what a process does that fails, forks or forgets it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from expdb.errors import ExpdbError
from expdb.model_run import left_by
from expdb.store.attempts import resumed_steps
from expdb.store.checkpoints import read_manifests
from expdb.store.curve_keeper import keep_curves
from expdb.store.fold import fold
from expdb.store.layout import RunLayout
from expdb.store.media_recorder import MediaRecorder
from expdb.store.recorder import Recorder
from expdb.store.recover import recount
from expdb.text import first_of
from expdb.track.console import Console
from expdb.track.failure import failure_words


class Ending(Protocol):
    """What of a run its end is about."""

    id: str
    layout: RunLayout
    console: Console
    _forked: bool
    _recorder: Recorder
    _media: MediaRecorder

    def finish(self) -> None:
        """End it well."""

    def fail(self, why: str, *, error: BaseException | None = None) -> None:
        """End it as failed."""

    def settle(self, *, wait: bool) -> None:
        """Put its checkpoints in place."""

    def _end(self, state: str, why: str) -> None: ...
    def _say_end(self, word: str, rest: str, **commands: str) -> None: ...
    def _last_step(self) -> int | None: ...
    def _is_ours(self) -> bool: ...
    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None: ...


def interrupted_words(layout: RunLayout, step: int) -> str:
    """Return where a run stands that somebody stopped by hand, and what a resume would repeat."""
    resumed = resumed_steps(layout)
    there = (
        one for one in read_manifests(layout) if one.complete and left_by(one, resumed) is None
    )
    found = max((one.step for one in there), default=0)
    lost = step - found
    repeated = "1 step" if lost == 1 else f"{lost:,} steps"
    last = f"last checkpoint {found}" if found else "no checkpoint"
    return f"at step {step}, {last}; {repeated} would be repeated"


def save_series(layout: RunLayout, recorder: Recorder) -> None:
    """Write the summaries and the curves of a run whose points are sealed.

    Raises:
        OSError: the summaries could not be written.
    """
    if recorder.book.unordered:
        recorder.book = recount(layout, keys=recorder.book.unordered)
    else:
        recorder.book.save(layout.series_json)
    keep_curves(layout, recorder.book)


def count_others(layout: RunLayout, on_trouble: Callable[[str], None]) -> bool:
    """Count the points of the other writers of a run that has ended; False when there are none."""
    try:
        return fold(layout.root.parents[1], layout)
    except ExpdbError as error:
        on_trouble(f"the points of other ranks are not counted yet: {error.message}")
        return False


def lacking_words(layout: RunLayout, settings: Mapping[str, Any]) -> str:
    """Return what a run that has finished requires and lacks; empty where there is nothing."""
    if not settings.get("require"):
        return ""
    from expdb.store.runs import read_run

    try:
        lacks = read_run(layout.root, store_root=layout.root.parents[1]).lacks
    except ExpdbError:
        return ""  # whoever reads the run is told what is damaged
    return f"it lacks {first_of(lacks)}, which it requires: it does not count" if lacks else ""


def where_points_are(recorder: Recorder, media: MediaRecorder) -> str:
    """Return in words what a process that cannot end well takes with it when it goes."""
    waiting = recorder.num_waiting + media.num_waiting
    if not waiting:
        return "its points are in the journal"
    noun = "1 record is" if waiting == 1 else f"{waiting:,} records are"
    return f"{noun} in memory only, the rest in the journal"


def leave_in_child(run: Ending | None) -> None:
    """Give up the handle in a forked child: the run stays with its parent."""
    if run is not None:
        run._forked = True
        run._recorder.abandon()
        run._media.abandon()


def end_by(run: Ending, error: BaseException | None) -> None:
    """End a run as its `with` block ended; an error goes on unchanged, whatever else fails.

    Raises:
        Corrupt: there is no error, and what was logged could not be written.
    """
    if error is None or (isinstance(error, SystemExit) and not error.code):
        run.finish()
        return
    try:
        if isinstance(error, KeyboardInterrupt):
            interrupt(run)
        else:
            run.fail(failure_words(error), error=error)
    except ExpdbError as trouble:  # what went wrong first is what the script has to hear of
        run.console.warning(trouble.message)


def interrupt(run: Ending) -> None:
    """End a run that somebody stopped by hand."""
    try:
        run.settle(wait=True)
    except ExpdbError as error:
        run.console.warning(error.message)
    why = interrupted_words(run.layout, run._last_step() or 0)
    run._end("preempted", f"interrupted {why}")
    run._say_end("interrupted", why, resume=f"expdb resume {run.id[:4]}")


def end_at_exit(run: Ending | None) -> None:
    """End a run that its script forgot: nobody can tell then whether it was meant to end here."""
    if run is None or not run._is_ours():
        return
    error = getattr(sys, "last_value", None)
    try:
        if error is not None:
            run.__exit__(type(error), error, None)
        else:
            run.fail("the script ended without run.finish()")
    except ExpdbError as failure:
        run.console.warning(failure.message)
