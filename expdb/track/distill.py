"""How close a student model is to its teacher, over the same tokens.

    found = expdb.compare_teacher(student, teacher, batches)
    expdb.log({f"distill/{name}": value for name, value in found.items()}, step=step)

Invariant: modes, buffers, gradients and generators are as before. Means are over all tokens that
count, never over batches; a number that is not finite stays one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from expdb.errors import BadInput
from expdb.track.lm import IGNORE_INDEX, aligned, lm_loss
from expdb.track.untouched import untouched

if TYPE_CHECKING:
    from torch import Tensor, nn


def compare_teacher(
    student: nn.Module,
    teacher: nn.Module,
    batches: Iterable[tuple[Any, Tensor]],
    *,
    forward: Callable[[Any, Any], Tensor] | None = None,
    shift: bool = True,
    ignore_index: int = IGNORE_INDEX,
) -> dict[str, float]:
    """Return what a student loses and wins against its teacher.

        kl               KL(teacher || student), nats a token: 0 for equal models
        top1_agreement   share of tokens for which both name the same one: 1 for equal models
        student_loss, teacher_loss, loss_gap   nats a token; the gap is student less teacher
        size_ratio       parameters of the teacher over those of the student
        speed_ratio      time of the teacher over that of the student for the same batches, but the
                         first where there are more: it makes caches and chooses kernels

    Args:
        student: the small model.
        teacher: what it learns from; its vocabulary is the same.
        batches: (inputs, labels int64 [B, T]) each, on the models' device.
        forward: what gives logits [B, T, V] of a model and inputs; else `model(inputs)`.
        shift: row t of the logits is judged against token t + 1; else against label t.
        ignore_index: labels that do not count.

    Raises:
        BadInput: the logits of both have different shapes, or no label counts.
    """
    import torch

    models, spent_s = (student, teacher), (list[float](), list[float]())
    sums, num = [0.0] * 4, 0
    with ExitStack() as stack, torch.no_grad():
        for model in models:
            stack.enter_context(untouched(model))
        for inputs, labels in batches:
            logits = []
            for model, spent in zip(models, spent_s, strict=True):
                began = _clock_s(labels)
                logits.append(model(inputs) if forward is None else forward(model, inputs))
                spent.append(_clock_s(labels) - began)
            found = _sums(logits[0], logits[1], labels, shift, ignore_index)
            sums = [total + float(value) for total, value in zip(sums, found[:-1], strict=True)]
            num += int(found[-1])
    if not num:
        raise BadInput("no label of the batches counts, so nothing can be compared")
    kl, agreement, here, there = (total / num for total in sums)
    time_s = [sum(spent[1:] or spent) for spent in spent_s]
    sizes = [sum(one.numel() for one in model.parameters()) for model in models]
    return {
        "kl": kl,
        "top1_agreement": agreement,
        "student_loss": here,
        "teacher_loss": there,
        "loss_gap": here - there,
        "size_ratio": sizes[1] / sizes[0] if sizes[0] else math.nan,
        "speed_ratio": time_s[1] / time_s[0] if time_s[0] else math.nan,
    }


def _sums(
    student: Tensor, teacher: Tensor, labels: Tensor, shift: bool, ignore_index: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return KL, agreement and both losses, summed over tokens, and how many tokens count."""
    if student.shape != teacher.shape:
        shapes = f"{list(student.shape)}, the teacher's {list(teacher.shape)}"
        raise BadInput(f"the student's logits are {shapes}: they must be of one vocabulary")
    rows, targets = aligned(student, labels, shift)
    truth, _ = aligned(teacher, labels, shift)
    counts = targets != ignore_index
    log_q, log_p = rows.float().log_softmax(-1), truth.float().log_softmax(-1)
    # A token that the teacher rules out adds nothing, whatever the student thinks of it.
    apart = (log_p - log_q).masked_fill(log_p == -math.inf, 0.0)
    kl = (log_p.exp() * apart).sum(-1)
    same = rows.argmax(-1) == truth.argmax(-1)
    return (
        kl.masked_fill(~counts, 0.0).sum(),
        (same & counts).sum(),
        lm_loss(rows, targets, shift=False, ignore_index=ignore_index)[0],
        lm_loss(truth, targets, shift=False, ignore_index=ignore_index)[0],
        counts.sum(),
    )


def _clock_s(on: Tensor) -> float:
    """Return a moment, after all that the device still does."""
    import torch

    if on.is_cuda:
        torch.cuda.synchronize(on.device)
    return time.perf_counter()
