"""Mixtures of experts: load, router entropy and bias of each layer, over a whole update.

The protocol: a module (the router, or the mixture) has

    monitor_routing(args, output) -> {"load": [E], "gate": [E] or None, "bias": [E] or None}

which is called after its forward pass with what that was given and gave: places that each expert
got, the sum over tokens of the router's probabilities, and the bias that chooses. It draws nothing
and changes nothing. Loads of the micro-batches of an update are added up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from expdb.monitor import formulas
from expdb.track.watch.units import has_routing

if TYPE_CHECKING:
    from torch import nn

    from expdb.track.watch.row import Row


class Routing:
    """The routers of a model."""

    def __init__(self, model: nn.Module) -> None:
        self.routers = {name: one for name, one in model.named_modules() if has_routing(one)}
        self._sums: dict[str, dict[str, Any]] = {}

    def attach(self, hook: Callable[..., Any]) -> list[Any]:
        """Hook every router; returns the handles."""
        self._sums = {}
        handles = []
        for name, module in self.routers.items():

            def after(module: Any, args: Any, out: Any, name: str = name) -> None:
                self._take(name, module.monitor_routing(args, out))

            handles.append(module.register_forward_hook(hook(after)))
        return handles

    def _take(self, name: str, found: Any) -> None:
        sums = self._sums.setdefault(name, {})
        for key in ("load", "gate"):
            value = found.get(key)
            if value is not None:
                more = value.detach().double()
                sums[key] = sums[key] + more if key in sums else more
        if found.get("bias") is not None:
            sums["bias"] = found["bias"].detach()

    def finish(self, row: Row) -> None:
        """Add what the update gave each expert."""
        for name, sums in self._sums.items():
            place = f"layer/{name}"
            if "load" in sums:
                row.add(sums["load"], partial(_load, place))
            if "gate" in sums:
                row.add(sums["gate"], partial(_gate, place))
            if "bias" in sums:
                row.add_scalars({f"{place}/moe_bias_max": sums["bias"].abs().amax()})
        self._sums = {}


def _load(place: str, load: list[float]) -> dict[str, float]:
    if not sum(load):
        return {}
    return {
        f"{place}/moe_max_vio": formulas.max_violation(load),
        f"{place}/moe_load_cv": formulas.load_cv(load),
        f"{place}/moe_dead_experts": float(formulas.num_dead(load)),
    }


def _gate(place: str, gate: list[float]) -> dict[str, float]:
    value = formulas.entropy_share(gate)
    return {f"{place}/router_entropy": value} if value == value else {}
