"""The layers of a model: units with a name, a kind, and parameters that no other unit has.

A module's kind, the first that is known of: its attribute `monitor_kind`; its type; the name of its
class; its own name. A module of a kind is one unit with everything inside it, but that a mixture of
experts is opened: its routed experts are one unit, the rest are others. What lies in no unit is one
of kind `other`, module by module.

Invariant: each parameter is in exactly one unit (a tied head is in the embedding's), so the root of
the sum of the squared norms of the units is the norm of the whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torch import Tensor, nn

KINDS: Final = ("embed", "attn", "mlp", "expert", "norm", "head", "other")
ROOT: Final = "model"
"""Stands for the model itself where it has parameters of its own."""
CLASSES: Final = (
    ("norm", re.compile(r"norm", re.I)),
    ("expert", re.compile(r"experts?($|[A-Z_])|Expert", re.ASCII)),
    ("attn", re.compile(r"attention|attn", re.I)),
    ("mlp", re.compile(r"mlp|ffn|feed_?forward|swiglu|sparsemoe|mixture|moe", re.I)),
)
NAMES: Final = (
    ("norm", re.compile(r"(.*_)?(norm|ln|layernorm)_?\w{0,2}")),
    ("expert", re.compile(r"(routed_)?experts?")),
    ("head", re.compile(r"(lm_?|output_?|cls_?)?head|output|unembed(ding)?|classifier")),
    ("embed", re.compile(r".*embed(ding)?s?.*|wte|wpe")),
    ("attn", re.compile(r".*(attn|attention).*|qkv|[qkvo]_proj|w[qkvo]|c_attn")),
    (
        "mlp",
        re.compile(
            r".*(mlp|ffn|feed_?forward).*|(up|down|gate)_proj|c_fc|fc\d*|linear\d+|w[123]"
        ),
    ),
)  # fmt: skip
HOLDS: Final = {"mlp": ("attn", "embed"), "attn": ("mlp", "embed"), "embed": ("attn", "mlp")}
"""What is named as one of these and has such parts is no layer but a stack of them."""
ROUTER: Final = re.compile(r"router|gate|gating|.*router.*")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unit:
    """One layer."""

    name: str
    kind: str
    module: nn.Module
    params: tuple[tuple[str, Tensor], ...]
    """(name in the model, parameter): those that need a gradient."""


def units_of(model: nn.Module) -> tuple[Unit, ...]:
    """Return the layers of a model, in its own order; those without parameters too."""
    taken: set[int] = set()
    out = []
    for name, kind, module, whole in _walk(model, "", None):
        found = module.named_parameters() if whole else module.named_parameters(recurse=False)
        mine = []
        for key, param in found:
            if id(param) not in taken and param.requires_grad:
                taken.add(id(param))
                mine.append((f"{name}.{key}" if name else key, param))
        if whole or mine:
            unit = Unit(name=name or ROOT, kind=kind, module=module, params=tuple(mine))
            out.append(unit)
    return tuple(out)


def has_routing(module: nn.Module) -> bool:
    """Tell whether a module speaks the protocol of routers (see expdb.track.watch.routing)."""
    return callable(getattr(module, "monitor_routing", None))


def is_compiled(model: nn.Module) -> bool:
    """Tell whether torch.compile runs a model or a module in it: hooks there would recompile it."""
    return any(
        hasattr(one, "_orig_mod") or getattr(one, "_compiled_call_impl", None) is not None
        for one in model.modules()
    )


def kind_of(name: str, module: nn.Module) -> str | None:
    """Return the kind of a module by its own name (the last part of its path); None if unknown."""
    from torch import nn

    said = getattr(module, "monitor_kind", None)
    if said in KINDS:
        return str(said)
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return "embed"
    if isinstance(module, nn.modules.batchnorm._NormBase):
        return "norm"
    if not isinstance(module, (nn.ModuleList, nn.ModuleDict)):
        for kind, pattern in CLASSES:
            if pattern.search(type(module).__name__):
                return kind
    is_identity = isinstance(module, (nn.Identity, nn.Dropout))
    for kind, pattern in () if is_identity else NAMES:
        if pattern.fullmatch(name):
            return kind
    return None


def _walk(
    module: nn.Module, path: str, inside: str | None
) -> Iterator[tuple[str, str, nn.Module, bool]]:
    """Yield (path, kind, module, whether all inside belongs to it)."""
    yield path, inside or "other", module, False
    for name, child in module.named_children():
        where = f"{path}.{name}" if path else name
        kind = kind_of(name, child)
        if kind is None and (has_routing(child) or (inside and ROUTER.fullmatch(name))):
            yield where, "other", child, True
        elif _is_mixture(child):
            yield from _walk(child, where, "mlp")
        elif kind in HOLDS and _holds(child, HOLDS[kind]):
            yield from _walk(child, where, inside)
        elif kind is not None:
            yield where, kind, child, True
        elif inside is not None:
            yield where, inside, child, True
        elif _is_leaf(child):
            yield where, "other", child, True
        else:
            yield from _walk(child, where, None)


def _is_leaf(module: nn.Module) -> bool:
    return next(module.children(), None) is None


def _holds(module: nn.Module, kinds: tuple[str, ...]) -> bool:
    """Tell whether something inside a module is of a kind that its own kind has no room for."""
    return any(
        kind_of(path.rpartition(".")[2], one) in kinds
        for path, one in module.named_modules()
        if one is not module
    )


def _is_mixture(module: nn.Module) -> bool:
    """Tell whether routed experts are children of a module, by name or by the router's protocol."""
    children: Mapping[str, Any] = dict(module.named_children())
    return (
        any(kind_of(name, one) == "expert" or has_routing(one) for name, one in children.items())
        and kind_of("", module) != "expert"
    )
