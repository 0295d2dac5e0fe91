"""The handle of one run in the training process.

Invariant: a host scalar is on disk when `log()` returns; one that is no number is refused by name
after the good ones of the call are kept; nothing here raises in the middle of training because of
the store, and nothing is lost silently.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any, NoReturn

from expdb import text
from expdb.errors import BadInput, Corrupt
from expdb.model import Attempt, Objective
from expdb.notify.channel import channels_of
from expdb.notify.notifier import Notifier
from expdb.redact import Redactor
from expdb.store import attempts as attempt_files
from expdb.store.last_words import marked
from expdb.store.layout import RunLayout
from expdb.store.series import SeriesBook
from expdb.store.status import Status, write_status
from expdb.store.store import Store, reason
from expdb.track.attempted import Attempted
from expdb.track.console import Console
from expdb.track.due import Actions
from expdb.track.ending import (
    count_others,
    end_at_exit,
    end_by,
    lacking_words,
    leave_in_child,
    where_points_are,
)
from expdb.track.failure import clipped, traceback_lines
from expdb.track.logs import Logs
from expdb.track.outage import Outage
from expdb.track.scalars import LARGEST_STEP, DeviceQueue, sorted_out, whole_step
from expdb.track.side import SideFiles
from expdb.track.watchable import Watchable

if TYPE_CHECKING:
    from expdb.monitor.rule import Rule
    from expdb.track.state import State


class Run(Attempted, Logs, Watchable):
    """One attempt of one run, from `expdb.start()` to `finish()`; also a context manager."""

    def __init__(
        self,
        store: Store,
        layout: RunLayout,
        *,
        experiment: str,
        variant: str,
        seed: int | None,
        attempt: Attempt,
        objective: Objective | None,
        settings: Mapping[str, Any],
        rules: Sequence[Rule],
        fork: tuple[Path, int] | None,
        book: SeriesBook,
        status: Status,
        console: Console,
        redactor: Redactor,
        stop_at: int | None = None,
    ) -> None:
        self.store, self.layout = store, layout
        self.id, self.dir = layout.id, layout.root
        self.experiment, self.name, self.seed = experiment, experiment + variant, seed
        self.objective, self.settings, self.console = objective, settings, console
        self.stop_at, self.step = stop_at, attempt.resumed_from or 0
        self.num_tokens: int | None = None
        """Tokens trained on in all, when the loop counts them; for the closing line."""
        self._fork, self._redactor, self._rules = fork, redactor, rules
        self.actions = Actions(rules)
        """What the rules ask for; `Loop` does it, a loop of one's own may."""
        self._outage = Outage(console.warning)
        self._side = SideFiles(self._say_trouble)
        self._queue = DeviceQueue(self._write)
        self._started_at = monotonic()
        self._open, self._forked = True, False
        self._notifier = Notifier(
            channels_of(settings["notify"]), layout, self.name, env=os.environ,
            say=console.warning, alert=self.event, step=self._last_step,
        )  # fmt: skip
        self._open_attempt(attempt, book, status)
        self._notifier.start()
        handle = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: leave_in_child(handle()))
        self._at_exit = lambda: end_at_exit(handle())
        atexit.register(self._at_exit)

    def log(
        self, metrics: Mapping[str, Any], step: int | None = None, *, all_ranks: bool = False
    ) -> None:
        """Record values at a step (`run.step` without one): state after `step` updates.

        Values are host or device scalars (see expdb.track.scalars). Host values are on disk when
        this returns; device values are copied without a sync and are on disk a few steps later.
        With `all_ranks` the other ranks of the launch record theirs too, each under its own rank.

        Raises:
            BadInput: a name is empty or no text, or a value is no number; the good ones are
                recorded.
        """
        if self._forked or not self._open:
            self._require_open()
        at = self.step if step is None else step
        if type(at) is not int or not -LARGEST_STEP <= at <= LARGEST_STEP:
            at = whole_step(at)
        keys, values = tuple(metrics), tuple(metrics.values())
        now, types = time_ns() // 1_000_000, tuple(map(type, values))
        if not self._recorder.write(keys, values, at, now, types):
            self._log_mixed(metrics, at, now)
        else:
            self._look(keys, values, at, now)
        if self._queue.pending:
            self._queue.drain()

    def _log_mixed(self, metrics: Mapping[str, Any], step: int, now: int) -> None:
        host, device, refused = sorted_out(metrics, step)
        if host:
            self._write(tuple(host), tuple(host.values()), step, now)
        if device:
            self._queue.put(device, step, now)
        if refused:
            raise BadInput("; ".join(refused), hint="the other values of this call are recorded")

    def _write(self, keys: tuple[str, ...], values: tuple[float, ...], step: int, now: int) -> None:
        self._recorder.write(keys, values, step, now)
        self._look(keys, values, step, now)

    def _look(self, keys: tuple[str, ...], values: Sequence[float], step: int, now: int) -> None:
        """Let the rules and the best checkpoints know of recorded values."""
        self._watching.see(step, keys, values, now)
        metric = self.objective.metric if self.objective is not None else ""
        if self._checkpointer is not None and metric in keys:
            self.checkpointer.note_value(step, values[keys.index(metric)])

    def use_data(
        self, name: str, dataset: Any, *, digest: str | None = None, num_bytes: int | None = None
    ) -> None:
        """Name the data that this attempt reads (`train`, `val`): a path or a name, with its
        digest.

        Raises:
            BadInput: a path that does not exist, or neither digest nor file to take one of.
        """
        from expdb.track.data import describe_data

        self._require_open()
        facts = describe_data(dataset, digest=digest, num_bytes=num_bytes)
        facts["name"] = self._redactor.text(str(facts["name"]))
        self._pin = replace(self._pin, data={**self._pin.data, name: facts})
        self._side.attempt("the pin", lambda: attempt_files.write_pin(self.layout, self._pin))
        self.console.data(name, facts["name"], facts.get("bytes"))

    @property
    def latest(self) -> dict[str, tuple[int, float]]:
        """Key -> (step, value) of the last host value logged."""
        return self._recorder.latest()

    def checkpoint(self, step: int, state: State) -> None:
        """Save the full training state of a step; its tensors may change again when this returns.

        Raises:
            BadInput: the state holds what could not be loaded again.
            Corrupt: it could not be written.
        """
        self._require_open()
        metric = self.objective.metric if self.objective is not None else ""
        at, value = self.latest.get(metric, (None, 0.0))
        if at == step:
            self.checkpointer.note_value(step, value)
        self._queue.drain(wait=True)  # so that the rules have seen what is saved
        with self._watching.kept_in(state.loop):
            self.checkpointer.save(step, state)
        self.settle(wait=False)

    def settle(self, *, wait: bool) -> None:
        """Say which checkpoints are in place since the last call; with `wait` none is in flight
        afterwards.

        Raises:
            Corrupt: one could not be written.
        """
        if self._checkpointer is None or self._forked:
            return
        saved = self._checkpointer.wait() if wait else self._checkpointer.poll()
        for item in saved:
            self.console.saved(item.checkpoint.step, item.checkpoint.bytes, item.removed, item.keep)
            if item.note:
                self.console.warning(item.note)
        if saved:
            self._side.attempt("the status", self._save_status)

    def restore(self, state: State) -> int:
        """Load what this run starts from into `state` and return its step: a resume, a fork, or 0
        for neither.

        Raises:
            Corrupt, NotFound, BadInput: the checkpoint is damaged, gone, or of another model.
        """
        from expdb.track.checkpoint import load_start

        loaded = load_start(self.layout, self.resumed_from, self._fork, state)
        for note in loaded.notes:
            self.console.warning(note)
        self.step = loaded.step
        self._side.attempt("monitor.json", partial(self._watching.go_on, state.loop))
        self.intervention.apply(state)
        if self.intervention.lr_scale != 1.0:
            self.intervened(self.intervention.rate_words(self.step, state.loop.lr_scale))
        return loaded.step

    def result(self) -> float:
        """Return the objective for a sweeper; NaN when the run has none."""
        if self.objective is None:
            return float("nan")
        series = self._recorder.update_book().get(self.objective.metric)
        return series.read(self.objective)[0] if series is not None else float("nan")

    def took(self, step: int, first: int, last: int) -> None:
        """Name the micro-batches of an update, for the events about its step; `Loop` does."""
        self._watching.took(step, first, last)

    def finish(self) -> None:
        """End the run well; a second call does nothing.

        Raises:
            Corrupt: points are still unwritten, or the last checkpoint could not be written.
        """
        if self._is_ours():
            self._end("finished", "")
            if said := lacking_words(self.layout, self.settings):
                self.console.warning(said)
            steps = self._status.last_step or 0
            taken = "1 step" if steps == 1 else f"{steps:,} steps"
            if self.num_tokens is not None:
                taken += f", {self.num_tokens:,} tokens"
            seconds = text.duration(monotonic() - self._started_at)
            self._say_end("finished", f"{taken} in {seconds}")

    def fail(self, why: str, *, error: BaseException | None = None) -> None:
        """End the run as failed, with the reason; the log keeps the traceback of `error`."""
        if self._is_ours():
            why = clipped(why, self._redactor)
            if error is not None:
                for line in marked(traceback_lines(error, self._redactor)):
                    self.console.line(line, only_log=True)
            self._end("failed", why)
            rest = f"at step {self._status.last_step or 0}: {why}"
            self._say_end("failed", rest, look=f"expdb show {self.id[:4]}")

    def preempt(self, why: str) -> None:
        """End the attempt as preempted: it saved and stopped, and can be resumed."""
        if self._is_ours():
            self._end("preempted", why)
            self._say_end("preempted", why, resume=f"expdb resume {self.id[:4]}")

    def _say_end(self, word: str, rest: str, **commands: str) -> None:
        self.console.close_bar()
        self.console.blank()
        self.console.line(f"{word}  {self.name} {self.id}  {rest}")
        for label, command in commands.items():
            self.console.labelled(label, command)
        self.console.close()

    def _end(self, state: str, why: str) -> None:
        from expdb.track.used import used_now

        self._queue.drain(wait=True)
        self._heartbeat.stop()
        self._pin = used_now(self._pin)
        failure: Exception | None = None
        try:
            self.settle(wait=True)
        except (Corrupt, BadInput) as error:
            failure = error
        self._status.last_step = self._last_step()
        try:
            self._seal_attempt()
            self._status.state, self._status.reason = state, why
            self._status.ended_at_ms = time_ns() // 1_000_000
            self._save_status()
            if count_others(self.layout, self._say_trouble):
                self._save_status()
        except OSError as error:
            raise Corrupt(
                f"{self.id} could not be finished: {reason(error)};"
                f" {where_points_are(self._recorder, self._media)}",
                hint=f"free some space, then: expdb show {self.id[:4]}",
            ) from error
        self._open = False
        atexit.unregister(self._at_exit)
        self._notifier.close(state, why, self.attempt)
        if failure is not None:
            raise failure

    def _changed(self, *, is_event: bool = False) -> None:
        if is_event:  # the rest is found without it: readers look at a live run each time
            self._side.attempt("the status", self._save_status)
            self._notifier.poke()

    def _save_status(self) -> None:
        dropped = self._recorder.num_dropped + self._media.num_dropped
        self._status.num_dropped = self._num_dropped + dropped
        self._status.max_steps = self.console.max_steps or self._status.max_steps
        write_status(self.layout, self._status)

    def _last_step(self) -> int | None:
        steps = [step for step, _ in self.latest.values()]
        steps += [item.last_step for item in self._recorder.book.series.values()]
        return max(steps, default=None)

    def _say_trouble(self, message: str) -> None:
        self._outage.trouble(message)

    def _is_ours(self) -> bool:
        """Tell whether this process may end the run: not in a fork, and not twice."""
        return self._open and not self._forked

    def _require_open(self) -> None:
        if self._forked:
            raise BadInput(
                f"run {self.id} belongs to the process that started it, and this is a fork of it",
                hint="log from the parent process",
            )
        if not self._open:
            raise BadInput(f"run {self.id} has ended", hint="log before finish()")

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self._is_ours():
            end_by(self, error)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an expdb run cannot be pickled: it belongs to the process that started it")
