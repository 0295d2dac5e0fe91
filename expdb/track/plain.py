"""Plain trees: the only kind of value that goes into a checkpoint.

Invariant: a tree that `plain` returns is read by `torch.load(weights_only=True)`; it holds None,
bool, int, float, complex, str, bytes, list, tuple, set, dict, OrderedDict, torch's dtype, device
and Size, and tensors.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

from expdb.errors import BadInput

MAX_INT_BITS = 2000
"""Longer ones use a pickle opcode that the restricted reader lacks."""


def plain(value: Any, path: str) -> Any:
    """Return `value` as plain containers and detached tensors that share its memory.

    Raises:
        BadInput: `torch.load(weights_only=True)` could not read it; it names path and type.
    """
    return _plain(value, path, ())


def digest_of(tree: Any) -> str:
    """Return the SHA-256 of a plain tree: paths, types, shapes, bytes, ordered by path."""
    whole = hashlib.sha256()
    for path, kind, data in sorted(_leaves(tree, "")):
        whole.update(f"{path}\0{kind}\0{len(data)}\0".encode("utf-8", "surrogatepass"))
        whole.update(data)
    return whole.hexdigest()


def _plain(value: Any, path: str, above: tuple[int, ...]) -> Any:
    import torch

    kind = type(value)
    torch_values = (torch.dtype, torch.device, torch.Size)
    if value is None or kind in (bool, float, complex, str, bytes, *torch_values):
        return value
    if kind is int and value.bit_length() <= MAX_INT_BITS:
        return value
    if kind in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return value.detach()
    if id(value) in above:
        raise BadInput(f"the state cannot be saved: `{path}` contains itself")
    inside = (*above, id(value))
    if kind in (list, tuple):
        return kind(_plain(item, f"{path}[{index}]", inside) for index, item in enumerate(value))
    if kind is set:
        return {_plain(item, f"{path}{{}}", inside) for item in value}
    if kind in (dict, OrderedDict):
        made: Any = kind()
        for key, item in value.items():
            made_key = _plain(key, f"the key {key!r} of {path}", inside)
            made[made_key] = _plain(item, _step(path, key), inside)
        # A module's state_dict carries its version here; load_state_dict reads it.
        if hasattr(value, "_metadata"):
            made._metadata = _plain(value._metadata, f"{path}._metadata", inside)
        return made
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    raise BadInput(
        f"the state cannot be saved: `{path}` is a {module}{kind.__qualname__},"
        " which torch.load(weights_only=True) does not read",
        hint="give plain data or tensors: float(x), x.tolist(), torch.from_numpy(x)",
    )


def _step(path: str, key: Any) -> str:
    return f"{path}.{key}" if isinstance(key, str) else f"{path}[{key!r}]"


def _leaves(tree: Any, path: str) -> list[tuple[str, str, bytes]]:
    import torch

    if isinstance(tree, dict):
        return [leaf for key, item in tree.items() for leaf in _leaves(item, f"{path}/{key!r}")]
    if isinstance(tree, (list, tuple)):
        numbered = enumerate(tree)
        return [leaf for index, item in numbered for leaf in _leaves(item, f"{path}/{index}")]
    if isinstance(tree, torch.Tensor):
        flat = tree.detach().cpu().contiguous().reshape(-1)
        data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
        return [(path, f"{tree.dtype} {tuple(tree.shape)}", data)]
    return [(path, type(tree).__name__, repr(tree).encode("utf-8", "surrogatepass"))]
