"""Norms of gradients, weights, updates and moments, by layer and by kind of layer.

The update is read from the optimizer's state, without a copy of the weights: of Adam and AdamW

    s = lr m^ / (sqrt(v^) + eps),  dw = s + lr wd w_old,  w_old = (w + s) / (1 - lr wd)

and of SGD likewise. Staleness is sqrt(mean(g^2 / max(v^, eps^2))) of a tensor (arXiv 2304.13013);
of a layer it is its worst tensor's. Of a tensor above LIMIT numbers (LIMIT_ENDS in embedding and
head) evenly spaced rows stand for the whole in moments, updates and staleness; norms of gradients
and weights are exact.

Invariant: gradients, weights and the optimizer's state are read, never written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from expdb.track.watch.row import larger

if TYPE_CHECKING:
    from torch import Tensor

    from expdb.track.watch.row import Row
    from expdb.track.watch.units import Unit

LIMIT: Final = 1 << 16
LIMIT_ENDS: Final = 1 << 20
ADAM: Final = re.compile(r"(Fused|Distributed)?AdamW?")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Weight:
    number: int
    """Its unit."""
    param: Any
    stride: int
    """Every so many rows stand for the whole."""

    def part(self, tensor: Any) -> Any:
        """Return the rows of a tensor of this shape that are looked at, in float32 at least."""
        import torch

        found = tensor.detach() if self.stride == 1 else tensor.detach()[:: self.stride]
        return found.float() if found.dtype in (torch.float16, torch.bfloat16) else found

    @property
    def scale(self) -> float:
        """By how much the norm of the rows falls short."""
        rows = self.param.shape[0] if self.param.dim() else 1
        return math.sqrt(rows / -(-rows // self.stride))


class Norms:
    """The norms of one model under its optimizers."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = [unit for unit in units if unit.params]
        self._weights = [
            _Weight(number=number, param=param, stride=_stride(param, unit.kind))
            for number, unit in enumerate(self._units)
            for _, param in unit.params
            if not hasattr(param, "to_local")  # of a sharded one this rank has a part only
        ]
        self._by_id = {id(one.param): one for one in self._weights}

    def __len__(self) -> int:
        return len(self._weights)

    def squared(self) -> Tensor | None:
        """Return the squared norm of the gradient as it stands, a scalar of the device."""
        import torch

        grads = [one.param.grad for one in self._weights if _is_plain(one.param.grad)]
        if not grads:
            return None
        return torch.stack(_norms(grads)).double().square().sum()

    def gradients(self, row: Row) -> None:
        """Add the norms of the gradients as they stand now."""
        found = [one for one in self._weights if _is_plain(one.param.grad)]
        if found:
            row.add(
                _norms([one.param.grad for one in found]),
                lambda values: self._named("grad_norm", found, values),
            )

    def updates(self, row: Row, optim: Any, rates: Sequence[Any]) -> None:
        """Add what an optimizer that has just stepped did, with the rate of each of its groups."""
        for group, rate in zip(optim.param_groups, rates, strict=True):
            mine = [self._by_id[id(p)] for p in group["params"] if id(p) in self._by_id]
            mine = [one for one in mine if _is_plain(one.param.grad)]
            for kind in _by_device(mine):
                self._group(row, optim, group, rate, kind)

    def _group(
        self, row: Row, optim: Any, group: Mapping[str, Any], rate: Any, mine: list[_Weight]
    ) -> None:
        states = [optim.state.get(one.param, {}) for one in mine]
        row.add(
            _norms([one.param for one in mine]),
            lambda values: self._named("param_norm", mine, values),
        )
        key = "exp_avg" if states and "exp_avg" in states[0] else "momentum_buffer"
        if not all(state.get(key) is not None for state in states):
            key = ""
        if key:
            moments = _norms([one.part(s[key]) for one, s in zip(mine, states, strict=True)])
            row.add(moments, lambda values: self._named("moment_norm", mine, values, scaled=True))
        if all("exp_avg_sq" in state for state in states):
            self._adam(row, optim, group, rate, mine, states)
        elif type(optim).__name__ == "SGD":
            moved = _sgd(group, rate, mine, states if key else [])
            row.add(_norms(moved), lambda values: self._moved(mine, values))

    def _adam(
        self,
        row: Row,
        optim: Any,
        group: Mapping[str, Any],
        rate: Any,
        mine: list[_Weight],
        states: list[Mapping[str, Any]],
    ) -> None:
        import torch

        if "betas" not in group or "step" not in states[0]:
            return
        beta1, beta2 = (float(one) for one in group["betas"])
        steps, eps = _host(states[0]["step"]), float(group.get("eps", 1e-8))
        second = "max_exp_avg_sq" if group.get("amsgrad") else "exp_avg_sq"
        parts = list(zip(mine, states, strict=True))
        root = torch._foreach_sqrt([one.part(state[second]) for one, state in parts])
        torch._foreach_div_(root, (1.0 - beta2**steps) ** 0.5)
        grads = [one.part(one.param.grad) for one in mine]
        stale = torch._foreach_div(grads, torch._foreach_clamp_min(root, eps))
        sizes = [math.sqrt(one.numel()) for one in grads]
        row.add(
            _norms(stale),
            lambda values: self._worst(
                mine, [value / size for value, size in zip(values, sizes, strict=True)]
            ),
        )
        if not ADAM.fullmatch(type(optim).__name__):
            return
        torch._foreach_add_(root, eps)
        moved = list(torch._foreach_div([one.part(state["exp_avg"]) for one, state in parts], root))
        torch._foreach_mul_(moved, rate / (1.0 - beta1**steps))
        decay = float(group.get("weight_decay", 0.0))
        decoupled = type(optim).__name__.endswith("W") or group.get("decoupled_weight_decay")
        if decay and decoupled:
            torch._foreach_add_(moved, [one.part(one.param) * (rate * decay) for one in mine])
            torch._foreach_div_(moved, 1.0 - rate * decay)
        row.add(_norms(moved), lambda values: self._moved(mine, values))

    def _moved(self, mine: list[_Weight], values: list[float]) -> dict[str, float]:
        return self._named("update_norm", mine, values, scaled=True)

    def _named(
        self, stat: str, mine: Sequence[_Weight], values: list[float], *, scaled: bool = False
    ) -> dict[str, float]:
        """Return the squared sums by place; `Sums` takes their roots."""
        out: dict[str, float] = {}
        for one, value in zip(mine, values, strict=True):
            square = (value * (one.scale if scaled else 1.0)) ** 2
            for place in self._places(one):
                key = f"{place}/{stat}"
                out[key] = out.get(key, 0.0) + square
        return out

    def _worst(self, mine: Sequence[_Weight], values: list[float]) -> dict[str, float]:
        out: dict[str, float] = {}
        for one, value in zip(mine, values, strict=True):
            for place in self._places(one):
                key = f"{place}/adam_staleness"
                out[key] = larger(out.get(key, 0.0), value)
        return out

    def _places(self, one: _Weight) -> tuple[str, str]:
        unit = self._units[one.number]
        return f"layer/{unit.name}", f"group/{unit.kind}"


def _sgd(
    group: Mapping[str, Any], rate: Any, mine: list[_Weight], states: list[Mapping[str, Any]]
) -> list[Any]:
    """Return the updates of SGD, from gradients or the momentum buffers as they are after it."""
    buffers = [one.part(s["momentum_buffer"]) for one, s in zip(mine, states, strict=False)]
    if buffers and not group.get("nesterov"):
        return [one * rate for one in buffers]
    decay, sign = float(group.get("weight_decay", 0.0)), -1.0 if group.get("maximize") else 1.0
    out = []
    for at, one in enumerate(mine):
        moved = one.part(one.param.grad) * sign + one.part(one.param) * decay
        if buffers:
            moved = moved + buffers[at] * float(group["momentum"])
        out.append(moved * (rate / (1.0 - rate * decay)))
    return out


def _norms(tensors: Sequence[Any]) -> list[Any]:
    """Return the norm of each, in float32 at least, without a word from the device."""
    import torch

    out: list[Any] = [None] * len(tensors)
    places: dict[Any, list[int]] = {}
    for at, one in enumerate(tensors):
        places.setdefault((one.device, one.dtype), []).append(at)
    for (_, dtype), here in places.items():
        wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else None
        found = torch._foreach_norm([tensors[at].detach() for at in here], 2, dtype=wide)
        for at, norm in zip(here, found, strict=True):
            out[at] = norm
    return out


def _by_device(weights: list[_Weight]) -> Iterator[list[_Weight]]:
    places: dict[Any, list[_Weight]] = {}
    for one in weights:
        places.setdefault((one.param.device, one.param.dtype), []).append(one)
    yield from places.values()


def _is_plain(grad: Any) -> bool:
    import torch

    return grad is not None and grad.layout == torch.strided and not hasattr(grad, "to_local")


def _stride(param: Any, kind: str) -> int:
    limit = LIMIT_ENDS if kind in ("embed", "head") else LIMIT
    rows = int(param.shape[0]) if param.dim() else 1
    return max(1, min(rows, -(-int(param.numel()) // limit)))


def _host(step: Any) -> Any:
    """Return the optimizer's step as a number, unless it lives on an accelerator."""
    device = getattr(step, "device", None)
    return step if getattr(device, "type", "cpu") != "cpu" else float(step)
