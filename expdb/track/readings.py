"""What each update of a loop leaves behind: points, what the console shows, how fast it goes.

Invariant: nothing here waits for an accelerator but `drain`; a value that cannot be kept is said
and training goes on. `train/tokens` at step k is what these weights have seen: one point a step.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from expdb.errors import BadInput
from expdb.track.throughput import Delayed, Pace
from expdb.track.update import TOKENS
from expdb.track.watched import Clipping, end_sample

if TYPE_CHECKING:
    from expdb.track.quiet import QuietRun
    from expdb.track.run import Run
    from expdb.track.state import State
    from expdb.track.update import Engine, Result

SHOWN: Final = 20
"""The shown loss is the mean of so many steps, as in every table."""


class Readings:
    """The readings of one loop."""

    def __init__(
        self, run: Run | QuietRun, state: State, engine: Engine, clip: float | None
    ) -> None:
        self._run, self._state, self._engine = run, state, engine
        self.pace = Pace()
        self._losses = Delayed()
        self._shown: deque[float] = deque(maxlen=SHOWN)
        self._clipping = Clipping(state.loop, clip) if clip else None
        self._began_at, self._tokens_at = 0, -1
        """The step of the last train/tokens that came with an evaluation."""

    def begin(self, step: int) -> None:
        """Begin at a step; what was under way before is forgotten."""
        self._losses, self._began_at, self._tokens_at = Delayed(), step, -1
        self._shown.clear()

    @property
    def last_loss(self) -> float:
        """The loss that came to the host last; NaN before the first."""
        return self._shown[-1] if self._shown else math.nan

    def evaluated(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Record an evaluation: it has its place among tokens, whether an update follows or not."""
        self.log({TOKENS: self._state.loop.seen(), **metrics}, step)
        self._tokens_at = step

    def ended(self, step: int) -> None:
        """Record what the last weights have seen, if no evaluation did."""
        if step not in (self._tokens_at, self._began_at):
            self.log({TOKENS: self._state.loop.seen()}, step)

    def stepped(self, result: Result) -> None:
        """Record an update."""
        loop, scaler = self._state.loop, self._state.scaler
        metrics = result.metrics()
        if self._tokens_at == result.step:
            del metrics[TOKENS]
        if scaler is not None or self._engine.skips is not None:
            metrics["train/num_skipped_steps"] = loop.num_skipped
        if scaler is not None:
            metrics["amp/scale"] = scaler.get_scale()
        num_batches = loop.num_batches or 0
        self._run.took(result.step, num_batches - self._engine.accum, num_batches - 1)
        self.log(metrics, result.step)
        end_sample(self._engine, result, self.pace)
        loop.step = result.step + 1
        self.pace.stepped(result.seconds)
        self._losses.push(result.step, result.loss, result.num_tokens, result.grad_norm)
        self._see(self._losses.ready())

    def drain(self) -> None:
        """Wait for what is on its way from the device."""
        self._see(self._losses.drain())

    def _see(self, arrived: Iterator[tuple[int, tuple[float, ...]]]) -> None:
        """Take in losses and tokens that have reached the host."""
        for step, (loss, num_tokens, grad_norm) in arrived:
            self.pace.counted(num_tokens)
            self._shown.append(loss)
            if self._clipping is not None:
                self.log(self._clipping.saw(grad_norm), step)
            if self._engine.watch is not None:
                self._engine.watch.arrived(step, loss, grad_norm)
            self._state.loop.saw(step, loss)

    def show(
        self,
        result: Result,
        *,
        max_steps: int,
        end: int,
        num_due: Callable[[int, int], tuple[int, int]],
    ) -> None:
        """Let the console show an update; `num_due` gives how many evaluations and saves there are
        between two steps.
        """
        done = result.step + 1
        evaluations, saves = num_due(done, end)
        self._run.console.step(
            done,
            max_steps,
            loss=sum(self._shown) / len(self._shown) if self._shown else None,
            lr=self._engine.lr(),
            tokens_per_s=self.pace.tokens_per_s(),
            eta_s=self.pace.eta_s(
                steps=end - done,
                evaluations=evaluations,
                saves=saves,
            ),
            wait_pct=100.0 * result.wait_s / result.seconds if result.seconds > 0 else None,
        )

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        """Log; a value that cannot be kept is said aloud and training goes on."""
        try:
            self._run.log(metrics, step=step)
        except BadInput as error:
            self._run.console.warn(step, error.message)
