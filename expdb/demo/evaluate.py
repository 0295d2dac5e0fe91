"""The validation loss over whole texts.

Invariant: it changes nothing. Each module is back in its earlier mode afterwards, also after an
error; no generator moves; the same weights and text give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from expdb.demo.loss import IGNORE_INDEX, lm_loss
from expdb.monitor.formulas import perplexity


@contextmanager
def evaluating(model: nn.Module) -> Iterator[torch.device]:
    """Put `model` into eval mode without gradients; yields its device, then restores each mode."""
    modes = [(module, module.training) for module in model.modules()]
    parameter = next(model.parameters(), None)
    model.eval()
    try:
        with torch.no_grad():
            yield parameter.device if parameter is not None else torch.device("cpu")
    finally:
        for module, training in modes:
            module.training = training


def windows(text: Tensor, seq_len: int) -> tuple[Tensor, Tensor]:
    """Return tokens and labels, int64 [num_windows, seq_len + 1], that predict each byte once.

    Neighbours share one byte: the last target of one is the first input of the next. The first
    byte has no context and is not predicted; the rest of the last window is masked.
    """
    num_targets = text.numel() - 1
    num_windows = -(-num_targets // seq_len)
    padding = num_windows * seq_len - num_targets
    tokens = torch.cat([text.long(), torch.zeros(padding, dtype=torch.int64)])
    labels = torch.cat([text.long(), torch.full((padding,), IGNORE_INDEX)])
    return tokens.unfold(0, seq_len + 1, seq_len), labels.unfold(0, seq_len + 1, seq_len)


def evaluate(
    model: nn.Module, text: Tensor, *, seq_len: int, batch_size: int = 32
) -> dict[str, float]:
    """Return `val/loss` (nats a byte) and `val/ppl` of uint8 `text` in windows of `seq_len`."""
    return evaluate_sources(model, {"": text}, seq_len=seq_len, batch_size=batch_size)


def evaluate_sources(
    model: nn.Module, texts: Mapping[str, Tensor], *, seq_len: int, batch_size: int = 32
) -> dict[str, float]:
    """Return `val/loss` and `val/ppl` over the bytes of all texts, and `val/<name>/loss` of each.

    No window crosses from one text into another. A text with an empty name has no loss of its own.
    """
    sums = {
        name: _summed_nll(model, text, seq_len=seq_len, batch_size=batch_size)
        for name, text in texts.items()
    }
    total = sum(nll for nll, _ in sums.values())
    num_tokens = sum(n for _, n in sums.values())
    each = {f"val/{name}/loss": nll / n for name, (nll, n) in sums.items() if name}
    return {"val/loss": total / num_tokens, "val/ppl": perplexity(total, num_tokens), **each}


def _summed_nll(
    model: nn.Module, text: Tensor, *, seq_len: int, batch_size: int
) -> tuple[float, int]:
    tokens, labels = windows(text, seq_len)
    total = 0.0
    num_tokens = 0
    with evaluating(model) as device:
        for start in range(0, len(tokens), batch_size):
            part = slice(start, start + batch_size)
            batch = {"tokens": tokens[part].to(device), "labels": labels[part].to(device)}
            nll, n = lm_loss(model, batch)
            total += nll.item()
            num_tokens += n
    return total, num_tokens
