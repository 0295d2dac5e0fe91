"""Watches a model while it trains: which steps are sampled, what is hooked, what it costs.

    begin -> forward passes, backward -> gradients (before clipping) -> the optimizers step -> end

`Loop` calls these; in a loop of one's own the optimizer's hooks do (`drive`), and then gradients
are as the optimizer gets them, after clipping.

Invariant: no generator, gradient, weight, buffer or tensor of the caller is written; hooks exist
during a sampled update only; nothing waits for an accelerator but what says so; a fault of a
monitor ends that monitor, never training. Nothing of it is in a checkpoint: a resumed run measures
its costs, the drift of embeddings and the noise scale anew.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import thread_time
from typing import TYPE_CHECKING, Any, Final

from expdb.monitor.phases import Interval, Phases
from expdb.track.watch.options import Options
from expdb.track.watch.sample import Sample
from expdb.track.watch.witness import Witness

if TYPE_CHECKING:
    from torch import Tensor

    from expdb.track.watch.out import Out
    from expdb.track.watch.parts import Parts

FAULTS: Final = (
    RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError, ArithmeticError,
    NotImplementedError,
)  # fmt: skip
"""What a monitor may raise over a model that it does not understand."""


class Watch:
    """What `run.watch` returns; with `out=None` it looks at nothing."""

    def __init__(
        self,
        out: Out | None,
        models: Mapping[str, Any],
        optims: Sequence[Any],
        options: Options,
        *,
        step: int = 0,
    ) -> None:
        self.step = step
        """The step of the update under way; a loop of one's own may set it."""
        self.options = options
        self.max_steps: int | None = None
        """How many updates there are to be, where somebody knows."""
        self.optims = list(optims)
        self.phases = Phases(fixed=None if options.phase == "auto" else options.phase)  # type: ignore[arg-type]
        budget = options.budget_pct or None
        self.interval = Interval(every=options.every, budget_pct=budget)
        self._out, self._models = out, dict(models)
        self._parts: Parts | None = None
        self._witness: Witness | None = None
        self._sample: Sample | None = None
        self._handles: list[Any] = []
        self._driving: list[Any] = []
        self._waiting: set[int] = set()
        self._lost: set[str] = set()
        self._depth = 0
        self._is_first = True
        self._spent = self._began = 0.0
        self._period = [0.0, 0.0]
        """Seconds of monitors and of updates since overhead was last said."""

    @property
    def is_sampling(self) -> bool:
        """Whether the update under way is sampled."""
        return self._sample is not None

    # The course of an update

    def begin(self, step: int, rate: float) -> None:
        """Begin an update with the weights of `step`; `rate` is its learning rate."""
        self.step = step
        self._began, self._spent = thread_time(), 0.0
        if self._out is None:
            return
        if self._witness is not None:
            self._witness.forensics.begin(step)
        self.interval.phase = self.phases.update(rate)
        if self.interval.is_due(step):
            with self._timed():
                self._attach()

    def be_ready(self, engine: Any) -> None:
        """Look out for numbers that are not finite, in the updates of an engine."""
        if self._out is not None and self.options.forensics:
            self._witness = Witness(self._out, self._models, engine)

    def batch(self, batch: Any, number: int = -1) -> None:
        """Take a micro-batch, with its number, before it goes through the model."""
        if self._witness is not None:
            with self._timed():
                self._witness.forensics.batch(batch, number)
        if self._sample is not None:
            with self._timed():
                self._sample.batch(batch)

    def observe(self, logits: Tensor, targets: Tensor) -> None:
        """Take logits [..., V] and the targets [...] they are judged against, IGNORE_INDEX left
        out: for the token accuracy. Nothing happens but in a sampled update.
        """
        if self._sample is not None:
            with self._timed():
                self._sample.observe(logits, targets)

    def micro(self, tokens: Any, factor: Any) -> None:
        """After the first backward of several: its gradient times `factor` is a mean over
        `tokens`.
        """
        if self._sample is not None:
            with self._timed():
                self._sample.micro(tokens, factor)

    def gradients(self, tokens: Any = None, *, scale: float = 1.0) -> None:
        """Take the gradients of the whole update, before clipping.

        `tokens` is what they are the mean over; the rates of the optimizers are times `scale`.
        """
        if self._sample is not None and self._sample.rates is None:
            with self._timed():
                self._sample.gradients(tokens, self.optims, scale)

    def check(self, nll: Any, grad_norm: Any, *, skips: bool) -> None:
        """Look at the numbers of the update before the optimizers step; with `skips` a gradient
        that is not finite is left to the scaler.
        """
        if self._witness is not None:
            with self._timed():
                self._witness.check(self.step, nll, grad_norm, skips=skips)

    def arrived(self, step: int, loss: float, grad_norm: float) -> None:
        """Look at the numbers of an update when they are on the host."""
        if self._witness is not None:
            with self._timed():
                self._witness.arrived(step, loss, grad_norm)

    def end(self, loss: Any = None, more: Mapping[str, float] | None = None) -> None:
        """End the update, and hand what was sampled to the run; `more` are values beside."""
        sample, self._sample = self._sample, None
        with self._timed():
            self._release()
            if sample is not None and self._out is not None:
                overhead = self._overhead()
                sample.finish(loss, {**(more or {}), **overhead})
                if sample.first is not None:
                    self._is_first = False
                    sample.first.finish(self._known())
                self._out.put(sample.row, self.step)
        self._account(sample)

    def close(self) -> None:
        """Take every hook away."""
        self._release()
        while self._driving:
            self._driving.pop().remove()
        self._sample = None
        if self._witness is not None:
            self._witness.forensics.close()
            self._witness = None

    def drive(self) -> None:
        """Let the optimizers' own hooks begin and end the updates."""
        me = weakref.ref(self)

        def before(optim: Any, *_: Any) -> None:
            watch = me()
            if watch is not None:
                watch.gradients()

        def after(optim: Any, *_: Any) -> None:
            watch = me()
            if watch is not None:
                watch._moved(optim)
                watch._optimizer_stepped(optim)

        for optim in self.optims:
            if hasattr(optim, "register_step_post_hook"):
                self._driving += [
                    optim.register_step_pre_hook(before),
                    optim.register_step_post_hook(after),
                ]
        self._waiting = {id(one) for one in self.optims}
        if self._driving:
            self.begin(self.step, self._rate())

    def release(self) -> None:
        """Leave the updates to a loop that calls `begin` and `end` itself."""
        self.close()

    def _optimizer_stepped(self, optim: Any) -> None:
        self._waiting.discard(id(optim))
        if self._waiting:
            return
        self._waiting = {id(one) for one in self.optims}
        self.end()
        self.begin(self.step + 1, self._rate())

    def _rate(self) -> float:
        for optim in self.optims:
            return float(optim.param_groups[0]["lr"])
        return 0.0

    # Hooks

    def _attach(self) -> None:
        from expdb.track.watch.first import First
        from expdb.track.watch.parts import Parts

        assert self._out is not None
        if self._parts is None:
            self._parts = Parts(self._models, self.options, say=self._out.say)
        every = self.options.rare_every
        rare = bool(every) and self.step % every < self.interval.now()
        self._sample = sample = Sample(self._parts, self._out, self.options, self.step, rare=rare)
        if self._is_first and self.step == 0 and "start" in self.options.kinds:
            sample.first = First(sample.row, self._parts.units)
        self._handles = self._parts.attach(sample, self._hook)
        for optim in () if self._driving else self.optims:
            if hasattr(optim, "register_step_post_hook"):
                self._handles.append(optim.register_step_post_hook(self._moved))

    def _known(self) -> dict[str, float]:
        return {} if self.max_steps is None else {"init/max_steps": float(self.max_steps)}

    def _release(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def _moved(self, optim: Any, *_: Any) -> None:
        if self._sample is not None:
            with self._timed():
                self._sample.moved(optim, self.optims)

    def _hook(self, kind: str, inner: Callable[..., None]) -> Callable[..., None]:
        """Wrap what runs in a forward pass of training; one that is computed again is not seen.

        A fault ends what is watched of its kind, and the rest goes on.
        """
        import torch

        def hooked(*args: Any, **kwargs: Any) -> None:
            if not torch.is_grad_enabled() or torch._C._current_graph_task_id() != -1:
                return
            if kind in self._lost:
                return
            with self._timed(), torch.no_grad():
                try:
                    inner(*args, **kwargs)
                except FAULTS as error:
                    self._lose(kind, error)

        return hooked

    def _lose(self, kind: str, error: Exception) -> None:
        self._lost.add(kind)
        if self._parts is not None:
            self._parts.drop(kind)
        if self._out is not None:
            self._out.say(_words(f"watch: no {kind} from step {self.step} on", error))

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began, outer = thread_time(), self._depth == 0
        self._depth += 1
        try:
            yield
        except FAULTS as error:
            self._broken(error)
        finally:
            self._depth -= 1
            if outer:
                self._spent += thread_time() - began

    def _broken(self, error: Exception) -> None:
        """Stop watching: training goes on, and the reason is said once."""
        out, self._out, self._sample = self._out, None, None
        witness, self._witness = self._witness, None
        if witness is not None:
            witness.forensics.close()
        if out is not None:
            out.say(_words(f"watch stopped at step {self.step}", error))

    # Costs

    def _overhead(self) -> dict[str, float]:
        spent, total = self._period
        self._period = [0.0, 0.0]
        return {"sys/monitor_overhead_pct": 100.0 * spent / total} if total > 0 else {}

    def _account(self, sample: Sample | None) -> None:
        total = thread_time() - self._began
        own = max(total - self._spent, 0.0)
        self._period[0] += self._spent
        self._period[1] += own
        self.interval.stepped(own, None if sample else self._spent)
        if sample is not None and (not sample.is_rare or self.interval.num_samples < 1):
            self.interval.sampled(self._spent)


def _words(what: str, error: Exception) -> str:
    said = str(error).splitlines()[0] if str(error) else ""
    return f"{what}: {type(error).__name__}: {said}"[:300]
