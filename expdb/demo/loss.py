"""The language-model loss as a sum and a count, so that means can be taken once, over all tokens.

Row t of the logits is judged against token t + 1. The last token of a window is a target only,
so a window of T + 1 tokens gives T predictions and the model sees T positions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn import functional as F

IGNORE_INDEX = -100
"""A label with this value is not counted."""


def lm_loss(model: nn.Module, batch: Mapping[str, Tensor]) -> tuple[Tensor, int]:
    """Return the summed negative log-likelihood in nats and the number of tokens it is over.

    `batch["tokens"]`: int64 [B, T + 1]. `batch["labels"]`, when there, has the same shape and
    alignment (label t belongs to token t) and holds IGNORE_INDEX where a token does not count.
    The sum stays on the device. With every label masked it is 0 over 0 tokens, never NaN.
    """
    logits_BTV = model(batch["tokens"][:, :-1])
    targets_BT = batch.get("labels", batch["tokens"])[:, 1:]
    nll = F.cross_entropy(
        logits_BTV.float().flatten(0, 1),
        targets_BT.flatten(),
        ignore_index=IGNORE_INDEX,
        reduction="sum",
    )
    if "labels" in batch:
        return nll, int((targets_BT != IGNORE_INDEX).sum())
    return nll, targets_BT.numel()


def perplexity(nll: float, num_tokens: int) -> float:
    """Return exp(nll / num_tokens) of sums over all tokens; NaN without tokens, inf on overflow.

    A mean of the perplexities of parts is another, larger number.
    """
    if num_tokens == 0:
        return math.nan
    try:
        return math.exp(nll / num_tokens)
    except OverflowError:
        return math.inf


def bits_per_byte(nll: float, num_bytes: int) -> float:
    """Return the nats of a text as bits for each of its bytes; NaN without bytes."""
    return nll / (num_bytes * math.log(2.0)) if num_bytes else math.nan
