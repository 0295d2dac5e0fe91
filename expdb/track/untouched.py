"""Looking at models without a trace: modes, buffers and generators as they were before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from expdb.track import rng

if TYPE_CHECKING:
    from torch import nn


@contextmanager
def eval_mode(models: Iterable[nn.Module]) -> Iterator[None]:
    """Put every model into eval mode, and each of its modules back into the mode it had."""
    every = list(models)
    modes = [(one, one.training) for model in every for one in model.modules()]
    for model in every:
        model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def same_buffers(models: Iterable[nn.Module]) -> Iterator[None]:
    """Put the buffers of models back afterwards."""
    import torch

    kept = [(one, one.clone()) for model in models for one in model.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for one, before in kept:
                one.copy_(before)


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Put generators, buffers and modes back afterwards; dropout is off inside."""
    with rng.preserved(), same_buffers([model]), eval_mode([model]):
        yield
