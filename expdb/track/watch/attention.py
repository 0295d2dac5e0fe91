"""Attention: entropy and the largest logit of each head, and its picture.

Queries and keys come from `module.monitor_qk(*args, **kwargs)`, which a module may have: causal
q [B, H, T, K] and k [B, H, S, K], as it would score them; else from the call of
scaled_dot_product_attention inside a module of kind attn, overheard for that one forward pass.

    attn_logit_max    largest q k / sqrt(K) that is not masked
    attn_entropy      mean over heads and rows of H / ln(keys seen): 1 uniform, 0 one key
    attn_entropy_q25  the lower quartile over heads of a head's mean

of up to ROWS evenly spaced rows of the first sequence that see LEAST keys or more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torch import Tensor

    from expdb.track.watch.row import Row
    from expdb.track.watch.units import Unit

ROWS: Final = 64
LEAST: Final = 8
HEADS_SHOWN: Final = 8
SHOWN: Final = 128
LAYERS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scores:
    """What one attention call had: one sequence's queries [H, T, K], keys [H, S, K], and mask."""

    q: Tensor
    k: Tensor
    mask: Tensor | None = None
    """[T, S] or [H, T, S]: bool (may see) or added to the logits."""
    causal: bool = True
    scale: float | None = None

    def logits(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and whether a key is seen, float32 and bool [H, rows, S]."""
        import torch

        with torch.no_grad(), torch.autocast(self.q.device.type, enabled=False):
            q, k = self.q.detach()[:, rows].float(), self.k.detach().float()
            if k.shape[0] != q.shape[0]:  # grouped queries
                k = k.repeat_interleave(q.shape[0] // k.shape[0], dim=0)
            scale = self.scale if self.scale is not None else 1.0 / math.sqrt(q.shape[-1])
            logits = q @ k.transpose(-1, -2) * scale
            sees = torch.ones_like(logits, dtype=torch.bool)
            if self.causal:
                keys = torch.arange(k.shape[1], device=q.device)
                sees = sees & (keys[None, :] <= rows[:, None])
            if self.mask is not None:
                shape = (*self.mask.shape[:-2], q.shape[-2], k.shape[1])
                mask = self.mask.detach()
                mask = mask.expand(shape) if mask.shape[-2] == 1 else mask[..., rows, :]
                if mask.dtype == torch.bool:
                    sees = sees & mask
                else:
                    logits, sees = logits + mask.float(), sees & torch.isfinite(mask)
            return logits.masked_fill(~sees, -math.inf), sees

    def weights(self, num: int) -> Tensor:
        """Return the attention weights of the first `num` positions, [H, num, num]."""
        import torch

        rows = torch.arange(min(num, self.q.shape[1]), device=self.q.device)
        logits, _ = self.logits(rows)
        return logits[..., : len(rows)].softmax(-1)


def statistics(scores: Scores) -> dict[str, Tensor]:
    """Return the statistics of one call, as scalars on the device."""
    import torch

    num = scores.q.shape[1]
    rows = torch.linspace(0, num - 1, min(num, ROWS), device=scores.q.device).round().long()
    logits, sees = scores.logits(rows)
    with torch.no_grad():
        seen = sees.sum(-1)
        log_p = logits.log_softmax(-1)
        entropy = -(log_p.exp() * log_p.masked_fill(~sees, 0.0)).sum(-1)
        counts = (seen >= min(LEAST, num)).float()
        share = entropy / seen.clamp(min=2).float().log()
        head = (share.nan_to_num() * counts).sum(-1) / counts.sum(-1).clamp(min=1)
        return {
            "attn_logit_max": logits.amax(),
            "attn_entropy": head.mean(),
            "attn_entropy_q25": torch.quantile(head, 0.25),
        }


def picture(weights: Any) -> Any:
    """Return the weights [H, T, T] of some heads side by side as an image, uint8 [T, H T + gaps].

    A pixel's brightness is the square root of the weight, so that small ones show.
    """
    import numpy as np

    found = np.sqrt(np.clip(np.asarray(weights, dtype=np.float64), 0.0, 1.0))
    heads, rows, _ = found.shape
    gap = np.full((rows, 2), 0.5)
    parts = [part for one in found for part in (one, gap)][: 2 * heads - 1]
    return np.round(np.concatenate(parts, axis=1) * 255.0).astype(np.uint8)


class Attention:
    """Overhears the attention layers of a model during one forward pass."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self.units = [unit for unit in units if unit.kind == "attn"]
        step = max(1, -(-len(self.units) // LAYERS_SHOWN))
        self.shown = {unit.name for unit in self.units[::step]}
        self.channels = 0
        """Heads times channels of all layers, as last seen: what a token's scores cost."""

    def attach(
        self,
        row: Row,
        hook: Callable[..., Any],
        show: Callable[[str, Tensor], None] | None = None,
    ) -> list[Any]:
        """Hook every layer; `show` gets the weights of those that are to be drawn."""
        handles: list[Any] = []
        self.channels = 0
        done: set[str] = set()

        def take(unit: Unit, scores: Scores | None) -> None:
            if scores is None or unit.name in done:
                return
            done.add(unit.name)
            self.channels += scores.q.shape[0] * scores.q.shape[-1]
            found = statistics(scores)
            row.add_scalars({f"layer/{unit.name}/{name}": one for name, one in found.items()})
            if show is not None and unit.name in self.shown:
                show(unit.name, scores.weights(SHOWN)[:HEADS_SHOWN])

        for unit in self.units:
            if hasattr(unit.module, "monitor_qk"):

                def after(module: Any, args: Any, kwargs: Any, out: Any, unit: Unit = unit) -> None:
                    q, k = module.monitor_qk(*args, **kwargs)
                    take(unit, Scores(q=q[0], k=k[0]))

                handles.append(unit.module.register_forward_hook(hook(after), with_kwargs=True))
            else:
                handles += self._overhear(unit, hook, take)
        return handles

    def _overhear(
        self, unit: Unit, hook: Callable[..., Any], take: Callable[[Unit, Any], None]
    ) -> list[Any]:
        mode = _mode()
        open_modes: list[Any] = []

        def before(*_: Any) -> None:
            mode.found = None
            mode.__enter__()
            open_modes.append(mode)

        def close(*_: Any) -> None:
            if open_modes:
                open_modes.pop().__exit__(None, None, None)

        def after(*_: Any) -> None:
            take(unit, mode.found)
            mode.found = None

        # `close` stands alone and always runs: a forward pass that raises leaves nothing behind.
        return [
            unit.module.register_forward_pre_hook(hook(before)),
            unit.module.register_forward_hook(close, always_call=True),
            unit.module.register_forward_hook(hook(after)),
        ]


def _mode() -> Any:
    import torch
    from torch.nn import functional as F
    from torch.overrides import TorchFunctionMode

    class Overhear(TorchFunctionMode):
        """Notes what scaled_dot_product_attention is given, and lets it do its work."""

        found: Scores | None = None

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if func is F.scaled_dot_product_attention:
                self.found = _scores(args, kwargs)
            return func(*args, **kwargs)

    def _scores(args: Any, kwargs: Any) -> Scores | None:
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        q, k, mask = given["query"], given["key"], given.get("attn_mask")
        if not isinstance(q, torch.Tensor) or q.dim() not in (3, 4):
            return None
        q, k = (one[0] if one.dim() == 4 else one[:1] for one in (q, k))
        if mask is not None:
            mask = mask[0] if mask.dim() == 4 else mask
        causal = bool(given.get("is_causal", False))
        return Scores(q=q, k=k, mask=mask, causal=causal, scale=given.get("scale"))

    return Overhear()
