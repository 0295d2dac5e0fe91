"""A learning rate that is multiplied during each step of an optimizer: by a constant, or falling.

Invariant: between two steps every group has the rate that its schedule gave it, so that any
schedule goes on as it would, and a checkpoint holds rate and scale apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from expdb.errors import BadInput

if TYPE_CHECKING:
    from expdb.track.loop_state import LoopState


class Scaled:
    """Multiplies the rates of optimizers by `loop.rate_factor()` while they step."""

    def __init__(self, optims: Mapping[str, Any], loop: LoopState) -> None:
        require_hooks(optims)
        self._loop = loop
        self._before: dict[int, list[Any]] = {}
        for optim in optims.values():
            optim.register_step_pre_hook(self._multiply)
            optim.register_step_post_hook(self._bring_back)

    def _multiply(self, optim: Any, *_: Any) -> None:
        rates, factor = [group["lr"] for group in optim.param_groups], self._loop.rate_factor()
        self._before[id(optim)] = [_copy(rate) for rate in rates]
        for group, rate in zip(optim.param_groups, rates, strict=True):
            if hasattr(rate, "mul_"):  # the same tensor: a captured graph reads it
                rate.mul_(factor)
            else:
                group["lr"] = rate * factor

    def _bring_back(self, optim: Any, *_: Any) -> None:
        for group, rate in zip(optim.param_groups, self._before.pop(id(optim)), strict=True):
            if hasattr(group["lr"], "copy_"):
                group["lr"].copy_(rate)
            else:
                group["lr"] = rate


def require_hooks(optims: Mapping[str, Any]) -> None:
    """Refuse optimizers whose rates cannot be multiplied.

    Raises:
        BadInput: one is not one of torch's.
    """
    for name, optim in optims.items():
        if not hasattr(optim, "register_step_pre_hook"):
            where = f"optim[{name}]" if name else "optim"
            raise BadInput(
                f"the learning rate of `{where}` cannot be scaled:"
                f" a {type(optim).__name__} has no step hooks",
                hint="scale it in the script, without --lr-scale or an action that does",
            )


def _copy(rate: Any) -> Any:
    return rate.clone() if hasattr(rate, "clone") else rate
