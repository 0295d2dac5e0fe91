"""The optimizer: AdamW with weight decay on matrices only.

Invariant: every trainable parameter is in exactly one group. `decay` holds the weights of at
least two dimensions that are not embeddings; `no_decay` holds norms, biases and embeddings.
A head tied to an embedding is one parameter, and counts as an embedding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from expdb.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamWConfig:
    """The hyper-parameters of AdamW."""

    kind: str = "adamw"
    lr: float = 3e-3
    """The highest learning rate; the schedule multiplies it."""
    betas: tuple[float, ...] = (0.9, 0.95)
    wd: float = 0.1
    """Decoupled weight decay of the `decay` group."""
    eps: float = 1e-8

    def __post_init__(self) -> None:
        if len(self.betas) != 2 or not all(0.0 <= beta < 1.0 for beta in self.betas):
            raise BadInput(f"`optim.betas` must be two numbers in [0, 1), not {list(self.betas)}")
        for name in ("lr", "wd", "eps"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise BadInput(f"`optim.{name}` must be a number of at least 0, not {value}")


def decay_groups(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return the trainable parameters with decay and those without, in the model's order."""
    embeddings = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, nn.Embedding)
        for parameter in module.parameters(recurse=False)
    }
    decay: list[nn.Parameter] = []
    no_decay: list[nn.Parameter] = []
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        decays = parameter.dim() >= 2 and id(parameter) not in embeddings
        (decay if decays else no_decay).append(parameter)
    return decay, no_decay


def make_adamw(config: AdamWConfig, model: nn.Module) -> torch.optim.AdamW:
    """Return AdamW over `model` with the groups `decay` and `no_decay`."""
    decay, no_decay = decay_groups(model)
    groups = [
        {"params": decay, "weight_decay": config.wd, "name": "decay"},
        {"params": no_decay, "weight_decay": 0.0, "name": "no_decay"},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.lr,
        betas=(config.betas[0], config.betas[1]),
        eps=config.eps,
    )
