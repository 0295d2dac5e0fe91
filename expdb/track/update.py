"""One optimizer update: accumulation by tokens, precision, clipping, stepping.

Invariant: the gradient is the sum over micro-batches and ranks of d nll, divided by all their
tokens. Each micro-batch's nll is divided by one constant (a power of two near the tokens of an
update, so that dividing by it is exact), and the gradients are multiplied by constant / tokens
once, before norm and clipping. Nothing here waits for a CUDA device but the gradient scaler.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from expdb.errors import BadInput
from expdb.track.batches import Batches

if TYPE_CHECKING:
    from torch import Tensor

    from expdb.track.state import State
    from expdb.track.watch.watch import Watch

Precision = Literal["fp32", "bf16", "fp16"]
TOKENS = "train/tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one update measured; values are host numbers on a CPU, device scalars on CUDA."""

    step: int
    """The step of the weights that it was computed with."""
    loss: float | Tensor
    """Nats a token, over all micro-batches and ranks."""
    grad_norm: float | Tensor
    """Global norm after unscaling, before clipping."""
    num_tokens: float | Tensor
    num_before: float | Tensor
    """Tokens that the weights had seen before it."""
    lr: float
    seconds: float
    wait_s: float
    skipped: bool

    def metrics(self) -> dict[str, Any]:
        """Return what is logged of it, by name."""
        found: dict[str, Any] = {
            "train/loss": self.loss,
            "train/grad_norm": self.grad_norm,
            "train/lr": self.lr,
            TOKENS: self.num_before,
            "train/step_time_s": self.seconds,
        }
        if self.seconds > 0:
            found["train/tokens_per_s"] = self.num_tokens / self.seconds
            found["train/data_wait_pct"] = 100.0 * self.wait_s / self.seconds
        return found


class Engine:
    """What all updates of one loop share."""

    def __init__(
        self,
        state: State,
        *,
        accum: int,
        precision: Precision,
        clip: float | None,
        clock: Callable[[], float],
        requests: Callable[[], tuple[bool, ...]],
    ) -> None:
        import torch
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        self.state = state
        self.accum = accum
        self.clip = clip
        self.clock = clock
        self.batches = Batches(state.loader, state.loop, clock)
        self.device = next(next(iter(state.models.values())).parameters()).device
        self.world = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
        self.watch: Watch | None = None
        """What looks into the model, on sampled updates."""
        self.skips: Callable[[int, Any, Any, float], bool] | None = None
        """Whether an update is not to be taken, by step, loss, norm and rate; asked only if set."""
        self.agreed: Any = None
        """How many ranks ask to stop and to save, as of the last update; None without others."""
        self._requests = requests
        self.dtype = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
        self._wrapped = [
            one for one in state.models.values() if isinstance(one, DistributedDataParallel)
        ]
        if precision == "fp16" and self.device.type == "cuda" and state.scaler is None:
            state.scaler = torch.amp.GradScaler("cuda")
        self._takes_tokens = {
            name: "tokens" in inspect.signature(one.step).parameters
            for name, one in state.scheds.items()
        }

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context of the forward pass."""
        import torch

        if self.dtype is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def unsynced(self) -> ExitStack:
        """Return a context in which no gradient is sent to other ranks."""
        stack = ExitStack()
        for one in self._wrapped:
            stack.enter_context(one.no_sync())
        return stack

    def nominal(self, num_tokens: float | Tensor) -> float | Tensor:
        """Return the constant of this run; it is set by the first micro-batch of all ranks."""
        loop = self.state.loop
        if isinstance(loop.nominal, float) and loop.nominal > 0:
            return loop.nominal
        import torch

        if not isinstance(loop.nominal, float):
            return loop.nominal
        expected = num_tokens * self.accum
        if self.world > 1:
            import torch.distributed as dist

            expected = _on_device(expected, self.device)
            dist.all_reduce(expected, op=dist.ReduceOp.MAX)
            expected = expected.item() if self.device.type == "cpu" else expected
        if isinstance(expected, torch.Tensor):
            loop.nominal = torch.exp2(expected.double().clamp(min=1).log2().ceil())
        else:
            loop.nominal = 2.0 ** math.ceil(math.log2(max(expected, 1)))
        return loop.nominal

    def totals(self, nll: float | Tensor, num_tokens: float | Tensor) -> tuple[Any, Any]:
        """Return nll and tokens summed over all ranks, and learn what the ranks ask for."""
        if self.world == 1:
            return nll, num_tokens
        import torch
        import torch.distributed as dist

        asked = [float(one) for one in self._requests()]
        summed = torch.stack([_on_device(one, self.device) for one in (nll, num_tokens, *asked)])
        dist.all_reduce(summed)
        self.agreed = summed[2:]
        if self.device.type == "cpu":
            return float(summed[0]), float(summed[1])
        return summed[0], summed[1]

    def parameters(self) -> list[Any]:
        """Return the parameters that have a gradient, each once, in the optimizers' order."""
        found = {
            id(param): param
            for optim in self.state.optims.values()
            for group in optim.param_groups
            for param in group["params"]
            if param.grad is not None
        }
        return list(found.values())

    def advance(self, num_tokens: float | Tensor, *, skip: bool = False) -> bool:
        """Step optimizers, scaler, schedulers; clear gradients; average. True if it was skipped,
        by the scaler or because `skip` says so.
        """
        state = self.state
        scaler = state.scaler
        skipped = skip
        for optim in () if skip else state.optims.values():
            if scaler is None:
                optim.step()
            else:
                scaler.step(optim)
        if scaler is not None:
            before = scaler.get_scale()
            scaler.update()
            skipped = skipped or scaler.get_scale() < before
        if skipped:
            state.loop.num_skipped += 1
        else:
            for name, sched in state.scheds.items():
                sched.step(**({"tokens": num_tokens} if self._takes_tokens[name] else {}))
        for optim in state.optims.values():
            optim.zero_grad(set_to_none=True)
        if not skipped:
            self._average()
        return skipped

    def lr(self) -> float:
        """Return the learning rate in force: the first group of the first optimizer."""
        for optim in self.state.optims.values():
            return float(optim.param_groups[0]["lr"]) * self.state.loop.rate_factor()
        return math.nan

    def _average(self) -> None:
        from expdb.track.state import unwrap

        models = list(self.state.models.values())
        for index, (name, ema) in enumerate(self.state.emas.items()):
            model = unwrap(self.state.models.get(name, models[min(index, len(models) - 1)]))
            step = getattr(ema, "update_parameters", None) or ema.update
            step(model)


class Update:
    """One optimizer update, computed with the weights of `step`; used once."""

    def __init__(self, engine: Engine, step: int, done: Callable[[Result], None]) -> None:
        self.step_number = step
        self.is_done = False
        self._engine = engine
        self._done = done
        self._nll: Any = 0.0
        self._tokens: Any = 0
        self._num_micro = 0
        self._began = engine.clock()
        engine.batches.wait_s = 0.0
        if engine.watch is not None:
            engine.watch.begin(step, engine.lr())

    def __iter__(self) -> Iterator[Any]:
        """Yield the micro-batches; gradients are exchanged between ranks on the last only."""
        last = self._engine.accum - 1
        for index in range(self._engine.accum):
            batch = self._engine.batches.take()
            if self._engine.watch is not None:
                self._engine.watch.batch(batch, self._engine.batches.number)
            with self._engine.unsynced() if index < last else nullcontext():
                yield batch

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context of the forward pass, by the loop's precision."""
        return self._engine.autocast()

    def backward(self, nll: Tensor, n: int | float | Tensor) -> None:
        """Add the gradient of one micro-batch.

        `nll` is the SUM over its valid tokens (a scalar with a graph), `n` their number: an int, or
        a scalar on the device.

        Raises:
            BadInput: `nll` is no scalar with a graph, or it is one micro-batch too many.
        """
        import torch

        if not isinstance(nll, torch.Tensor) or nll.numel() != 1 or not nll.requires_grad:
            raise BadInput(
                "update.backward wants the summed loss as a scalar tensor with a graph",
                hint="for example: nll = cross_entropy(logits, targets, reduction='sum')",
            )
        if self._num_micro == self._engine.accum:
            raise BadInput(f"update.backward was called more than accum={self._engine.accum} times")
        self._num_micro += 1
        count: Any = n.detach() if isinstance(n, torch.Tensor) else n
        if isinstance(count, torch.Tensor) and count.device.type == "cpu":
            count = count.item()
        self._tokens = self._tokens + count
        value = nll.detach()
        self._nll = self._nll + (value.item() if value.device.type == "cpu" else value.double())
        whole = nll.float() if nll.dtype in (torch.float16, torch.bfloat16) else nll
        scaled = whole / self._engine.nominal(count)
        scaler = self._engine.state.scaler
        (scaled if scaler is None else scaler.scale(scaled)).backward()
        if self._engine.watch is not None and self._num_micro == 1 < self._engine.accum:
            self._watch_first(count)

    def observe(self, logits: Tensor, targets: Tensor) -> None:
        """Let the monitors see logits [..., V] and the targets [...] they are judged against, for
        the token accuracy; labels of -100 do not count. Only sampled updates look.
        """
        if self._engine.watch is not None:
            self._engine.watch.observe(logits, targets)

    def _watch_first(self, count: Any) -> None:
        """Let the watch see the gradient of the first micro-batch alone."""
        watch, scaler = self._engine.watch, self._engine.state.scaler
        if watch is None or not watch.is_sampling:
            return
        factor = self._engine.nominal(count) / _at_least_one(count)
        if scaler is not None:
            import torch

            factor = factor / scaler.scale(torch.ones((), device=self._engine.device))
        watch.micro(count, factor)

    def step(self) -> None:
        """Finish the update: unscale, norm, clip, optimizers, scaler, schedulers, zero_grad, EMA.

        Raises:
            BadInput: it was done already, or nothing was given to `backward`.
        """
        if self.is_done:
            raise BadInput(f"update.step() was called twice at step {self.step_number}")
        if not self._num_micro:
            raise BadInput(
                f"update.step() at step {self.step_number} without update.backward(nll, n)"
            )
        self.is_done = True
        engine = self._engine
        nll, tokens = engine.totals(self._nll, self._tokens)
        norm = self._finish_gradients(tokens)
        if engine.watch is not None:
            engine.watch.check(nll, norm, skips=engine.state.scaler is not None)
        lr = engine.lr()
        loss = nll / tokens if not isinstance(tokens, (int, float)) or tokens else math.nan
        skip = engine.skips is not None and engine.skips(self.step_number, loss, norm, lr)
        skipped = engine.advance(tokens, skip=skip)
        before = engine.state.loop.seen()
        self._count(tokens)
        self._done(
            Result(
                step=self.step_number,
                loss=loss,
                grad_norm=norm,
                num_tokens=tokens,
                num_before=before,
                lr=lr,
                seconds=engine.clock() - self._began,
                wait_s=engine.batches.wait_s,
                skipped=skipped,
            )
        )

    def _finish_gradients(self, tokens: Any) -> Any:
        """Unscale, divide by the true number of tokens, clip; return the norm before clipping."""
        from torch.nn.utils import clip_grads_with_norm_, get_total_norm

        engine = self._engine
        if engine.state.scaler is not None:
            for optim in engine.state.optims.values():
                engine.state.scaler.unscale_(optim)
        params = engine.parameters()
        # DistributedDataParallel has taken the mean over ranks; times world makes it the sum again.
        factor = engine.nominal(tokens) * engine.world / _at_least_one(tokens)
        grads = [param.grad for param in params]
        _multiply(grads, factor)
        norm = get_total_norm(grads)
        if engine.watch is not None:
            engine.watch.gradients(tokens, scale=engine.state.loop.rate_factor())
        if engine.clip:
            clip_grads_with_norm_(params, engine.clip, norm)
        return float(norm) if norm.device.type == "cpu" else norm

    def _count(self, tokens: Any) -> None:
        loop = self._engine.state.loop
        if isinstance(tokens, (int, float)):
            loop.tokens += int(tokens)
        else:
            more = tokens.detach().double()
            loop.device_tokens = more if loop.device_tokens is None else loop.device_tokens + more


def _multiply(grads: list[Any], factor: Any) -> None:
    """Multiply gradients in place; the factor keeps float32 precision where they have less."""
    import torch

    for device, dtype in {(grad.device, grad.dtype) for grad in grads}:
        here = [grad for grad in grads if (grad.device, grad.dtype) == (device, dtype)]
        if not isinstance(factor, torch.Tensor):
            torch._foreach_mul_(here, factor)
        elif dtype in (torch.float32, torch.float64):
            torch._foreach_mul_(here, factor.to(device, dtype))
        else:
            for grad in here:
                grad.mul_(factor.to(device, torch.float32))


def _on_device(value: float | Tensor, device: Any) -> Tensor:
    """Return a float64 scalar on the device; a host value is filled in there, not copied."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(device, torch.float64)
    return torch.full((), float(value), dtype=torch.float64, device=device)


def _at_least_one(tokens: Any) -> Any:
    """Return the divisor: an update without a valid token has gradients of zero, not NaN."""
    return max(tokens, 1) if isinstance(tokens, (int, float)) else tokens.clamp(min=1)
