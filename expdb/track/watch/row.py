"""What one sampled update measured, on its way to the host: one row, copied once.

Invariant: nothing here waits for an accelerator; a value that lives there goes into the row as it
is, and what is to be made of it is done when the row has arrived.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Decode = Callable[[list[float]], Mapping[str, float]]


class Row:
    """Collects vectors of numbers, each with what makes named values of it."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self._parts: list[Tensor] = []
        self._decode: list[tuple[int, Decode]] = []
        self._derived: list[Callable[[Mapping[str, float]], Mapping[str, float]]] = []
        self.known: dict[str, float] = {}
        """Values that the host has anyway."""

    def add(self, values: Tensor | Sequence[Tensor], decode: Decode) -> None:
        """Add a vector, or scalars that become one."""
        import torch

        if isinstance(values, torch.Tensor):
            parts = [values.detach().reshape(-1)]
        else:
            parts = [one.detach().reshape(1) for one in values]
        if not parts:
            return
        wide = [one.to(self.device, torch.float64, non_blocking=True) for one in parts]
        flat = torch.cat(wide)
        self._parts.append(flat)
        self._decode.append((len(flat), decode))

    def add_scalars(self, values: Mapping[str, Tensor]) -> None:
        """Add named scalars."""
        keys = tuple(values)
        self.add(list(values.values()), lambda found: dict(zip(keys, found, strict=True)))

    def derive(self, made: Callable[[Mapping[str, float]], Mapping[str, float]]) -> None:
        """Add what `made` makes of all other values."""
        self._derived.append(made)

    def packed(self) -> Tensor | None:
        """Return the row, float64 on the device; None where the host knows all."""
        import torch

        return torch.cat(self._parts) if self._parts else None

    def values(self, found: list[float]) -> dict[str, float]:
        """Return all values by name, from the numbers of the row as they arrived."""
        out, sums = dict(self.known), Sums()
        at = 0
        for length, decode in self._decode:
            out.update(sums.take(decode(found[at : at + length])))
            at += length
        out |= sums.finished()
        for derived in self._derived:
            out.update(derived(out))
        return out


class Sums:
    """Adds up what several groups and optimizers say of one layer, and takes the roots at last."""

    def __init__(self) -> None:
        self._found: dict[str, float] = {}

    def take(self, values: Mapping[str, float]) -> dict[str, float]:
        """Take values, and return those that are no norms of a layer or a kind."""
        others = {}
        for key, value in values.items():
            if not key.startswith(("layer/", "group/")):
                others[key] = value
            elif key.endswith("_norm"):
                self._found[key] = self._found.get(key, 0.0) + value
            elif key.endswith("/adam_staleness"):
                self._found[key] = larger(self._found.get(key, 0.0), value)
            else:
                others[key] = value
        return others

    def finished(self) -> dict[str, float]:
        """Return the norms, and the ratio of update to weights."""
        out = {
            key: math.sqrt(value) if key.endswith("_norm") else value
            for key, value in self._found.items()
        }
        for key in [one for one in out if one.endswith("/update_norm")]:
            place = key.removesuffix("/update_norm")
            weight = out.get(f"{place}/param_norm", 0.0)
            if weight > 0:
                out[f"{place}/update_ratio"] = out[key] / weight
        return out


def larger(a: float, b: float) -> float:
    """Return the larger; NaN wins, so that a broken tensor is seen."""
    return b if math.isnan(b) or b > a else a
