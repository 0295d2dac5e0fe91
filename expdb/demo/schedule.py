"""Learning-rate schedules by tokens.

With `step` updates and `tokens` tokens behind it, the next update runs at

    lr = base_lr * warmup(step) * jump(step) * shape(progress)

    warmup(step)      (step + 1) / W while step < W, then 1
    jump(step)        jump_factor for jump_steps steps from jump_at on, else 1: a fault to look at
    multi_step        1, then factors[i] from progress >= fractions[i] on
                      progress = tokens / total_tokens
    cosine            r + (1 - r) * (1 + cos(pi * progress)) / 2 with r = min_ratio
                      progress = (tokens - from) / (total_tokens - from), held in [0, 1]
                      from = the larger of hold * total_tokens and W * total_tokens / total_steps,
                      the tokens that warm-up takes

Invariant: the factor is a function of (step, tokens) alone, so a resumed run needs no history.
`multi_step` is one for every t < W as long as warm-up ends before its first fraction.

Source: DeepSeek-LLM (arXiv 2401.02954) section 2.3 for the fractions and factors of multi_step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from expdb.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class ByStep:
    """What every schedule does by steps: warm-up, and a jump for those who ask for one."""

    warmup_steps: int = 30
    jump_at: int = 0
    """The first step of the jump."""
    jump_steps: int = 0
    """How many steps it lasts; 0 is no jump."""
    jump_factor: float = 1.0
    """What the rate is multiplied by meanwhile."""

    def __post_init__(self) -> None:
        for name in ("warmup_steps", "jump_at", "jump_steps"):
            if getattr(self, name) < 0:
                raise BadInput(f"`schedule.{name}` must be at least 0, not {getattr(self, name)}")
        if not (math.isfinite(self.jump_factor) and self.jump_factor >= 0.0):
            raise BadInput(f"`schedule.jump_factor` must be at least 0, not {self.jump_factor}")

    def by_step(self, step: int) -> float:
        """Return the factor of warm-up and jump at a step."""
        jumps = self.jump_at <= step < self.jump_at + self.jump_steps
        return warmup(step, self.warmup_steps) * (self.jump_factor if jumps else 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiStepConfig(ByStep):
    """Warm-up, then a constant rate that drops at given fractions of the tokens."""

    kind: str = "multi_step"
    fractions: tuple[float, ...] = (0.8, 0.9)
    """Where the rate drops, as parts of all tokens."""
    factors: tuple[float, ...] = (0.316, 0.1)
    """What the base rate is multiplied by from each fraction on."""

    def __post_init__(self) -> None:
        ByStep.__post_init__(self)
        if len(self.fractions) != len(self.factors):
            raise BadInput(
                f"`schedule.fractions` has {len(self.fractions)} values and `schedule.factors` "
                f"{len(self.factors)}",
                hint="give one factor for each fraction",
            )
        inside = all(0.0 < fraction <= 1.0 for fraction in self.fractions)
        if not inside or any(a >= b for a, b in pairwise(self.fractions)):
            raise BadInput(
                f"`schedule.fractions` must rise within (0, 1], not {list(self.fractions)}"
            )
        if not all(math.isfinite(factor) and factor >= 0.0 for factor in self.factors):
            raise BadInput(f"`schedule.factors` must be at least 0, not {list(self.factors)}")

    def shape(self, tokens: int, *, total_tokens: int, total_steps: int) -> float:
        """Return the factor without warm-up after `tokens`."""
        return multi_step(tokens / total_tokens, self.fractions, self.factors)


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineConfig(ByStep):
    """Warm-up, then half a cosine down to a floor."""

    kind: str = "cosine"
    min_ratio: float = 0.1
    """The floor, as a part of the base rate."""
    hold: float = 0.0
    """The part of all tokens after which the cosine begins; until then the rate is constant."""

    def __post_init__(self) -> None:
        ByStep.__post_init__(self)
        if not 0.0 <= self.min_ratio <= 1.0:
            raise BadInput(f"`schedule.min_ratio` must be in [0, 1], not {self.min_ratio}")
        if not 0.0 <= self.hold < 1.0:
            raise BadInput(f"`schedule.hold` must be in [0, 1), not {self.hold}")

    def shape(self, tokens: int, *, total_tokens: int, total_steps: int) -> float:
        """Return the factor without warm-up after `tokens`."""
        warm = min(self.warmup_steps * total_tokens / total_steps, total_tokens)
        start = max(warm, self.hold * total_tokens)
        span = total_tokens - start
        # Warm-up that fills the whole run leaves nothing to decay over.
        return cosine((tokens - start) / span if span > 0.0 else 0.0, self.min_ratio)


ScheduleConfig = MultiStepConfig | CosineConfig


def warmup(step: int, warmup_steps: int) -> float:
    """Return (step + 1) / warmup_steps up to 1; step 0 already moves."""
    return min(1.0, (step + 1) / warmup_steps) if warmup_steps else 1.0


def multi_step(progress: float, fractions: Sequence[float], factors: Sequence[float]) -> float:
    """Return the factor of the last fraction reached, 1 before the first."""
    factor = 1.0
    for fraction, at_fraction in zip(fractions, factors, strict=True):
        if progress >= fraction:
            factor = at_fraction
    return factor


def cosine(progress: float, min_ratio: float) -> float:
    """Return the cosine factor; past the end it stays at the floor and does not rise again."""
    held = min(max(progress, 0.0), 1.0)
    return min_ratio + (1.0 - min_ratio) * 0.5 * (1.0 + math.cos(math.pi * held))


class TokenSchedule:
    """Sets the learning rate of one or more optimizers before each update.

    Made before any state is loaded: the base rates are those the optimizers have now, from the
    config, so a fork with another rate gets the new one although it loads the old optimizer.
    """

    def __init__(
        self,
        optimizers: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        config: ScheduleConfig,
        *,
        total_tokens: int,
        total_steps: int,
    ) -> None:
        if total_tokens < 1 or total_steps < 1:
            raise BadInput(
                f"a schedule needs tokens and steps, not {total_tokens} and {total_steps}"
            )
        one = isinstance(optimizers, torch.optim.Optimizer)
        self._optimizers: list[torch.optim.Optimizer] = [optimizers] if one else list(optimizers)  # type: ignore[list-item,arg-type]
        self._base_lrs = [
            [float(group["lr"]) for group in optimizer.param_groups]
            for optimizer in self._optimizers
        ]
        self.config = config
        self.total_tokens = total_tokens
        self.total_steps = total_steps
        self._step = 0
        self._tokens = 0
        self._apply()

    def factor(self, step: int, tokens: int) -> float:
        """Return the factor of the update that has `step` updates and `tokens` behind it."""
        shape = self.config.shape(
            tokens, total_tokens=self.total_tokens, total_steps=self.total_steps
        )
        return self.config.by_step(step) * shape

    @property
    def lr(self) -> float:
        """The rate of the next update, in the first group of the first optimizer."""
        return self._base_lrs[0][0] * self.factor(self._step, self._tokens)

    def step(self, tokens: int = 0) -> None:
        """Count one finished update that used `tokens` tokens, and set the next rate."""
        self._step += 1
        self._tokens += tokens
        self._apply()

    def state_dict(self) -> dict[str, int]:
        """Return the updates done and the tokens seen."""
        return {"step": self._step, "tokens": self._tokens}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to the saved step and tokens, and set the rate they give."""
        self._step = int(state["step"])
        self._tokens = int(state["tokens"])
        self._apply()

    def _apply(self) -> None:
        factor = self.factor(self._step, self._tokens)
        # `load_state_dict` of an optimizer replaces its groups, so they are read anew each time.
        for optimizer, base_lrs in zip(self._optimizers, self._base_lrs, strict=True):
            for group, base_lr in zip(optimizer.param_groups, base_lrs, strict=True):
                group["lr"] = base_lr * factor
