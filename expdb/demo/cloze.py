"""Cloze: which of four continuations does the model find most likely?

One item is 64 bytes of held-out text, the 24 bytes that follow it, and three more stretches of 24
bytes from elsewhere in that text, in random order. A choice scores the sum of log p(byte | all
before it) over its bytes. All choices have one length, so ranking by the mean gives the same
answer and there is no second, length-normalised accuracy.

Invariant: items depend on the text, their number and the seed; the digest names them. Wrong
choices differ from the true one as bytes, so each item has one right answer.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from expdb.demo.evaluate import evaluating
from expdb.demo.layers import Layout
from expdb.errors import BadInput

CONTEXT_BYTES = 64
CHOICE_BYTES = 24
NUM_CHOICES = 4
CHANCE = 1.0 / NUM_CHOICES
MAX_DRAWS = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClozeItems:
    """Questions and where their answers are."""

    tokens: Tensor
    """uint8 [num_items, 4, 88]: the context and one choice in each row."""
    answers: Tensor
    """int64 [num_items]: which row is the true continuation."""
    digest: str
    """SHA-256 of tokens and answers, hex."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClozeResult:
    """How often the model's most likely choice was the true one."""

    acc: float
    acc_stderr: float
    """Standard error of a mean of n zeros and ones: sqrt(acc (1 - acc) / (n - 1))."""
    n: int
    chance: float
    items_digest: str


def make_items(text: Tensor, *, num_items: int = 400, seed: int = 0) -> ClozeItems:
    """Draw `num_items` items from uint8 `text` with a generator of their own.

    Raises: BadInput when there are under 2 items, or the text is too short or too uniform.
    """
    length = CONTEXT_BYTES + CHOICE_BYTES
    if num_items < 2:
        raise BadInput(f"cloze needs at least 2 items, not {num_items}")
    if text.numel() < 2 * length:
        raise BadInput(f"cloze needs {2 * length} bytes of held-out text, not {text.numel()}")
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(text.numel() - length + 1, (num_items,), generator=generator)
    whole = text[starts[:, None] + torch.arange(length)]
    choices = torch.empty(num_items, NUM_CHOICES, CHOICE_BYTES, dtype=torch.uint8)
    choices[:, 0] = whole[:, CONTEXT_BYTES:]
    choices[:, 1:] = _distractors(text, choices[:, 0], generator)
    order = torch.rand(num_items, NUM_CHOICES, generator=generator).argsort(dim=1)
    choices = choices.gather(1, order[:, :, None].expand_as(choices))
    context = whole[:, None, :CONTEXT_BYTES].expand(-1, NUM_CHOICES, -1)
    return as_items(torch.cat([context, choices], dim=2), (order == 0).long().argmax(dim=1))


def as_items(tokens: Tensor, answers: Tensor) -> ClozeItems:
    """Return items over given tokens and answers, with their digest."""
    digest = hashlib.sha256(tokens.contiguous().numpy().tobytes())
    digest.update(answers.contiguous().numpy().astype("<i8").tobytes())
    return ClozeItems(tokens=tokens, answers=answers, digest=digest.hexdigest())


def choice_scores(model: nn.Module, items: ClozeItems, *, batch_size: int = 32) -> Tensor:
    """Return float32 [num_items, 4]: log p of every choice given its context.

    The four choices of an item follow its context in one row, each at the positions right after
    it and blind to the others; so the context, most of the work, is computed once for all four.
    """
    context = items.tokens[:, 0, :CONTEXT_BYTES].long()
    choices = items.tokens[:, :, CONTEXT_BYTES:].long()
    # The last byte of a choice is only predicted, never read.
    rows = torch.cat([context, choices[:, :, :-1].flatten(1, 2)], dim=1)
    scores = []
    with evaluating(model) as device:
        layout, predicts = _side_by_side(device)
        for start in range(0, len(rows), batch_size):
            rows_BT = rows[start : start + batch_size].to(device)
            targets_BCT = choices[start : start + batch_size].to(device)
            logits_BTV = model(rows_BT, layout)[:, predicts]
            nll = F.cross_entropy(
                logits_BTV.float().flatten(0, 1), targets_BCT.flatten(), reduction="none"
            )
            scores.append(-nll.view(targets_BCT.shape).sum(dim=2).cpu())
    return torch.cat(scores)


def score_cloze(model: nn.Module, items: ClozeItems, *, batch_size: int = 32) -> ClozeResult:
    """Rank the choices of every item by likelihood; `batch_size` counts items."""
    right = choice_scores(model, items, batch_size=batch_size).argmax(dim=1) == items.answers
    n = len(items.answers)
    acc = int(right.sum()) / n
    return ClozeResult(
        acc=acc,
        acc_stderr=math.sqrt(acc * (1.0 - acc) / (n - 1)),
        n=n,
        chance=CHANCE,
        items_digest=items.digest,
    )


def _side_by_side(device: torch.device) -> tuple[Layout, Tensor]:
    """Return the layout of a row, and which of its tokens predict the choices' bytes in turn."""
    read = CHOICE_BYTES - 1
    context = torch.arange(CONTEXT_BYTES)
    choice = torch.arange(read) + CONTEXT_BYTES
    positions = torch.cat([context, choice.repeat(NUM_CHOICES)])
    # 0 is the context, 1..4 the choice that a token belongs to.
    owner = torch.cat(
        [torch.zeros_like(context), torch.arange(1, NUM_CHOICES + 1).repeat_interleave(read)]
    )
    earlier = positions[None, :] <= positions[:, None]
    sees = earlier & ((owner[None, :] == owner[:, None]) | (owner[None, :] == 0))
    firsts = torch.full((NUM_CHOICES, 1), CONTEXT_BYTES - 1)
    others = torch.arange(NUM_CHOICES * read).view(NUM_CHOICES, read) + CONTEXT_BYTES
    predicts = torch.cat([firsts, others], dim=1).flatten()
    layout = Layout(positions_T=positions.to(device), sees_TT=sees.to(device))
    return layout, predicts.to(device)


def _distractors(text: Tensor, truth: Tensor, generator: torch.Generator) -> Tensor:
    """Return uint8 [num_items, 3, 24] stretches of `text`, none equal to its item's truth."""
    num_starts = text.numel() - CHOICE_BYTES + 1
    stretch = torch.arange(CHOICE_BYTES)
    shape = (len(truth), NUM_CHOICES - 1)
    starts = torch.randint(num_starts, shape, generator=generator)
    for _ in range(MAX_DRAWS):
        drawn = text[starts[:, :, None] + stretch]
        same = (drawn == truth[:, None, :]).all(dim=2)
        if not same.any():
            return drawn
        starts[same] = torch.randint(num_starts, (int(same.sum()),), generator=generator)
    raise BadInput("the held-out text repeats itself too much for cloze")
