"""The loss of a language model as a sum and a count, so that means are taken once, over all tokens.

Row t of the logits is judged against token t + 1. A label of IGNORE_INDEX does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from torch import Tensor

IGNORE_INDEX: Final = -100


def lm_loss(
    logits: Tensor, labels: Tensor, *, shift: bool = True, ignore_index: int = IGNORE_INDEX
) -> tuple[Tensor, Tensor]:
    """Return the summed negative log-likelihood in nats, and the number of tokens it is over.

    `logits` [B, T, V], `labels` int64 [B, T] of the same tokens; with `shift=False` row t of both
    belong together already. Both results are scalars on the device. With every label masked they
    are 0 and 0, never NaN.
    """
    from torch.nn import functional as F

    rows, targets = aligned(logits, labels, shift)
    nll = F.cross_entropy(
        rows.float().flatten(0, -2), targets.flatten(), ignore_index=ignore_index, reduction="sum"
    )
    return nll, (targets != ignore_index).sum()


def token_hits(
    logits: Tensor, labels: Tensor, *, shift: bool = True, ignore_index: int = IGNORE_INDEX
) -> tuple[Tensor, Tensor]:
    """Return how many tokens the largest logit names, and of how many, with `lm_loss`'s mask."""
    rows, targets = aligned(logits.detach(), labels, shift)
    valid = targets != ignore_index
    return ((rows.argmax(-1) == targets) & valid).sum(), valid.sum()


def aligned(logits: Tensor, labels: Tensor, shift: bool) -> tuple[Tensor, Tensor]:
    """Return the rows of logits and the labels that belong together."""
    return (logits[:, :-1], labels[:, 1:]) if shift else (logits, labels)
