"""What is changed where a run goes on: batches left out, another learning rate.

A spike comes back when the same batches meet the same weights, so whoever goes back to a checkpoint
may leave the batches behind it out, or train slower from there on. A person does, or a rule.

Invariant: what was changed stands in the attempt's pin.json before the first update, and in the
run's events; the scale of the learning rate is in every checkpoint after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expdb.errors import BadInput
from expdb.model import Attempt

if TYPE_CHECKING:
    from expdb.track.state import State

RULE = "intervention"
"""The name under which events tell of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """What is changed once, right after a checkpoint was restored."""

    skip_batches: int = 0
    """The data of so many updates are left out: `accum` micro-batches each, on every rank."""
    lr_scale: float = 1.0
    """What every learning rate is multiplied by from here on, on top of earlier scales."""
    rewind: Mapping[str, Any] = field(default_factory=dict)
    """The rule that went back here by itself: rule, step (of its alert), from (the step that was
    reached), try; empty where a person did.
    """

    def __bool__(self) -> bool:
        return self != NONE

    def to_plain(self) -> dict[str, Any]:
        """Return what pin.json keeps; empty when nothing is changed."""
        out: dict[str, Any] = {}
        if self.skip_batches:
            out["skip_batches"] = self.skip_batches
        if self.lr_scale != 1.0:
            out["lr_scale"] = self.lr_scale
        if self.rewind:
            out["rewind"] = dict(self.rewind)
        return out

    def apply(self, state: State) -> None:
        """Scale the rates of a restored state; its loader is moved on by `Loop`.

        Raises:
            BadInput: the loader cannot be moved on from the checkpoint, or an optimizer cannot be
                scaled.
        """
        if self.skip_batches:
            _require_loader(state)
        if self.lr_scale != 1.0:
            state.scale_lr(self.lr_scale)

    def rate_words(self, step: int, whole: float) -> str:
        """Return the line about the rate; `whole` is the product of all scales."""
        in_all = "" if whole == self.lr_scale else f", times {whole:.6g} in all"
        return f"learning rate times {self.lr_scale:.6g} from step {step} on{in_all}"


NONE = Intervention()


def skip_words(first: int, last: int, *, updates: int) -> str:
    """Return the line about batches left out; batches are counted from 0, the first ever taken."""
    noun = "1 update" if updates == 1 else f"{updates:,} updates"
    which = f"batch {first}" if first == last else f"batches {first}-{last}"
    return f"{which} skipped, those of {noun}"


def asked(settings: Mapping[str, Any]) -> Intervention:
    """Return what the settings ask for.

    Raises:
        BadInput: a value makes no sense.
    """
    skip, scale = settings["skip_batches"], settings["lr_scale"]
    if isinstance(skip, bool) or not isinstance(skip, int) or skip < 0:
        raise BadInput(f"expdb.skip_batches is {skip!r}, not a whole number of at least 0")
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not _is_scale(scale):
        raise BadInput(f"expdb.lr_scale is {scale!r}, not a number above 0")
    return Intervention(skip_batches=skip, lr_scale=float(scale))


def of_attempt(attempt: Attempt | None) -> Intervention:
    """Return what an attempt changed; nothing where its record is of another shape."""
    known = attempt.intervention if attempt is not None else {}
    settings = {
        "skip_batches": known.get("skip_batches", 0),
        "lr_scale": known.get("lr_scale", 1.0),
    }
    try:
        return asked(settings)
    except BadInput:
        return NONE


def _is_scale(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _require_loader(state: State) -> None:
    if not state.skips_batches:
        raise BadInput(
            "batches can be skipped by expdb.Loop alone: a loop of your own takes them itself",
            hint="leave them out in the script, and resume without --skip-batches",
        )
    if not hasattr(state.loader, "state_dict"):
        raise BadInput(
            "batches cannot be skipped: the loader has no state_dict, so it begins anew",
            hint="give State a loader that knows its position",
        )
