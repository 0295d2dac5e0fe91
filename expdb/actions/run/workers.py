"""The processes of jobs: so many at once, each in a work tree of its own, until all have ended.

SIGINT, SIGTERM and SIGHUP begin no more jobs and let those that run save and end (SIGTERM: their
run is `preempted`); once more kills them. Should this process be killed, its jobs get SIGTERM too.

Invariant: a job's process is gone before its work tree is, and its work tree before its claim; one
that fails stops no other. Everything happens in one thread, as a child is told of the end of the
thread that started it.
"""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Final

from expdb.actions.child import end_group
from expdb.actions.run.process import Process, Site, begin
from expdb.actions.run.recorded import Recorded
from expdb.actions.run.results import End, Ended, Going, Job, cost
from expdb.errors import Refused
from expdb.model import RunState
from expdb.store.files import reason

Tell = Callable[[Going], None]
Mine = tuple[Job, ExitStack]
"""A job, and what gives it back."""

POLL_S: Final = 0.05
SAY_EVERY_S: Final = 0.5
STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Workers:
    """Works off jobs."""

    def __init__(self, site: Site, *, workers: int, tell: Tell) -> None:
        self._site, self._workers, self._tell = site, workers, tell
        self._waiting: deque[Mine] = deque()
        self._running: list[Process] = []
        self._ended: list[Ended] = []
        self._num_signals = 0
        self._num_passed_on = 0
        self._said_at = 0.0

    @property
    def was_stopped(self) -> bool:
        """Whether somebody asked to stop."""
        return self._num_signals > 0

    def work(self, mine: Sequence[Mine], *, before: Sequence[Ended] = ()) -> list[Ended]:
        """Run jobs to their ends and return what came of each; `before` are ends already known."""
        self._waiting.extend(mine)
        for one in before:
            self._end(one)
        with self._signals():
            try:
                while self._waiting or self._running:
                    self._stop_if_asked()
                    while self._has_room:
                        self._begin(*self._waiting.popleft())
                    self._look()
                    time.sleep(POLL_S if self._running else 0)
            finally:
                self._abandon()
        return self._ended

    @property
    def _has_room(self) -> bool:
        is_free = len(self._running) < self._workers
        return bool(self._waiting) and is_free and not self.was_stopped

    def _begin(self, job: Job, own: ExitStack) -> None:
        try:
            self._running.append(begin(self._site, job, own))
        except (Refused, OSError) as error:
            own.close()
            said = error.message if isinstance(error, Refused) else reason(error)
            # The Ctrl-C of a terminal reaches git too.
            end: End = "not begun" if self.was_stopped else "failed"
            self._end(Ended(job=job, end=end, said=said))
        else:
            self._say(begun=job)

    def _look(self) -> None:
        """Take note of the processes that have ended."""
        for one in [one for one in self._running if one.child.poll() is not None]:
            found = one.finish(self._site.store)
            self._running.remove(one)
            ended = self._what_came(one, found)
            if ended.log is None:
                one.log.unlink(missing_ok=True)
            self._end(ended)
        if time.monotonic() - self._said_at > SAY_EVERY_S:
            self._say()

    def _what_came(self, one: Process, found: Recorded | None) -> Ended:
        status = one.child.returncode
        run = None if found is None else found.run
        seconds = time.monotonic() - one.began
        if status == 0 and found is not None and found.state is RunState.FINISHED:
            said = self._other_code(found)
            return Ended(job=one.job, end="done", run=run, said=said, seconds=seconds)
        said = f"ended by signal {-status}" if status < 0 else f"exit {status}"
        if found is None:
            said += ", and recorded no run"
        else:
            said += f", {found.state}" + (f": {found.reason}" if found.reason else "")
        saved = found is not None and found.state is RunState.PREEMPTED
        end: End = "stopped" if saved or self.was_stopped else "failed"
        return Ended(job=one.job, end=end, run=run, said=said, seconds=seconds, log=one.log)

    def _other_code(self, found: Recorded) -> str:
        source = self._site.source
        if source.commit is None or source.pin is None or found.tree == source.pin.tree:
            return ""
        return f"it recorded tree {str(found.tree)[:7]}, not the pinned {str(source.pin.tree)[:7]}"

    # ---------------------------------------------------------------------------- telling

    def _end(self, ended: Ended) -> None:
        self._ended.append(ended)
        self._say(ended=ended)

    def _say(self, *, begun: Job | None = None, ended: Ended | None = None) -> None:
        self._said_at = time.monotonic()
        counts = [one.end for one in self._ended]
        self._tell(
            Going(
                num_done=sum(end in ("done", "done before", "taken") for end in counts),
                num_failed=counts.count("failed"),
                num_running=len(self._running),
                num_all=len(counts) + len(self._running) + len(self._waiting),
                eta_s=self._eta(),
                begun=begun,
                ended=ended,
                is_stopping=self.was_stopped,
            )
        )

    def _eta(self) -> float | None:
        """Return the seconds left, by estimates, else by what the jobs took that have ended."""
        took = [one.seconds for one in self._ended if one.end == "done"]
        usual = sum(took) / len(took) if took else None

        def estimate(job: Job) -> float | None:
            return usual if job.estimate_s is None else job.estimate_s

        now = time.monotonic()
        left: list[float | None] = []
        for one in self._running:
            whole = estimate(one.job)
            left.append(None if whole is None else max(0.0, whole - (now - one.began)))
        return cost([*left, *(estimate(job) for job, _ in self._waiting)], self._workers)

    # ---------------------------------------------------------------------------- stopping

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def note(_number: int, _frame: FrameType | None) -> None:
            self._num_signals += 1

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
        number = signal.SIGTERM if self._num_passed_on == 0 else signal.SIGKILL
        self._num_passed_on = self._num_signals
        for one in self._running:
            with suppress(ProcessLookupError):
                one.child.send_signal(number)
        while self._waiting:
            job, own = self._waiting.popleft()
            own.close()
            self._end(Ended(job=job, end="not begun"))
        self._say()

    def _abandon(self) -> None:
        """Leave nothing running behind a fault of this process."""
        for one in self._running:
            end_group(one.child.pid)
            one.finish(self._site.store)
        self._running.clear()
