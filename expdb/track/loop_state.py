"""Where a training loop is, as every checkpoint keeps it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(slots=True, kw_only=True)
class LoopState:
    """Where the loop is; saved with every checkpoint."""

    step: int = 0
    """Updates done."""
    tokens: int = 0
    """Tokens seen by all ranks, without those still on the device."""
    epoch: int = 0
    """Times the loader was begun again."""
    num_skipped: int = 0
    """Updates that the gradient scaler skipped."""
    nominal: float | Tensor = 0.0
    """The constant that each micro-batch's loss is divided by; 0 until the first one was seen."""
    evaluated_step: int = -1
    best_value: float | None = None
    best_step: int | None = None
    nonfinite_since: int | None = None
    """The first of the non-finite losses that training is in; None while it is finite."""
    lr_scale: float = 1.0
    """What every learning rate is multiplied by, because somebody asked for it on the way."""
    decay: tuple[int, int, float] | None = None
    """First step, steps and end of a fall of every learning rate that a rule began: it is
    multiplied by a factor that falls from 1 to the end, and stays there.
    """
    end_at: int | None = None
    """The step at which training ends before its time, because a rule says so."""
    restore_at: int | None = None
    """The checkpoint whose weights are taken back then; None for the last ones."""
    num_batches: int | None = None
    """Micro-batches that this rank has taken, skipped ones too; None where nobody counted them."""
    highest_lr: float = 0.0
    """The highest learning rate so far: below it a constant one is a stage of decay."""
    clipped: list[bool] = field(default_factory=list)
    """Whether each of the last updates was clipped."""
    monitor: str | None = None
    """Where the detectors stand, as JSON; only while a checkpoint is written or was just read."""
    device_tokens: Tensor | None = None
    """Tokens counted on the device since the last save; never saved as such."""

    def seen(self) -> int | Tensor:
        """Return all tokens seen so far; a device scalar where they are counted there."""
        return self.tokens if self.device_tokens is None else self.device_tokens + self.tokens

    def rate_factor(self) -> float:
        """Return what learning rates are multiplied by in the update of this step."""
        if self.decay is None:
            return self.lr_scale
        first, steps, end = self.decay
        done = min(max(self.step - first, 0) / steps, 1.0)
        return self.lr_scale * (1.0 - (1.0 - end) * done)

    def saw(self, step: int, loss: float) -> None:
        """Note whether the loss of a step is finite."""
        if math.isfinite(loss):
            self.nonfinite_since = None
        elif self.nonfinite_since is None:
            self.nonfinite_since = step

    def to_plain(self) -> dict[str, Any]:
        """Return the values to save; waits for the device if tokens are counted there."""
        if self.device_tokens is not None:
            self.tokens += int(self.device_tokens.item())
            self.device_tokens = None
        self.nominal = float(self.nominal)
        saved = [one.name for one in fields(self) if one.name != "device_tokens"]
        return {name: getattr(self, name) for name in saved}

    def from_plain(self, saved: Mapping[str, Any]) -> None:
        """Take the saved values; names this version does not know are left out, and what an older
        one did not save is as at the beginning.
        """
        fresh = LoopState()
        for one in fields(self):
            setattr(self, one.name, saved.get(one.name, getattr(fresh, one.name)))
        self.device_tokens = None
