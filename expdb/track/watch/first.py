"""The first update of a training from nothing: whether the model starts as it should and sees no
more than it may, and how many updates there are to be.

    init/loss_excess   mean nat of the observed logits above ln V: 0 for who knows nothing
    init/act_ratio     RMS of the last layer's output over the first one's, of attention or MLP,
                       whichever lies farther from 1
    init/grad_ratio    the same of their gradients
    init/weight_gain   largest standard deviation x sqrt(inputs) of a matrix, embeddings left out
    init/unshifted     share of labels that are the input at their own place
    init/leak          how far logits move, in their standard deviations, when later tokens change

The last takes two forward passes over one sequence, after the update, on one process alone, and
only where the labels are the next tokens: what fills gaps may look ahead.

Invariant: weights, gradients, generators, buffers and modes are as before; what a model does not
allow is not measured, and nothing is said of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from expdb.track.lm import IGNORE_INDEX
from expdb.track.watch import tokens

if TYPE_CHECKING:
    from torch import Tensor

    from expdb.track.watch.row import Row
    from expdb.track.watch.units import Unit

ROWS: Final = 2048
"""Rows of logits that the first loss is taken from."""
LIMIT: Final = 1 << 16
"""Numbers of a matrix that its standard deviation is taken from."""
NEXT: Final = 0.9
"""The share of labels that are the token after their own, from which on a model predicts."""
REFUSALS: Final = (RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError)


class First:
    """Fills the row of the sample of that update."""

    def __init__(self, row: Row, units: tuple[Unit, ...]) -> None:
        self._row, self._units = row, units
        self._call: tuple[Any, Any, Any, Tensor] | None = None
        self._next: Tensor | None = None
        self._is_seen = False
        self._weights()
        row.derive(self._ratios)

    def attach(self, models: list[Any], hook: Callable[..., Any]) -> list[Any]:
        """See what the models are called with; returns the handles."""
        return [
            one.register_forward_pre_hook(hook("start", self._called), with_kwargs=True)
            for one in models
        ]

    def _called(self, module: Any, args: Any, kwargs: Any) -> None:
        if self._call is None:
            found = tokens.tokens_in(args)
            found = tokens.tokens_in(kwargs) if found is None else found
            if found is not None:
                self._call = module, args, kwargs, found.detach()

    def observe(self, logits: Tensor, targets: Tensor) -> None:
        """Take the logits [..., V] of the first micro-batch, and what they are judged against."""
        import torch
        from torch.nn import functional as F

        if self._is_seen:
            return
        self._is_seen = True
        with torch.no_grad():
            wanted = targets.detach().reshape(-1)
            rows = logits.detach().reshape(len(wanted), -1)
            some = slice(None, None, max(1, -(-len(rows) // ROWS)))
            loss = F.cross_entropy(rows[some].float(), wanted[some], ignore_index=IGNORE_INDEX)
            excess = partial(_finite, "init/loss_excess")
            self._row.add([loss - math.log(rows.shape[-1])], excess)
            if self._call is not None and self._call[3].numel() == len(wanted):
                self._shift(self._call[3], wanted)

    def _shift(self, inputs: Tensor, wanted: Tensor) -> None:
        """Compare the labels with the inputs, at their own place and at the next."""
        inputs = inputs.to(wanted.device)
        wanted = wanted.reshape(inputs.shape)
        counts = wanted != IGNORE_INDEX
        same = ((wanted == inputs) & counts).sum() / counts.sum()
        self._row.add([same], partial(_finite, "init/unshifted"))
        early, counted = wanted[:, :-1], counts[:, :-1]
        self._next = ((early == inputs[:, 1:]) & counted).sum() / counted.sum()

    def finish(self, known: Mapping[str, float]) -> None:
        """Add what is known beside, and whether later tokens are seen; the update is over."""
        self._row.known |= known
        if self._call is None or self._next is None or _is_shared():
            return
        try:
            found = _moved(*self._call)
        except REFUSALS:  # it wants to be called in a way that nobody but the script knows
            return
        if found is not None:
            self._row.add([*found, self._next], _leak)

    # What the weights and the layers show

    def _weights(self) -> None:
        import torch

        gains = []
        for unit in self._units:
            for _, param in unit.params if unit.kind not in ("embed", "norm") else ():
                if param.dim() == 2 and not hasattr(param, "to_local"):
                    some = param.detach()[:: max(1, -(-param.numel() // LIMIT))].float()
                    gains.append(some.square().mean().sqrt() * math.sqrt(param.shape[1]))
        if gains:
            device = self._row.device
            largest = torch.stack([one.to(device) for one in gains]).amax()
            self._row.add([largest], partial(_finite, "init/weight_gain"))

    def _ratios(self, found: Mapping[str, float]) -> dict[str, float]:
        out = {}
        for name, stat in (("act_ratio", "act_rms"), ("grad_ratio", "grad_norm")):
            ratios = []
            for kind in ("attn", "mlp"):
                sizes = [_size(unit, stat, found) for unit in self._units if unit.kind == kind]
                known = [one for one in sizes if one is not None]
                if len(known) > 1 and known[0] > 0 and known[-1] > 0:
                    ratios.append(known[-1] / known[0])
            if ratios:
                out[f"init/{name}"] = max(ratios, key=lambda one: abs(math.log(one)))
        return out


def _size(unit: Unit, stat: str, found: Mapping[str, float]) -> float | None:
    value = found.get(f"layer/{unit.name}/{stat}")
    if value is None or not math.isfinite(value) or stat == "act_rms":
        return value if value is not None and math.isfinite(value) else None
    num = sum(param.numel() for _, param in unit.params)
    return value / math.sqrt(num) if num else None


def _finite(key: str, found: list[float]) -> dict[str, float]:
    return {key: found[0]} if math.isfinite(found[0]) else {}


def _leak(found: list[float]) -> dict[str, float]:
    moved, is_other, following = found
    return _finite("init/leak", [moved]) if following > NEXT and is_other else {}


def _is_shared() -> bool:
    """Tell whether a forward pass of this process alone would leave others waiting."""
    import torch.distributed as dist

    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _moved(module: Any, args: Any, kwargs: Any, ids: Tensor) -> list[Tensor] | None:
    """Return how far the logits of the first half move when the tokens of the second one change,
    and whether those are others at all; None where the model does not say.

    The other tokens are those of the second half in another order, so that all of them exist.
    """
    import torch

    from expdb.track.untouched import untouched

    half = ids.shape[1] // 2
    mixed = ids[:1].clone()
    mixed[:, half:] = mixed[:, half:].roll(1, 1)
    is_other = (mixed != ids[:1]).any()
    with untouched(module), torch.no_grad():
        found = []
        for row in (ids[:1], mixed):
            swapped = partial(_swapped, ids=ids, row=row)
            named = {name: swapped(value) for name, value in kwargs.items()}
            out = _logits_in(module(*map(swapped, args), **named))
            if out is None or out.shape[:2] != row.shape:
                return None
            found.append(out[:, :half].detach().double())
    return [(found[1] - found[0]).abs().amax() / found[0].std(), is_other]


def _swapped(value: Any, *, ids: Tensor, row: Tensor) -> Any:
    """Return an argument for the one sequence `row` instead of the batch `ids`."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    if value.shape == ids.shape and value.data_ptr() == ids.data_ptr():
        return row
    return value[:1] if value.dim() and value.shape[0] == ids.shape[0] else value


def _logits_in(out: Any) -> Tensor | None:
    """Return the float tensor of three dimensions that a model gave, by name or the first."""
    import torch

    named = out.get("logits") if isinstance(out, Mapping) else getattr(out, "logits", None)
    several = list(out.values()) if isinstance(out, Mapping) else out
    candidates = [named, *several] if isinstance(several, (tuple, list)) else [named, several]
    for one in candidates:
        if isinstance(one, torch.Tensor) and one.dim() == 3 and one.is_floating_point():
            return one
    return None
