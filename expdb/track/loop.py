"""The training loop: updates, evaluations, checkpoints and stops at their borders.

Invariant: at the border before step k the weights have k updates behind them; evaluation and
checkpoint of step k use them, and the update that follows logs its train points at step k. An
evaluation comes before the checkpoint of the same step, and draws nothing from the generators of
training. `train/tokens` at step k is what these weights have seen: one point for each step.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, get_args

from expdb.errors import BadInput, ExpdbError
from expdb.track import rng
from expdb.track.control import Asked, Control, agreed, wait_for_go
from expdb.track.intervene import NONE, Intervention, skip_words
from expdb.track.scalars import on_host
from expdb.track.signals import StopRequest
from expdb.track.state import eval_mode
from expdb.track.throughput import Delayed, Pace, due_between
from expdb.track.update import TOKENS, Engine, Precision, Result, Update
from expdb.track.watched import Clipping, end_sample, watch_of

if TYPE_CHECKING:
    from expdb.track.quiet import QuietRun
    from expdb.track.run import Run
    from expdb.track.state import State

SHOWN = 20
"""The shown loss is the mean of so many steps, as in every table."""
EXIT_PREEMPTED = 143
EXIT_FAILED = 1


class Loop:
    """Iterate over it: one `Update` per optimizer update, from where the run stands to `max_steps`.

    A run that resumes or forks is restored before the first update. `evaluate(k)` returns metrics;
    it runs at step 0, every `eval_every` steps and at the end, in eval mode, without gradients. A
    checkpoint is written every `save_every` steps, every `save_every_s` seconds, and at the end.
    SIGTERM and SIGUSR1: checkpoint at the next border, state preempted, exit 143. What `expdb ctl`
    asks for is done at the next border too.

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
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        for name, value, least in (
            ("max_steps", max_steps, 0),
            ("accum", accum, 1),
            ("eval_every", eval_every, 1),
            ("save_every", save_every, 1),
        ):
            if value is not None and value < least:
                raise BadInput(f"Loop: {name} is {value}, and must be at least {least}")
        if precision not in get_args(Precision):
            raise BadInput(f"Loop: precision is {precision!r}", hint="one of fp32, bf16, fp16")
        if state.loader is None or not state.optims:
            what = "loader" if state.loader is None else "optim"
            raise BadInput(f"Loop wants a State with {what}=...")
        self.run = run
        self.state = state
        self.max_steps = max_steps
        self._eval_every = eval_every
        self._evaluate = evaluate
        self._save_every = save_every
        self._save_every_s = save_every_s
        self._clock = clock
        self._engine = Engine(
            state, accum=accum, precision=precision, clip=clip, clock=clock, requests=self._requests
        )
        self._stop = StopRequest()
        self._control: Control = getattr(run, "control", None) or Control(None)
        self._pace = Pace()
        self._losses = Delayed()
        self._began_at = 0
        self._tokens_at = -1
        """The step of the last train/tokens that came with an evaluation."""
        self._clipping = Clipping(state.loop, clip) if clip else None
        self._shown: deque[float] = deque(maxlen=SHOWN)
        self._agreed: deque[Any] = deque()
        self._saved_step = -1
        self._saved_s = 0.0
        self._forked = False
        self._change: Intervention = getattr(run, "intervention", None) or NONE
        self._stop_at: int | None = getattr(run, "stop_at", None)
        self._task: Mapping[str, Any] | None = getattr(run, "task", None)
        state.skips_batches = True

    @property
    def step(self) -> int:
        """Updates done."""
        return self.state.loop.step

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
        self.state.loop.step = self._began_at = start
        # A fork that was stopped before its own first checkpoint begins again from its parent's.
        self._forked = restored and self.run.resumed_from != start
        self._saved_step = start if restored else -1
        self._saved_s = self._clock()
        if self.state.loop.num_batches is None:
            self.state.loop.num_batches = start * self._engine.accum
        self._engine.batches.open(restored=restored)
        if self._change.skip_batches:
            self._skip(self._change.skip_batches)
        self._engine.watch = watch_of(self.run, self._engine)

    def _skip(self, updates: int) -> None:
        """Leave out the data of so many updates."""
        with self._phase("skipping batches"):
            first, last = self._engine.batches.skip(updates * self._engine.accum)
        words = skip_words(first, last, updates=updates)
        self.run.intervened(words, skipped=[first, last])

    def _border(self) -> bool:
        """Do what is due between two updates; False when the loop is at its end."""
        step = self.step
        if self._stop_at is not None and step >= self._stop_at:
            return False
        self._settle(wait=False)
        asked = self._asked()
        if asked.pause:
            asked = self._pause(step)
        self._stop_if(asked.stop)
        end = step >= self.max_steps
        self._act(step, asked, is_due=True)
        if end:
            if step not in (self._tokens_at, self._began_at):
                self._log({TOKENS: self.state.loop.seen()}, step)
            self._settle(wait=True)
        self.run.step = self.step
        if self.state.loop.device_tokens is None:
            self.run.num_tokens = self.state.loop.tokens
        return not end

    def _act(self, step: int, asked: Asked, *, is_due: bool) -> None:
        """Evaluate and save where it is asked for, or with `is_due` where the intervals say so."""
        is_new = self.state.loop.evaluated_step != step or self._forked
        wanted = asked.evaluate and is_new and self._evaluate is not None
        if wanted or (is_due and self._evaluation_due(step)):
            self._run_evaluation(step)
            self._stop_if(self._engine.world == 1 and bool(self._stop.name))
        end = is_due and step >= self.max_steps
        save = asked.save or end or (is_due and self._is_multiple(step))
        if save and step > 0 and step != self._saved_step:
            self._save(step, final=end)
        self._answer(step)

    def _answer(self, step: int) -> None:
        """Say to `expdb ctl` what was done at this border."""
        control = self._control
        if control.is_open("eval"):
            has = self._evaluate is not None
            control.finish("eval", step, "evaluated" if has else "it has no evaluation", ok=has)
        if control.is_open("save"):
            outcome = "" if step else "nothing to save before the first update"
            try:
                self.run.settle(wait=True)  # whoever asked may copy it now
            except ExpdbError as error:
                outcome = f"no checkpoint: {error.message}"
            if step != self._saved_step:
                outcome = outcome or "no checkpoint"
            control.finish("save", step, outcome or "checkpoint saved", ok=not outcome)

    def _pause(self, step: int) -> Asked:
        """Wait at this border until `expdb ctl RUN go`; the heartbeat goes on."""
        self.run.event(step, "info", "ctl", f"paused; go on: expdb ctl {self.run.id[:4]} go")
        with self._phase("paused"):
            asked = wait_for_go(
                self._control,
                step,
                poll=lambda: agreed(self._engine, self._requests()),
                act=lambda found: self._act(step, found, is_due=False),
            )
        if not asked.stop:
            self.run.event(step, "info", "ctl", "goes on")
            self._control.finish("go", step, "goes on")
        return asked

    # Evaluation

    def _evaluation_due(self, step: int) -> bool:
        if self._evaluate is None or step > self.max_steps:
            return False
        if self.state.loop.evaluated_step == step and not self._forked:
            return False
        began = step == 0 or self._forked
        every = self._eval_every
        return began or step == self.max_steps or (every is not None and step % every == 0)

    def _run_evaluation(self, step: int) -> None:
        import torch

        assert self._evaluate is not None
        self._forked = False
        began = self._clock()
        with self._phase("evaluating"), rng.preserved(), eval_mode(self.state), torch.no_grad():
            found = self._evaluate(step) or {}
        metrics = {key: on_host(value) for key, value in found.items()}
        self._pace.evaluated(self._clock() - began)
        self.state.loop.evaluated_step = step
        # An evaluation has its place among tokens whether another update follows or not.
        self._log({TOKENS: self.state.loop.seen(), **metrics}, step)
        self._tokens_at = step
        self._note_objective(step, metrics)
        self.run.console.evaluated(step)
        self._fail_if_broken(step, metrics)

    def _note_objective(self, step: int, metrics: Mapping[str, Any]) -> None:
        objective, loop = self.run.objective, self.state.loop
        if objective is None or objective.metric not in metrics:
            return
        value = float(metrics[objective.metric])
        if objective.better(value, math.nan if loop.best_value is None else loop.best_value):
            loop.best_value, loop.best_step = value, step

    def _fail_if_broken(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Stop a run whose objective and loss are both lost: no later step can bring them back."""
        objective = self.run.objective
        self._see(self._losses.drain())
        since = self.state.loop.nonfinite_since
        if objective is None or objective.metric not in metrics or since is None:
            return
        value = float(metrics[objective.metric])
        if math.isfinite(value):
            return
        last = self._shown[-1] if self._shown else math.nan
        word = "NaN" if math.isnan(last) else "infinite"
        self._settle(wait=True)
        self.run.fail(f"train/loss is {word} since step {since}, {objective.metric} at {step}")
        raise SystemExit(EXIT_FAILED)

    # Saving and stopping

    def _is_multiple(self, step: int) -> bool:
        return self._save_every is not None and step % self._save_every == 0

    def _requests(self) -> Asked:
        """Return what this rank asks for."""
        asked = self._control.take(self.step)
        waited = self._clock() - self._saved_s
        save = self._save_every_s is not None and waited >= self._save_every_s
        if save or self._stop.name:
            asked = asked._replace(
                stop=asked.stop or bool(self._stop.name), save=asked.save or save
            )
        return asked

    def _asked(self) -> Asked:
        """Return what any rank asks for, the same on all of them."""
        if self._engine.world == 1:
            return self._requests()
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
        return Asked(*(number > 0 for number in counts))

    def _stop_if(self, stop: bool) -> None:
        if not stop:
            return
        other = "ctl stop" if self._control.is_open("stop") else "a signal on another rank"
        step, name = self.step, self._stop.name or other
        # Before the first update there is nothing to keep: a start from nothing repeats it.
        outcome, ok = "checkpoint saved" if step else "before the first update", True
        try:
            if step and step != self._saved_step:
                self._save(step, final=True)
            self._settle(wait=True)
        except ExpdbError as error:
            outcome, ok = f"no checkpoint: {error.message}", False
        self._control.finish("stop", step, outcome, ok=ok)
        self.run.preempt(f"{name} at step {step}, {outcome}")
        raise SystemExit(EXIT_PREEMPTED)

    def _save(self, step: int, *, final: bool) -> None:
        """Write a checkpoint; one that fails stops nothing unless it is the last chance."""
        began = self._clock()
        self._see(self._losses.drain())
        try:
            with self._phase("saving"):
                self.run.checkpoint(step, self.state)
        except BadInput:
            raise
        except ExpdbError as error:
            if final:
                raise
            self.run.console.warn(step, error.message)
        else:
            self._saved_step = step
        self._saved_s = self._clock()
        self._pace.saved(self._saved_s - began)

    def _settle(self, *, wait: bool) -> None:
        """Let the run report checkpoints that are in place; at the end a failure is raised."""
        try:
            self.run.settle(wait=wait)
        except ExpdbError as error:
            if wait:
                raise
            self.run.console.warn(self.step, error.message)

    # What one update leaves behind

    def _stepped(self, result: Result) -> None:
        metrics = result.metrics()
        if self._tokens_at == result.step:
            del metrics[TOKENS]
        if self.state.scaler is not None:
            metrics["train/num_skipped_steps"] = self.state.loop.num_skipped
            metrics["amp/scale"] = self.state.scaler.get_scale()
        num_batches = self.state.loop.num_batches or 0
        self.run.took(result.step, num_batches - self._engine.accum, num_batches - 1)
        self._log(metrics, result.step)
        end_sample(self._engine, result, self._pace)
        self.state.loop.step = result.step + 1
        self._pace.stepped(result.seconds)
        self._losses.push(result.step, result.loss, result.num_tokens, result.grad_norm)
        self._see(self._losses.ready())
        self._show(result)

    def _see(self, arrived: Iterator[tuple[int, tuple[float, ...]]]) -> None:
        """Take in losses and tokens that have reached the host."""
        for step, (loss, num_tokens, grad_norm) in arrived:
            self._pace.counted(num_tokens)
            self._shown.append(loss)
            if self._clipping is not None:
                self._log(self._clipping.saw(grad_norm), step)
            if self._engine.watch is not None:
                self._engine.watch.arrived(step, loss, grad_norm)
            self.state.loop.saw(step, loss)

    def _show(self, result: Result) -> None:
        done, end = result.step + 1, self.max_steps
        every = self._eval_every
        self.run.console.step(
            done,
            end,
            loss=sum(self._shown) / len(self._shown) if self._shown else None,
            lr=self._engine.lr(),
            tokens_per_s=self._pace.tokens_per_s(),
            eta_s=self._pace.eta_s(
                steps=end - done,
                evaluations=due_between(every, done, end) if self._evaluate else 0,
                saves=due_between(self._save_every, done, end),
            ),
            wait_pct=100.0 * result.wait_s / result.seconds if result.seconds > 0 else None,
        )

    def _log(self, metrics: Mapping[str, Any], step: int) -> None:
        """Log; a value that cannot be kept is said aloud and training goes on."""
        try:
            self.run.log(metrics, step=step)
        except BadInput as error:
            self.run.console.warn(step, error.message)

    @contextmanager
    def _phase(self, text: str) -> Iterator[None]:
        self.run.console.phase(text)
        try:
            yield
        finally:
            self.run.console.phase(None)
