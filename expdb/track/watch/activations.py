"""Activations: size, outliers, dead units, of up to ROWS tokens of the first micro-batch.

    act_rms        sqrt(mean a^2)
    act_max        max |a|
    act_kurtosis   mean a^4 / (mean a^2)^2; 3 for a normal distribution
    act_near_zero  share of |a| <= EPS act_rms
    act_dead       share of units with |a| <= EPS act_rms on every token of the window

Of an MLP the last two are of what its last linear layer gets, the hidden units; of an activation
module of its own, of its output. Routed experts are left out: that they are silent is their task.

Invariant: outputs are read, never changed; hooks are there during a sampled update only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torch import Tensor, nn

    from expdb.track.watch.row import Row
    from expdb.track.watch.units import Unit

ROWS: Final = 512
EPS: Final = 1e-3
SIZE: Final = ("act_rms", "act_max", "act_kurtosis")
SILENCE: Final = ("act_near_zero", "act_dead")
FUNCTIONS: Final = (
    "ReLU", "ReLU6", "LeakyReLU", "PReLU", "GELU", "SiLU", "Mish", "ELU", "SELU", "CELU",
    "Softplus", "Hardswish", "Hardtanh", "Tanh", "Sigmoid", "NewGELUActivation",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Point:
    """Where one set of statistics is taken."""

    name: str
    module: nn.Module
    of_input: bool
    stats: tuple[str, ...]


def points_of(units: Sequence[Unit]) -> tuple[Point, ...]:
    """Return where activations are looked at."""
    return tuple(point for unit in units for point in _points(unit))


def _points(unit: Unit) -> Iterator[Point]:
    from torch import nn

    module, name = unit.module, unit.name
    if type(module).__name__ in FUNCTIONS:
        yield Point(name=name, module=module, of_input=False, stats=SILENCE)
    elif unit.kind == "mlp":
        yield Point(name=name, module=module, of_input=False, stats=SIZE)
        linears = [one for one in module.modules() if isinstance(one, nn.Linear)]
        if len(linears) > 1:
            yield Point(name=name, module=linears[-1], of_input=True, stats=SILENCE)
    elif unit.kind in ("attn", "embed") or (unit.kind == "other" and unit.params):
        yield Point(name=name, module=module, of_input=False, stats=(*SIZE, "act_near_zero"))


def statistics(values: Tensor, wanted: Sequence[str]) -> dict[str, Tensor]:
    """Return the statistics of activations [..., units], as scalars on their device."""
    import torch

    with torch.no_grad():
        flat = _flat(values)
        size = flat.abs()
        square = flat.square()
        mean = square.mean()
        near = size <= EPS * mean.sqrt()
        found: dict[str, Callable[[], Tensor]] = {
            "act_rms": mean.sqrt,
            "act_max": size.amax,
            "act_kurtosis": lambda: square.square().mean() / mean.square(),
            "act_near_zero": lambda: near.float().mean(),
            "act_dead": lambda: near.all(dim=0).float().mean(),
        }
        return {name: found[name]() for name in wanted}


def _flat(values: Tensor) -> Tensor:
    """Return float32 [at most ROWS tokens, units]; of images the channels are the units."""
    import torch

    found = values.detach()
    if found.dim() == 4:
        found = found.movedim(1, -1)
    flat = found.reshape(-1, found.shape[-1]) if found.dim() else found.reshape(1, 1)
    flat = flat[:: max(1, -(-len(flat) // ROWS))]
    return flat if flat.dtype == torch.float32 else flat.float()


def first_tensor(value: Any) -> Tensor | None:
    """Return the tensor that a module gave: itself, or the first of a tuple or list."""
    import torch

    if isinstance(value, (tuple, list)):
        value = next((one for one in value if isinstance(one, torch.Tensor)), None)
    is_good = isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel()
    return value if is_good else None


class Activations:
    """Takes the statistics of all points into a row, each once."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self.points = points_of(units)

    def attach(
        self,
        row: Row,
        hook: Callable[..., Any],
        seen: Callable[[str, Tensor], None] | None = None,
    ) -> list[Any]:
        """Hook every point; `hook` wraps what runs in the forward pass. Returns the handles.

        `seen` gets the name and the values of each point that has a size, for histograms.
        """
        done: set[int] = set()
        handles: list[Any] = []

        def take(point: Point, value: Any) -> None:
            found = first_tensor(value)
            if found is None or id(point) in done:
                return
            done.add(id(point))
            stats = statistics(found, point.stats)
            row.add_scalars({f"layer/{point.name}/{name}": one for name, one in stats.items()})
            if seen is not None and SIZE[0] in point.stats:
                seen(point.name, found)

        for point in self.points:
            if point.of_input:

                def before(_: Any, args: Any, point: Point = point) -> None:
                    take(point, args)

                handles.append(point.module.register_forward_pre_hook(hook(before)))
            else:

                def after(_: Any, args: Any, out: Any, point: Point = point) -> None:
                    take(point, out)

                handles.append(point.module.register_forward_hook(hook(after)))
        return handles
