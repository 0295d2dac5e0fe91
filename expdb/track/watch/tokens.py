"""Signals of tokens: log Z of the logits, repeats in a batch, and which tensor the tokens are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torch import Tensor

ROWS: Final = 256
LONGEST: Final = 13
REPEATS: Final = 32
NAMES: Final = ("tokens", "input_ids", "inputs", "ids")


def log_z(logits: Tensor) -> dict[str, Tensor]:
    """Return mean and max of log sum exp over up to ROWS rows of logits [..., V]."""
    import torch

    with torch.no_grad(), torch.autocast(logits.device.type, enabled=False):
        flat = logits.detach().reshape(-1, logits.shape[-1])
        flat = flat[:: max(1, -(-len(flat) // ROWS))].float()
        found = flat.logsumexp(-1)
        return {"train/log_z": found.mean(), "train/log_z_max": found.amax()}


def tokens_in(batch: Any) -> Tensor | None:
    """Return a batch's tokens, int [sequences, length]: by name, or the largest such tensor."""
    import torch

    if isinstance(batch, Mapping):
        named = [batch[name] for name in NAMES if name in batch]
        candidates: Sequence[Any] = named or list(batch.values())
    elif isinstance(batch, (tuple, list)):
        candidates = batch
    else:
        candidates = [batch]
    found = [
        one
        for one in candidates
        if isinstance(one, torch.Tensor)
        and one.dim() == 2
        and one.dtype in (torch.int64, torch.int32, torch.int16, torch.uint8)
    ]
    return max(found, key=lambda one: one.numel(), default=None)


def repeat_share(tokens: Any, *, longest: int = LONGEST, repeats: int = REPEATS) -> float:
    """Return the share of tokens inside `repeats` or more copies in a row of an n-gram, n to
    `longest`.

    `tokens` is an array or host tensor, int [sequences, length].
    """
    import numpy as np

    found = np.asarray(tokens)
    covered = np.zeros(found.shape, dtype=bool)
    length = found.shape[1]
    for size in range(1, min(longest, length // repeats) + 1):
        same = found[:, size:] == found[:, :-size]
        # A run of m equal pairs at distance n covers m + n tokens.
        least = size * (repeats - 1)
        edges = np.diff(np.pad(same, ((0, 0), (1, 1))).astype(np.int8), axis=1)
        rows, starts = np.nonzero(edges == 1)
        _, ends = np.nonzero(edges == -1)
        for row, start, end in zip(rows, starts, ends, strict=True):
            if end - start >= least:
                covered[row, start : end + size] = True
    return float(covered.mean()) if covered.size else 0.0
