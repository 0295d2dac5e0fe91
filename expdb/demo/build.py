"""Builds the parts of a training run from the sections of its config.

Each section is a mapping with a `kind`; see the config dataclasses for its keys.
Raises: BadInput for an unknown kind or key (naming the nearest), and for unusable values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from expdb.demo.batches import ByteBatches, MixBatches
from expdb.demo.data import (
    DataConfig,
    MicroConfig,
    MixConfig,
    PydocConfig,
    TextConfig,
    TextData,
    load_data,
)
from expdb.demo.fields import read_kind
from expdb.demo.layers import DenseConfig
from expdb.demo.model import Decoder
from expdb.demo.moe import MoeConfig
from expdb.demo.optim import AdamWConfig, make_adamw
from expdb.demo.schedule import CosineConfig, MultiStepConfig, ScheduleConfig, TokenSchedule

MODELS: Mapping[str, type[DenseConfig]] = {"dense": DenseConfig, "moe": MoeConfig}
DATA: Mapping[str, type[DataConfig]] = {
    "pydoc": PydocConfig,
    "micro": MicroConfig,
    "mix": MixConfig,
    "text": TextConfig,
}
OPTIMS: Mapping[str, type[AdamWConfig]] = {"adamw": AdamWConfig}
SCHEDULES: Mapping[str, type[ScheduleConfig]] = {
    "multi_step": MultiStepConfig,
    "cosine": CosineConfig,
}


def build_model(
    config: Mapping[str, Any], *, seed: int, device: torch.device | str = "cpu"
) -> Decoder:
    """Return the model; its weights depend on `seed` only and the global generators stay put."""
    generator = torch.Generator().manual_seed(seed)
    # torch's layers draw their own default weights first, from the global generator.
    with torch.random.fork_rng(devices=[]):
        model = Decoder(read_kind("model", config, MODELS), generator=generator)
    return model.to(device)


def build_data(
    config: Mapping[str, Any], *, seq_len: int, seed: int, device: torch.device | str = "cpu"
) -> tuple[TextData, ByteBatches]:
    """Return the text and the endless loader over its training part."""
    parsed = read_kind("data", config, DATA)
    data = load_data(parsed, seq_len=seq_len)
    shared: dict[str, Any] = {
        "batch_size": parsed.batch_size,
        "seq_len": seq_len,
        "seed": seed,
        "device": device,
        "bad": parsed.bad_batches,
        "skip": parsed.skip_batches,
    }
    if isinstance(parsed, MixConfig):
        texts = {name: one.train for name, one in data.sources.items()}
        return data, MixBatches(texts, parsed.sources, **shared)
    return data, ByteBatches(data.train, **shared)


def build_optim(config: Mapping[str, Any], model: nn.Module) -> torch.optim.AdamW:
    """Return the optimizer over `model`, with weight decay on matrices only."""
    return make_adamw(read_kind("optim", config, OPTIMS), model)


def build_schedule(
    config: Mapping[str, Any],
    optimizers: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    *,
    total_tokens: int,
    total_steps: int,
) -> TokenSchedule:
    """Return the schedule, which sets the rate of the first update at once."""
    parsed = read_kind("schedule", config, SCHEDULES)
    return TokenSchedule(optimizers, parsed, total_tokens=total_tokens, total_steps=total_steps)
