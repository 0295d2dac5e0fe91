"""The jobs of a plan: so many at once, each in a work tree of its own, until all have ended.

SIGINT, SIGTERM and SIGHUP begin no more jobs and let those that run save and end (SIGTERM: their
run is `preempted`); once more kills them. Should this process be killed, its jobs get SIGTERM too.
Jobs in a queue are taken out of it by SIGINT and SIGTERM; a hang-up leaves them to it, and so does
the death of this process.

Invariant: a job's process is gone before its work tree is, and its work tree before its claim; one
that fails stops no other. Everything happens in one thread, as a child is told of the end of the
thread that started it.
"""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

from expdb.actions.run.begun import Begun, Exit, Taken
from expdb.actions.run.process import Site
from expdb.actions.run.recorded import Recorded
from expdb.actions.run.results import End, Ended, Going, Job, cost
from expdb.errors import Refused
from expdb.model import RunState
from expdb.store import jobs
from expdb.store.files import reason

Tell = Callable[[Going], None]
Begin = Callable[[Site, Taken], Begun]
"""Starts a job, or puts it into a queue; raises Refused and OSError."""

POLL_S: Final = 0.05
SAY_EVERY_S: Final = 0.5
STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Workers:
    """Works off jobs."""

    def __init__(
        self, site: Site, begin: Begin, *, workers: int, tell: Tell, hang_up_leaves: bool = False
    ) -> None:
        self._site, self._start, self._workers, self._tell = site, begin, workers, tell
        self._hang_up_leaves = hang_up_leaves
        self._waiting: deque[Taken] = deque()
        self._running: list[Begun] = []
        self._told: set[jobs.Key] = set()
        """The jobs that were told to run."""
        self._ended: list[Ended] = []
        self._num_signals = 0
        self._is_hung_up = False
        self._num_passed_on = 0
        self._said_at = 0.0

    @property
    def was_stopped(self) -> bool:
        """Whether somebody asked to stop."""
        return self._num_signals > 0

    def work(self, mine: Sequence[Taken], *, before: Sequence[Ended] = ()) -> list[Ended]:
        """Run jobs to their ends and return what came of each; `before` are ends already known."""
        self._waiting.extend(mine)
        for one in before:
            self._end(one)
        with self._signals():
            try:
                while self._waiting or self._running:
                    self._stop_if_asked()
                    while self._has_room:
                        self._begin(self._waiting.popleft())
                    self._look()
                    time.sleep(POLL_S if self._running else 0)
            finally:
                self._abandon()
        return self._ended

    @property
    def _has_room(self) -> bool:
        is_free = len(self._running) < self._workers
        return bool(self._waiting) and is_free and not self.was_stopped

    def _begin(self, taken: Taken) -> None:
        try:
            begun = self._start(self._site, taken)
        except (Refused, OSError) as error:
            taken.own.close()
            said = error.message if isinstance(error, Refused) else reason(error)
            # The Ctrl-C of a terminal reaches git too.
            end: End = "not begun" if self.was_stopped else "failed"
            self._end(Ended(job=taken.job, end=end, said=said))
        else:
            self._running.append(begun)
            if begun.queued_as:
                self._say(queued=begun)

    def _look(self) -> None:
        """Take note of the jobs that have begun, and of those that have ended."""
        for one in list(self._running):
            if one.began() is not None and one.job.key not in self._told:
                self._told.add(one.job.key)
                self._say(begun=one.job)
            how = one.exit()
            if how is None:
                continue
            began = one.began()
            found = one.finish(self._site.store)
            self._running.remove(one)
            seconds = 0.0 if began is None else time.monotonic() - began
            ended = self._what_came(one, how, found, seconds)
            if ended.log is None:
                one.log.unlink(missing_ok=True)
            self._end(ended)
        if time.monotonic() - self._said_at > SAY_EVERY_S:
            self._say()

    def _what_came(self, one: Begun, how: Exit, found: Recorded | None, seconds: float) -> Ended:
        run = None if found is None else found.run
        if how.status == 0 and found is not None and found.state is RunState.FINISHED:
            said = self._other_code(found)
            return Ended(job=one.job, end="done", run=run, said=said, seconds=seconds)
        if how.how == "taken" or (how.how == "not begun" and self.was_stopped):
            return Ended(job=one.job, end=how.how, said="" if self.was_stopped else how.said)
        said = how.said
        if found is None:
            said += ", and recorded no run"
        else:
            said += f", {found.state}" + (f": {found.reason}" if found.reason else "")
        saved = found is not None and found.state is RunState.PREEMPTED
        end: End = "stopped" if saved or self.was_stopped else "failed"
        log = one.log if one.log.exists() else None
        return Ended(job=one.job, end=end, run=run, said=said, seconds=seconds, log=log)

    def _other_code(self, found: Recorded) -> str:
        source = self._site.source
        if source.commit is None or source.pin is None or found.tree == source.pin.tree:
            return ""
        return f"it recorded tree {str(found.tree)[:7]}, not the pinned {str(source.pin.tree)[:7]}"

    # ---------------------------------------------------------------------------- telling

    def _end(self, ended: Ended) -> None:
        self._ended.append(ended)
        self._say(ended=ended)

    def _say(
        self,
        *,
        queued: Begun | None = None,
        begun: Job | None = None,
        ended: Ended | None = None,
    ) -> None:
        self._said_at = time.monotonic()
        counts = [one.end for one in self._ended]
        self._tell(
            Going(
                num_done=sum(end in ("done", "done before", "taken") for end in counts),
                num_failed=counts.count("failed"),
                num_running=sum(one.began() is not None for one in self._running),
                num_queued=sum(one.began() is None for one in self._running),
                num_all=len(counts) + len(self._running) + len(self._waiting),
                eta_s=self._eta(),
                queued=None if queued is None else (queued.job, queued.queued_as),
                begun=begun,
                ended=ended,
                is_stopping=self.was_stopped,
            )
        )

    def _eta(self) -> float | None:
        """Return the seconds left, by estimates, else by what the jobs took that have ended; None
        while a queue decides when one begins.
        """
        took = [one.seconds for one in self._ended if one.end == "done"]
        usual = sum(took) / len(took) if took else None

        def estimate(job: Job) -> float | None:
            return usual if job.estimate_s is None else job.estimate_s

        now = time.monotonic()
        left: list[float | None] = []
        for one in self._running:
            whole, began = estimate(one.job), one.began()
            if whole is None or began is None:
                return None
            left.append(max(0.0, whole - (now - began)))
        return cost([*left, *(estimate(one.job) for one in self._waiting)], self._workers)

    # ---------------------------------------------------------------------------- stopping

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def note(number: int, _frame: FrameType | None) -> None:
            self._num_signals += 1
            if number == signal.SIGHUP and self._hang_up_leaves:
                self._is_hung_up = True

        before = {number: signal.getsignal(number) for number in STOPPING}
        # Under nohup a SIGHUP is nothing to us.
        heeded = [number for number, was in before.items() if was is not signal.SIG_IGN]
        for number in heeded:
            signal.signal(number, note)
        try:
            yield
        finally:
            for number in heeded:
                signal.signal(number, before[number])

    def _stop_if_asked(self) -> None:
        """Pass on what was asked for, once each: save and end, then end at once."""
        if self._num_signals == self._num_passed_on:
            return
        at_once = self._num_passed_on > 0
        self._num_passed_on = self._num_signals
        while self._waiting:
            taken = self._waiting.popleft()
            taken.own.close()
            self._end(Ended(job=taken.job, end="not begun"))
        if self._is_hung_up:
            self._leave()
            return
        for one in self._running:
            one.stop(at_once=at_once)
        self._say()

    def _leave(self) -> None:
        """Let the jobs go on without this process."""
        for one in self._running:
            one.leave()
            self._ended.append(Ended(job=one.job, end="left", said=one.queued_as))
        self._running.clear()

    def _abandon(self) -> None:
        """Leave nothing running behind a fault of this process."""
        for one in self._running:
            one.abandon(self._site.store)
        self._running.clear()
