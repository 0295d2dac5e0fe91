"""The training loop: updates, evaluations, checkpoints and stops at their borders.

Invariant: at the border before step k the weights have k updates behind them; evaluation and
checkpoint of step k use them, and the update that follows logs its train points at step k. An
evaluation comes before the checkpoint of the same step, and draws nothing from the generators of
training. `train/tokens` at step k is what these weights have seen: one point for each step.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, get_args

from expdb.errors import BadInput, ExpdbError
from expdb.track.acting import Acting
from expdb.track.control import Asked, Control, agreed, wait_for_go
from expdb.track.evaluation import Evaluations, lost_words
from expdb.track.intervene import NONE, Intervention, skip_words
from expdb.track.readings import Readings
from expdb.track.saving import Saving
from expdb.track.signals import StopRequest
from expdb.track.throughput import Delayed
from expdb.track.update import Engine, Precision, Result, Update
from expdb.track.watched import watch_of

if TYPE_CHECKING:
    from expdb.track.quiet import QuietRun
    from expdb.track.run import Run
    from expdb.track.state import State

EXIT_PREEMPTED = 143
EXIT_FAILED = 1


class Loop:
    """Iterate over it: one `Update` per optimizer update, from where the run stands to `max_steps`.

    A run that resumes or forks is restored before the first update. `evaluate(k)` returns metrics;
    it runs at step 0, every `eval_every` steps and at the end, in eval mode, without gradients. A
    checkpoint is written every `save_every` steps, every `save_every_s` seconds, and at the end.
    A line about training is printed every `print_every` steps, else about 100 of them in all; the
    points of all steps are logged.
    SIGTERM and SIGUSR1: checkpoint at the next border, state preempted, exit 143. What `expdb ctl`
    asks for is done at the next border too, and what rules do (docs/monitoring.md).

    Raises:
        BadInput: a value makes no sense, or the state has no loader or no optimizer.
    """

    def __init__(
        self,
        run: Run | QuietRun,
        state: State,
        *,
        max_steps: int,
        accum: int = 1,
        precision: Precision = "fp32",
        clip: float | None = None,
        eval_every: int | None = None,
        evaluate: Callable[[int], Mapping[str, Any] | None] | None = None,
        save_every: int | None = None,
        save_every_s: float | None = 7200.0,
        print_every: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        for name, value, least in (
            ("max_steps", max_steps, 0),
            ("accum", accum, 1),
            ("eval_every", eval_every, 1),
            ("save_every", save_every, 1),
            ("print_every", print_every, 1),
        ):
            if value is not None and value < least:
                raise BadInput(f"Loop: {name} is {value}, and must be at least {least}")
        if precision not in get_args(Precision):
            raise BadInput(f"Loop: precision is {precision!r}", hint="one of fp32, bf16, fp16")
        if state.loader is None or not state.optims:
            what = "loader" if state.loader is None else "optim"
            raise BadInput(f"Loop wants a State with {what}=...")
        self.run = run
        if print_every is not None:
            run.console.print_every = print_every
        self.state = state
        self.max_steps = max_steps
        self._clock = clock
        self._engine = Engine(
            state, accum=accum, precision=precision, clip=clip, clock=clock, requests=self._flags
        )
        self._evaluations = Evaluations(state, evaluate, eval_every)
        self._saving = Saving(run, state, every=save_every, every_s=save_every_s, clock=clock)
        self._acting = Acting(run, state, self._engine, self)
        self._stop = StopRequest()
        self._readings = Readings(run, state, self._engine, clip)
        self._no_control = Control(None)
        self._agreed: deque[Any] = deque()
        self._stop_at: int | None = getattr(run, "stop_at", None)
        self._task: Mapping[str, Any] | None = getattr(run, "task", None)
        state.skips_batches = True

    @property
    def step(self) -> int:
        """Updates done."""
        return self.state.loop.step

    @property
    def end(self) -> int:
        """The step at which training ends: `max_steps`, or earlier where a rule says so."""
        at = self.state.loop.end_at
        return self.max_steps if at is None else min(at, self.max_steps)

    @property
    def _control(self) -> Control:
        return getattr(self.run, "control", None) or self._no_control

    def __iter__(self) -> Iterator[Update]:
        """Yield updates; each must be finished by `update.step()` before the next."""
        with self._stop:
            self._begin()
            if self._task is not None:
                from expdb.track.probes.drive import probed

                yield from probed(self.run, self._engine, self._task)
            while self._border():
                update = Update(self._engine, self.step, self._stepped)
                yield update
                if not update.is_done:
                    raise BadInput(f"step {self.step} was not finished by update.step()")
            if self._engine.watch is not None:
                self._engine.watch.close()

    def _begin(self) -> None:
        start = self.run.restore(self.state)
        restored = self.state.was_restored
        self.state.loop.step = start
        self._readings.begin(start)
        # A fork that was stopped before its own first checkpoint begins again from its parent's.
        self._evaluations.is_fork = restored and self.run.resumed_from != start
        self._saving.begin(start if restored else -1)
        if self.state.loop.num_batches is None:
            self.state.loop.num_batches = start * self._engine.accum
        self._engine.batches.open(restored=restored)
        change: Intervention = getattr(self.run, "intervention", None) or NONE
        if change.skip_batches:
            self._skip(change.skip_batches)
        self._engine.watch = watch_of(self.run, self._engine, max_steps=self.max_steps)

    def begin_again(self) -> None:
        """Go on from what the run starts from now, as a process does that begins there."""
        self._agreed.clear()
        self._engine.agreed = None
        for optim in self.state.optims.values():
            optim.zero_grad(set_to_none=True)
        self._begin()

    def _skip(self, updates: int) -> None:
        """Leave out the data of so many updates."""
        with self._phase("skipping batches"):
            first, last = self._engine.batches.skip(updates * self._engine.accum)
        words = skip_words(first, last, updates=updates)
        self.run.intervened(words, skipped=[first, last])

    def _border(self) -> bool:
        """Do what is due between two updates; False when the loop is at its end."""
        if self._stop_at is not None and self.step >= self._stop_at:
            return False
        self.run.step = self.step
        self._saving.settle(self.step, wait=False)
        asked = self._asked()
        if asked.pause:
            asked = self._pause()
        self._stop_if(asked.stop)
        followed = self._acting.follow(asked.due)
        self._act(asked._replace(save=asked.save or followed.save), is_due=True)
        step, end = self.step, self.step >= self.end
        if end:
            self._readings.ended(step)
            self._saving.settle(step, wait=True)
            self._acting.restore_best()
        if self.state.loop.device_tokens is None:
            self.run.num_tokens = self.state.loop.tokens
        return not end

    def _act(self, asked: Asked, *, is_due: bool) -> None:
        """Evaluate and save where it is asked for, or with `is_due` where the intervals say so."""
        step, is_wanted = self.step, asked.save
        due = is_due and self._evaluations.is_due(step, self.end)
        if due or (asked.evaluate and self._evaluations.is_new(step)):
            self._evaluate(step)
            self._stop_if(self._engine.world == 1 and bool(self._stop.name))
            is_wanted |= self._acting.has_new_best(step)
            if self._acting.actions.table:
                own = Asked(due=self._acting.asked())  # a request of `ctl` waits for its border
                followed = self._acting.follow(agreed(self._engine, own.flat()).due)
                if followed.again:
                    return
                is_wanted |= followed.save
        end = is_due and step >= self.end
        save = is_wanted or end or (is_due and self._saving.is_multiple(step))
        if save and step > 0 and step != self._saving.step:
            self._save(step, final=end)
        self._answer(step)

    def _answer(self, step: int) -> None:
        """Say to `expdb ctl` what was done at this border."""
        control = self._control
        if control.is_open("eval"):
            has = self._evaluations.there_are
            control.finish("eval", step, "evaluated" if has else "it has no evaluation", ok=has)
        if control.is_open("save"):
            outcome = "" if step else "nothing to save before the first update"
            try:
                self.run.settle(wait=True)  # whoever asked may copy it now
            except ExpdbError as error:
                outcome = f"no checkpoint: {error.message}"
            if step != self._saving.step:
                outcome = outcome or "no checkpoint"
            control.finish("save", step, outcome or "checkpoint saved", ok=not outcome)

    def _pause(self) -> Asked:
        """Wait at this border until `expdb ctl RUN go`; the heartbeat goes on."""
        step = self.step
        self.run.event(step, "info", "ctl", f"paused; go on: expdb ctl {self.run.id[:4]} go")
        with self._phase("paused"):
            asked = wait_for_go(
                self._control,
                step,
                poll=lambda: agreed(self._engine, self._requests().flat()),
                act=lambda found: self._act(found, is_due=False),
            )
        if not asked.stop:
            self.run.event(step, "info", "ctl", "goes on")
            self._control.finish("go", step, "goes on")
        return asked

    def pause_for(self, who: str) -> None:
        """Wait at this border as if `expdb ctl` had asked for it."""
        self._control.hold(who)
        asked = self._pause()
        self._stop_if(asked.stop)

    # Evaluation

    def _evaluate(self, step: int) -> None:
        began = self._clock()
        with self._phase("evaluating"):
            metrics = self._evaluations.run(step)
        self._readings.pace.evaluated(self._clock() - began)
        self._readings.evaluated(step, metrics)
        objective, loop = self.run.objective, self.state.loop
        self._evaluations.note_objective(objective, step, metrics)
        self.run.console.evaluated(step)
        self._readings.drain()
        last = self._readings.last_loss
        why = lost_words(objective, step, metrics, since=loop.nonfinite_since, last=last)
        if why:
            self._saving.settle(step, wait=True)
            self.run.fail(why)
            raise SystemExit(EXIT_FAILED)

    # Saving and stopping

    def _requests(self) -> Asked:
        """Return what this rank asks for, but actions of rules."""
        asked, save = self._control.take(self.step), self._saving.is_overdue()
        if save or self._stop.name:
            asked = asked._replace(
                stop=asked.stop or bool(self._stop.name), save=asked.save or save
            )
        return asked

    def _flags(self) -> tuple[bool, ...]:
        """Return all that this rank asks for, in a row."""
        return self._requests()._replace(due=self._acting.asked()).flat()

    def _asked(self) -> Asked:
        """Return what any rank asks for, the same on all of them."""
        if self._engine.world == 1:
            return Asked.of(self._flags())
        if self._engine.agreed is not None:
            copy = Delayed()
            copy.push(self.step, *self._engine.agreed)
            self._agreed.append(copy)
            self._engine.agreed = None
        # On CUDA the answer of the update before is read: it is there, the newest is under way.
        lag = 1 if self._engine.device.type == "cuda" else 0
        if len(self._agreed) <= lag:
            return Asked()
        [(_, counts)] = self._agreed.popleft().drain()
        return Asked.of(number > 0 for number in counts)

    def _stop_if(self, stop: bool) -> None:
        if stop:
            other = "ctl stop" if self._control.is_open("stop") else "a signal on another rank"
            self.stop_for(self._stop.name or other)

    def stop_for(self, who: str, *, if_finite: bool = False) -> None:
        """Save, end the attempt as preempted, and leave with exit code 143; with `if_finite` a loss
        that is not finite is not saved.
        """
        step = self.step
        self._readings.drain()
        # Before the first update there is nothing to keep: a start from nothing repeats it.
        outcome, ok = "checkpoint saved" if step else "before the first update", True
        is_lost = if_finite and self.state.loop.nonfinite_since is not None
        if is_lost:
            outcome = "nothing saved: the loss is not finite"
        try:
            if step and step != self._saving.step and not is_lost:
                self._save(step, final=True)
            self._saving.settle(step, wait=True)
        except ExpdbError as error:
            outcome, ok = f"no checkpoint: {error.message}", False
        self._control.finish("stop", step, outcome, ok=ok)
        self.run.preempt(f"{who} at step {step}, {outcome}")
        raise SystemExit(EXIT_PREEMPTED)

    def _save(self, step: int, *, final: bool) -> None:
        self._readings.drain()
        with self._phase("saving"):
            self._readings.pace.saved(self._saving.save(step, final=final))

    def _stepped(self, result: Result) -> None:
        self._readings.stepped(result)
        self._readings.show(result, max_steps=self.max_steps, end=self.end, num_due=self._num_due)

    def _num_due(self, after: int, upto: int) -> tuple[int, int]:
        """Return how many evaluations and saves there are between two steps."""
        return self._evaluations.num_due(after, upto), self._saving.num_due(after, upto)

    @contextmanager
    def _phase(self, text: str) -> Iterator[None]:
        self.run.console.phase(text)
        try:
            yield
        finally:
            self.run.console.phase(None)
