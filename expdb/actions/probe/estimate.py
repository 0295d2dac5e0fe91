"""How many bytes a parameter costs while it is trained, before activations.

    what                         weights  gradients  optimizer         sum
    fp32, AdamW                        4          4  8 (two moments)    16
    bf16, AdamW                        2          2  4                   8
    bf16 with a float32 master         2          2  12 (and the copy)  16
    the same, float32 gradients        2          4  12                 18

Optimizer state is counted in bytes, not in weights: 8 bytes are twice the float32 weights and, with
the master copy, six times the bf16 ones. Inference holds the weights alone, and its cache of keys
and values; a peak that was measured in inference says nothing of training.

Source: S. Rajbhandari et al., ZeRO, arXiv 1910.02054 section 3.1 (16 bytes a parameter).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from expdb.errors import BadInput

OPTIMIZERS: Final[Mapping[str, int]] = {
    "adamw": 2, "adam": 2, "nadam": 2, "radam": 2, "adamax": 2, "rmsprop": 1, "adagrad": 1,
    "lion": 1, "muon": 1, "sgd-momentum": 1, "sgd": 0,
}  # fmt: skip
"""Optimizer -> how many values it keeps for each parameter, of the parameter's kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How weights, gradients and optimizer are kept."""

    weights: int
    """Bytes a parameter."""
    gradients: int
    state: int
    """Bytes of each value that the optimizer keeps."""
    master: int = 0


PRECISIONS: Final[Mapping[str, Kind]] = {
    "fp32": Kind(weights=4, gradients=4, state=4),
    "bf16": Kind(weights=2, gradients=2, state=2),
    "bf16-master": Kind(weights=2, gradients=2, state=4, master=4),
    "bf16-master-fp32-grads": Kind(weights=2, gradients=4, state=4, master=4),
}
"""`fp32` holds for autocast too: its weights stay float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Bytes a parameter, and in all."""

    num_params: int
    precision: str
    optimizer: str
    per_param: Mapping[str, int]
    """Of parameters, gradients and optimizer."""

    @property
    def training_per_param(self) -> int:
        """Bytes a parameter in training, before activations."""
        return sum(self.per_param.values())

    @property
    def training(self) -> int:
        """Bytes in training, before activations."""
        return self.num_params * self.training_per_param

    @property
    def inference(self) -> int:
        """Bytes of the weights alone."""
        return self.num_params * self.per_param["parameters"]

    def of(self, category: str) -> int:
        """Return the bytes of a category."""
        return self.num_params * self.per_param[category]


def estimate(num_params: int, *, precision: str, optimizer: str) -> Estimate:
    """Return what training so many parameters holds, before activations.

    Raises:
        BadInput: precision or optimizer are none of those known.
    """
    kind, values = PRECISIONS.get(precision), OPTIMIZERS.get(optimizer.lower())
    if kind is None:
        raise BadInput(
            f"no precision is called {precision}", hint=f"one of {', '.join(PRECISIONS)}"
        )
    if values is None:
        raise BadInput(
            f"no optimizer is called {optimizer}", hint=f"one of {', '.join(OPTIMIZERS)}"
        )
    return Estimate(
        num_params=num_params,
        precision=precision,
        optimizer=optimizer.lower(),
        per_param={
            "parameters": kind.weights,
            "gradients": kind.gradients,
            "optimizer": values * kind.state + kind.master,
        },
    )


def known_optimizer(name: str, *, momentum: float = 0.0) -> str | None:
    """Return what an optimizer's class is called here; None for one that is not known."""
    word = name.lower()
    if word == "sgd" and momentum:
        word = "sgd-momentum"
    return word if word in OPTIMIZERS else None
