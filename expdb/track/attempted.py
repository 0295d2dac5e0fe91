"""What of a run belongs to one attempt: its recorders, rules, heartbeat and checkpoints.

A process has one attempt after another only where a rule went back to a checkpoint.

Invariant: an attempt is closed, with all its points sealed, before the next one is claimed; the
status says `running` all the time, and its owner is this process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from expdb.errors import Corrupt
from expdb.model import Attempt, Objective
from expdb.redact import Redactor
from expdb.store import attempts as attempt_files
from expdb.store.layout import RunLayout
from expdb.store.media_recorder import MediaRecorder
from expdb.store.recorder import Recorder
from expdb.store.runs import read_run
from expdb.store.series import SeriesBook
from expdb.store.status import Status
from expdb.store.store import Store, reason
from expdb.track import resume
from expdb.track.console import Console
from expdb.track.control import Control
from expdb.track.due import Actions, Due
from expdb.track.ending import save_series
from expdb.track.going_back import anchors
from expdb.track.heartbeat import Heartbeat
from expdb.track.intervene import RULE, Intervention, of_attempt
from expdb.track.outage import Outage
from expdb.track.scalars import DeviceQueue
from expdb.track.side import SideFiles
from expdb.track.watching import Watching

if TYPE_CHECKING:
    from expdb.monitor.rule import Rule
    from expdb.track.checkpoint import Checkpointer


class Attempted:
    """The part of a run's handle that a further attempt replaces."""

    store: Store
    layout: RunLayout
    id: str
    console: Console
    objective: Objective | None
    settings: Mapping[str, Any]
    actions: Actions
    step: int
    event: Callable[..., None]
    _rules: Sequence[Rule]
    _redactor: Redactor
    _outage: Outage
    _side: SideFiles
    _queue: DeviceQueue
    settle: Callable[..., None]
    _say_trouble: Callable[[str], None]

    def _open_attempt(self, attempt: Attempt, book: SeriesBook, status: Status) -> None:
        self.attempt, self.resumed_from = attempt.number, attempt.resumed_from
        self.intervention = of_attempt(attempt)
        self._pin, self._status = attempt, status
        self._num_dropped = 0
        self._checkpointer: Checkpointer | None = None
        self._control: Control | None = None
        self._watching = Watching(
            self.layout, attempt, self._rules, self.settings, self._redactor, self.console,
            self.event, self.actions,
        )  # fmt: skip
        self._recorder = Recorder(
            self.layout, run=self.id, attempt=self.attempt, book=book, on_trouble=self._say_trouble
        )
        self._media = MediaRecorder(
            self.layout, run=self.id, attempt=self.attempt, on_trouble=self._say_trouble
        )
        self._heartbeat = Heartbeat(
            self.layout,
            self.attempt,
            self._recorder,
            sync_s=float(self.settings["journal"]["fsync_interval_s"]),
            on_trouble=self._say_trouble,
            on_good=self._outage.works,
            beside=(self._media.sync, self._watching.look_at_clock),
        )
        self._side.attempt("monitor.json", self._watching.begin)
        self._heartbeat.start()

    def _seal_attempt(self) -> None:
        """Close what records, and write what follows from it.

        Raises:
            OSError, Corrupt: something is still unwritten; it can be called again.
        """
        self._recorder.close()
        self._media.close()
        save_series(self.layout, self._recorder)
        self._side.flush()
        attempt_files.write_pin(self.layout, self._pin)

    def go_back(self, at: int, change: Intervention, words: str = "", number: int = 0) -> int:
        """End this attempt and begin another from the checkpoint at `at`; return its number.

        What trains has to `restore` from there; `words` say why it went back. The number that the
        other ranks are told is not looked at here.

        Raises:
            Corrupt: the store cannot be written.
            Refused: another process resumes the run at this moment.
        """
        from expdb.track.used import used_now

        self._queue.drain(wait=True)
        self._heartbeat.stop()
        self._pin = used_now(self._pin)
        num_dropped = self._num_dropped + self._recorder.num_dropped + self._media.num_dropped
        try:
            self._seal_attempt()
            run = read_run(self.layout.root, store_root=self.store.root)
            joined = resume.go_back(self.store, run, self._pin, at, change)
        except OSError as error:
            raise Corrupt(
                f"{self.id} could not go back to step {at}: {reason(error)}",
                hint=f"free some space, then: expdb resume {self.id[:4]}@{at}",
            ) from error
        self.actions.clear()
        self.console.log_to(self.layout.attempt(joined.attempt.number) / "log.txt")
        # What was changed at this start stands in the pin; the rest of it is that of the process.
        self._open_attempt(joined.attempt, joined.book, joined.status)
        self._num_dropped = num_dropped
        for warning in joined.warnings:
            self.console.warning(warning)
        self.step = at
        self._acted(words, "info", dict(change.rewind) | {"action": "rewind"})
        return joined.attempt.number

    @property
    def control(self) -> Control:
        """What `expdb ctl` asks of this attempt; `Loop` looks at it, an own loop may."""
        if self._control is None:
            self._control = Control(self.layout, self.attempt, on_trouble=self._say_trouble)
        return self._control

    @property
    def checkpointer(self) -> Checkpointer:
        """The writer of this run's checkpoints, made on first use."""
        if self._checkpointer is None:
            from expdb.track.checkpoint import Checkpointer

            objective = self.objective
            self._checkpointer = Checkpointer(
                self.layout,
                attempt=self.attempt,
                keep=self.settings["keep"],
                mode=objective.mode if objective else "min",
                protected=partial(_needed, self.store, self.layout, self._watching, self.actions),
            )
        return self._checkpointer

    def intervened(self, message: str, **facts: Any) -> None:
        """Record what was changed where this attempt went on, in its pin and as an event."""
        self._pin = replace(self._pin, intervention={**self._pin.intervention, **facts})
        self._side.attempt("the pin", lambda: attempt_files.write_pin(self.layout, self._pin))
        self.event(self.step, "info", RULE, message)

    def acted(self, due: Due, message: str, *, severity: str = "info") -> None:
        """Record what was done, or could not be, because of an action of a rule."""
        facts = {"rule": due.rule, "step": due.opened, "action": due.action.name}
        words = f"{due.rule} at {due.opened}: {message}"
        self._acted(words, severity, facts)

    def _acted(self, message: str, severity: str, facts: Mapping[str, Any]) -> None:
        self.event(self.step, severity, RULE, message, facts={"by": dict(facts)}, is_told=True)

    def tag(self, step: int, why: str) -> str:
        """Give a checkpoint of this run a name that nothing removes; return what was done.

        Raises:
            ExpdbError, OSError: it has no name now.
        """
        from expdb.track.tagging import tag_checkpoint

        return tag_checkpoint(self.store, self.id, step, why)

    def would_skip(self, step: int, keys: tuple[str, ...], values: Sequence[float]) -> bool:
        """Tell whether a rule wants an update not to be taken."""
        return self._watching.would_skip(step, keys, values)

    def best_steps(self, rule: str = "") -> set[int]:
        """Return the best evaluations by the means of rules that bring back the best, or of one."""
        return self._watching.best_steps(rule)


def _needed(
    store: Store, layout: RunLayout, watching: Watching, actions: Actions
) -> Collection[int]:
    """Return the checkpoints that retention leaves alone, for others and for actions of rules."""
    from expdb.store.protected import protected_steps

    found = protected_steps(store, layout.id) | watching.best_steps()
    return found.union(*(anchors(layout, back) for back in actions.backs))
