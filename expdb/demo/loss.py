"""The language-model loss of a batch as a sum and a count; the demo's own batches.

The last token of a window is a target only, so a window of T + 1 tokens gives T predictions and the
model sees T positions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor, nn

from expdb.track import lm

IGNORE_INDEX = lm.IGNORE_INDEX
"""A label with this value is not counted."""


def lm_loss(
    model: nn.Module,
    batch: Mapping[str, Tensor],
    observe: Callable[[Tensor, Tensor], None] | None = None,
) -> tuple[Tensor, int]:
    """Return the summed negative log-likelihood in nats and the number of tokens it is over.

    `batch["tokens"]`: int64 [B, T + 1]. `batch["labels"]`, when there, has the same shape and
    alignment (label t belongs to token t) and holds IGNORE_INDEX where a token does not count.
    `observe` sees the logits and the targets that they are judged against. The sum stays on the
    device. With every label masked it is 0 over 0 tokens, never NaN.
    """
    logits_BTV = model(batch["tokens"][:, :-1])
    targets_BT = batch.get("labels", batch["tokens"])[:, 1:]
    if observe is not None:
        observe(logits_BTV, targets_BT)
    nll, num = lm.lm_loss(logits_BTV, targets_BT, shift=False)
    return nll, int(num) if "labels" in batch else targets_BT.numel()
