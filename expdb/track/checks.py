"""Checks of a model by itself: its initialisation, and that it cannot see what it is to predict.

Invariant: a check leaves weights, gradients, buffers and generators as they were.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from expdb.track import rng
from expdb.track.watch.activations import first_tensor
from expdb.track.watch.units import units_of

if TYPE_CHECKING:
    from torch import Tensor, nn

LOSS_BAND: Final = 0.25
"""How far the first loss may be from ln V, in nats: 5.59 to 5.65 of 5.545 is healthy."""
FLAT: Final = (0.1, 10.0)
"""The last layer's RMS over the first one's, for activations and gradients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitReport:
    """What an untrained model shows."""

    loss: float
    expected: float
    """ln V: what knows nothing loses."""
    stds: dict[str, float] = field(default_factory=dict)
    """Matrix -> standard deviation of its weights."""
    act_ratio: dict[str, float] = field(default_factory=dict)
    """Kind of layer -> RMS of the last one's output over the first one's."""
    grad_ratio: dict[str, float] = field(default_factory=dict)
    """Kind of layer -> the same of its gradient."""
    faults: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.faults


def init_check(
    model: nn.Module,
    loss: Callable[[], tuple[Tensor, int | float | Tensor]],
    *,
    num_classes: int,
    std: float | None = None,
) -> InitReport:
    """Look at a model before its first update: `loss` gives summed nats and tokens of a batch.

    `std` is what its largest group of matrices should have; it is off beyond a factor of two.
    """
    import torch

    kinds = [unit for unit in units_of(model) if unit.kind in ("attn", "mlp") and unit.params]
    outputs: dict[str, float] = {}

    def after(name: str) -> Callable[..., None]:
        def hook(module: Any, args: Any, out: Any) -> None:
            found = first_tensor(out)
            if found is not None:
                outputs[name] = float(found.detach().float().square().mean().sqrt())

        return hook

    with untouched(model):
        handles = [unit.module.register_forward_hook(after(unit.name)) for unit in kinds]
        try:
            with torch.enable_grad():
                nll, num = loss()
                params = [p for p in model.parameters() if p.requires_grad]
                grads = torch.autograd.grad(nll / num, params, allow_unused=True)
        finally:
            for one in handles:
                one.remove()
    sizes = {id(p): g for p, g in zip(params, grads, strict=True) if g is not None}
    slopes = {
        unit.name: _rms([sizes[id(p)] for _, p in unit.params if id(p) in sizes]) for unit in kinds
    }
    by_kind = {kind: [u.name for u in kinds if u.kind == kind] for kind in ("attn", "mlp")}
    report = InitReport(
        loss=float(nll.detach() / num),
        expected=math.log(num_classes),
        stds={n: float(p.detach().std()) for n, p in model.named_parameters() if p.dim() >= 2},
        act_ratio=_ratios(by_kind, outputs),
        grad_ratio=_ratios(by_kind, slopes),
    )
    return InitReport(
        **{name: getattr(report, name) for name in report.__slots__ if name != "faults"},
        faults=tuple(_faults(report, std)),
    )


def _faults(report: InitReport, std: float | None) -> Iterator[str]:
    if not abs(report.loss - report.expected) <= LOSS_BAND:
        yield f"the first loss is {report.loss:.4g}, not about ln V = {report.expected:.4g}"
    for what, found in (("activations", report.act_ratio), ("gradients", report.grad_ratio)):
        for kind, ratio in found.items():
            if not FLAT[0] <= ratio <= FLAT[1]:
                yield f"{what} of the last {kind} layer are {ratio:.3g} times the first one's"
    if std is not None and report.stds:
        found_std = max(report.stds.values())
        if not std / 2 <= found_std <= std * 2:
            yield f"the largest standard deviation of weights is {found_std:.3g}, not {std:g}"


def _ratios(by_kind: dict[str, list[str]], sizes: dict[str, float]) -> dict[str, float]:
    out = {}
    for kind, names in by_kind.items():
        known = [sizes[name] for name in names if name in sizes]
        if len(known) > 1:
            out[kind] = known[-1] / known[0] if known[0] > 0 else math.inf
    return out


def _rms(tensors: list[Any]) -> float:
    total = sum(float(one.double().square().sum()) for one in tensors)
    num = sum(one.numel() for one in tensors)
    return math.sqrt(total / num) if num else math.nan


def first_leak(
    forward: Callable[[Tensor], Tensor],
    tokens: Tensor,
    *,
    vocab: int,
    model: nn.Module | None = None,
) -> int | None:
    """Return the first position whose logits change when a later token does; None if none does.

    `forward` takes int64 [B, T] and gives logits [B, T, V]. Each token is exchanged in turn, so it
    costs T forward passes; equality is by the bit.
    """
    import torch

    with untouched(model), torch.no_grad():
        logits = forward(tokens)
        for at in range(tokens.shape[1] - 1, 0, -1):
            changed = tokens.clone()
            changed[:, at] = (changed[:, at] + 1) % vocab
            same = (forward(changed)[:, :at] == logits[:, :at]).flatten(2).all(-1).all(0)
            if not bool(same.all()):
                return int((~same).nonzero()[0])
    return None


@contextmanager
def untouched(model: nn.Module | None) -> Iterator[None]:
    """Put generators, buffers and modes back afterwards; dropout is off inside."""
    import torch

    modules = [] if model is None else list(model.modules())
    modes = [(one, one.training) for one in modules]
    buffers = [] if model is None else [(one, one.clone()) for one in model.buffers()]
    try:
        with rng.preserved():
            for module in modules:
                module.training = False
            yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        for module, training in modes:
            module.training = training
