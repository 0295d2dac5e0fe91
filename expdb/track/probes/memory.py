"""What a training holds in memory: counted by category, and the peak that was measured.

    parameters    weights and buffers
    gradients     as they stand before the optimizer's step
    optimizer     what the optimizers keep, after their first step
    activations   storages that autograd keeps for the backward pass of one micro-batch, each once
    peak          of CUDA's allocator; on a CPU the largest resident size of the process, libraries
                  and all

Invariant: categories are the bytes of tensors, not estimates.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from expdb.track.probes.seen import Probed
from expdb.track.update import Update

if TYPE_CHECKING:
    from torch import Tensor

WARM_UP = 2
"""The first update makes the optimizer's state; the second is the first whole one."""


class Looked(Update):
    """An update that counts what its backward pass needs, and the gradients it leaves."""

    activation_bytes = 0
    gradient_bytes = 0

    def __iter__(self) -> Iterator[Any]:
        """Yield the micro-batches; what autograd keeps of each is counted."""
        from torch.autograd.graph import saved_tensors_hooks

        own = {_storage(one) for one in _weights(self._engine)}
        for batch in super().__iter__():
            kept: dict[Any, int] = {}

            def keep(tensor: Tensor, kept: dict[Any, int] = kept) -> Tensor:
                place = _storage(tensor)
                if place not in own:
                    kept[place] = tensor.untyped_storage().nbytes()
                return tensor.detach()

            with saved_tensors_hooks(keep, lambda tensor: tensor):
                yield batch
            self.activation_bytes = max(self.activation_bytes, sum(kept.values()))

    def step(self) -> None:
        """Count the gradients, then finish the update."""
        grads = [one.grad for one in self._engine.parameters()]
        self.gradient_bytes = _bytes(grads)
        super().step()


def measure(probed: Probed, task: Mapping[str, Any]) -> Generator[Update, None, dict[str, Any]]:
    """Yield updates, and return bytes by category with the peak."""
    engine = probed.engine
    del task
    for _ in range(WARM_UP):
        yield from probed.update()
    probed.sync()
    _reset_peak(engine.device)
    yield from probed.update()
    probed.sync()
    peak = _peak(engine.device)
    looked: list[Looked] = []

    class _Kept(Looked):
        def __init__(self, *words: Any) -> None:
            super().__init__(*words)
            looked.append(self)

    yield from probed.update(_Kept)
    models = list(engine.state.models.values())
    params = {id(one): one for model in models for one in model.parameters()}.values()
    buffers = {id(one): one for model in models for one in model.buffers()}.values()
    return {
        "num_params": sum(one.numel() for one in params),
        "num_trained": sum(one.numel() for one in params if one.requires_grad),
        "dtypes": _by_dtype(params),
        "precision": _precision(engine),
        "optimizers": [_about(one) for one in engine.state.optims.values()],
        "parameters": _bytes(params),
        "buffers": _bytes(buffers),
        "gradients": looked[0].gradient_bytes,
        "optimizer": _bytes(_kept_by(engine.state.optims.values())),
        "ema": _bytes(t for one in engine.state.emas.values() for t in _tensors(one.state_dict())),
        "activations": looked[0].activation_bytes,
        **peak,
    }


def _weights(engine: Any) -> list[Any]:
    return [
        one
        for model in engine.state.models.values()
        for one in (*model.parameters(), *model.buffers())
    ]


def _storage(tensor: Tensor) -> tuple[str, int]:
    return str(tensor.device), tensor.untyped_storage().data_ptr()


def _bytes(tensors: Any) -> int:
    """Return the bytes of tensors; those that share a storage count once."""
    return sum({_storage(one): one.untyped_storage().nbytes() for one in tensors}.values())


def _tensors(tree: Any) -> Iterator[Any]:
    import torch

    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, Mapping):
        for item in tree.values():
            yield from _tensors(item)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from _tensors(item)


def _kept_by(optims: Any) -> Iterator[Any]:
    for one in optims:
        yield from _tensors(dict(one.state_dict()).get("state", {}))


def _by_dtype(params: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in params:
        name = str(one.dtype).removeprefix("torch.")
        found[name] = found.get(name, 0) + one.numel()
    return found


def _precision(engine: Any) -> str:
    dtype = engine.dtype
    return "fp32" if dtype is None else f"{str(dtype).removeprefix('torch.')} autocast"


def _about(optim: Any) -> dict[str, Any]:
    group = optim.param_groups[0]
    return {
        "name": type(optim).__name__,
        "momentum": float(group.get("momentum", 0) or 0),
        "amsgrad": bool(group.get("amsgrad", False)),
        "num_params": sum(one.numel() for each in optim.param_groups for one in each["params"]),
    }


def _reset_peak(device: Any) -> None:
    if device.type == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats(device)


def _peak(device: Any) -> dict[str, Any]:
    if device.type != "cuda":
        return {"peak": _resident_peak(), "reserved": None, "device_bytes": None, "retries": None}
    import torch

    stats = torch.cuda.memory_stats(device)
    return {
        "peak": int(stats["allocated_bytes.all.peak"]),
        "reserved": int(stats["reserved_bytes.all.peak"]),
        "retries": int(stats["num_alloc_retries"]),
        "device_bytes": int(torch.cuda.get_device_properties(device).total_memory),
    }


def _resident_peak() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
