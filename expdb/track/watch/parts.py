"""The parts of the models under watch, found once: layers, points, routers, tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from expdb.monitor.formulas import NoiseScale
from expdb.track.watch import tokens
from expdb.track.watch.activations import Activations, first_tensor
from expdb.track.watch.attention import Attention
from expdb.track.watch.embeddings import Embeddings
from expdb.track.watch.norms import Norms
from expdb.track.watch.routing import Routing
from expdb.track.watch.system import System
from expdb.track.watch.units import is_compiled, units_of

if TYPE_CHECKING:
    from torch import nn

    from expdb.track.watch.first import First
    from expdb.track.watch.options import Options
    from expdb.track.watch.row import Row


class Seeing(Protocol):
    """What hooks have to know of the sample that they fill."""

    row: Row
    has_logits: bool
    first: First | None

    def histograms(self) -> Any:
        """Return what counts activations; None where nothing does."""

    def pictures(self) -> Any:
        """Return what takes pictures of attention; None where nothing does."""


class Parts:
    """What of the models is looked at; `say` gets what cannot be."""

    def __init__(
        self, models: Mapping[str, nn.Module], options: Options, *, say: Callable[[str], None]
    ) -> None:
        from expdb.track.state import unwrap

        bare = {name: unwrap(one) for name, one in models.items()}
        self.units = tuple(
            replace(unit, name=f"{name}.{unit.name}" if name else unit.name)
            for name, one in bare.items()
            for unit in units_of(one)
        )
        self.models = list(bare.values())
        self.params = [param for one in self.models for param in one.parameters()]
        devices = {param.device for param in self.params}
        self.device = next((one for one in devices if one.type == "cuda"), min(devices, key=str))
        self.sees_forward = not any(is_compiled(one) for one in models.values())
        if not self.sees_forward:
            say("watch: a compiled model is not hooked: norms only, no activations")
        if any(hasattr(param, "to_local") for param in self.params):
            say("watch: sharded parameters have no norms by layer")
        kinds = options.kinds
        self.norms = Norms(self.units) if "norms" in kinds else None
        self.activations = Activations(self.units) if "activations" in kinds else None
        self.attention = Attention(self.units) if "attention" in kinds else None
        self.routing = [Routing(one) for one in self.models] if "moe" in kinds else []
        self.embeddings = Embeddings(self.units) if "embeddings" in kinds else None
        self.noise = NoiseScale()
        self.system = System(self.device)
        self.heads = [one for one in self.units if one.kind == "head"] if "tokens" in kinds else []

    def drop(self, kind: str) -> None:
        """Look no more at what a model has of a kind."""
        match kind:
            case "activations":
                self.activations = None
            case "attention":
                self.attention = None
            case "moe":
                self.routing = []
            case "tokens":
                self.heads = []

    def attach(self, sample: Seeing, hook: Callable[..., Any]) -> list[Any]:
        """Hook what a sample wants to see of the forward passes; returns the handles."""
        if not self.sees_forward:
            return []
        handles: list[Any] = []
        if self.activations is not None:
            mine = partial(hook, "activations")
            handles += self.activations.attach(sample.row, mine, sample.histograms())
        if self.attention is not None:
            mine = partial(hook, "attention")
            handles += self.attention.attach(sample.row, mine, sample.pictures())
        if sample.first is not None:
            handles += sample.first.attach(self.models, hook)
        for one in self.routing:
            handles += one.attach(partial(hook, "moe"))
        for unit in self.heads:
            after = hook("tokens", partial(_logits, sample))
            handles.append(unit.module.register_forward_hook(after))
        return handles


def _logits(sample: Seeing, module: Any, args: Any, out: Any) -> None:
    found = first_tensor(out)
    if found is not None and not sample.has_logits:
        sample.has_logits = True
        sample.row.add_scalars(tokens.log_z(found))
