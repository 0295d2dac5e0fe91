"""Memory by category, and model FLOPs: what the device holds and how much of it works.

Invariant: only counters that the allocator and the system keep anyway are read.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torch import nn

STATS: Final = {
    "sys/memory_peak_bytes": "allocated_bytes.all.peak",
    "sys/memory_allocated_bytes": "allocated_bytes.all.current",
    "sys/memory_reserved_bytes": "reserved_bytes.all.current",
    "sys/memory_reserved_peak_bytes": "reserved_bytes.all.peak",
    "sys/memory_retries": "num_alloc_retries",
    "sys/memory_ooms": "num_ooms",
}
PEAKS: Final = {
    "H200": 989e12, "H100": 989e12, "H800": 989e12, "A100": 312e12, "A800": 312e12,
    "L40S": 362e12, "L4": 121e12, "A10G": 70e12, "4090": 165e12, "V100": 125e12, "T4": 65e12,
}  # fmt: skip
"""Dense bf16 (fp16 where there is none) FLOPs a second, from the makers' data sheets."""


def memory(device: Any) -> dict[str, float]:
    """Return memory of the device where training is: of a GPU, else of this process."""
    import torch

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if device.type == "cuda":
        stats = torch.cuda.memory_stats(device)
        found = {key: float(stats.get(name, 0)) for key, name in STATS.items()}
        total = torch.cuda.get_device_properties(device).total_memory
        return found | {"sys/memory_device_bytes": float(total)}
    peak_bytes = float(peak if sys.platform == "darwin" else peak * 1024)
    return {"sys/memory_peak_bytes": peak_bytes}


def categories(params: Iterable[Any], optims: Iterable[Any]) -> dict[str, float]:
    """Return the bytes of weights, of their gradients, and of what the optimizers keep."""
    import torch

    weights = list(params)
    kept = [
        value
        for optim in optims
        for state in getattr(optim, "state", {}).values()
        if isinstance(state, dict)
        for value in state.values()
        if isinstance(value, torch.Tensor)
    ]
    return {
        "sys/memory_params_bytes": float(sum(one.nbytes for one in weights)),
        "sys/memory_grads_bytes": float(
            sum(one.grad.nbytes for one in weights if one.grad is not None)
        ),
        "sys/memory_optimizer_bytes": float(sum(one.nbytes for one in kept)),
    }


def peak_flops(device: Any) -> float:
    """Return the peak of a known GPU; 0 where it is not known."""
    import torch

    if device.type != "cuda":
        return 0.0
    name = torch.cuda.get_device_name(device)
    return next((peak for word, peak in PEAKS.items() if word in name), 0.0)


def flops_per_token(model: nn.Module, *, channels: int, length: int) -> float:
    """Return the FLOPs of forward and backward a token: 6 N + 12 channels length.

    N counts the weights of matrices but embedding lookups, of routed experts those a token goes
    through (`monitor_active`, a share that a mixture may have). `channels` are heads times channels
    of all attention layers, `length` the positions of a sequence. No recomputation is counted.
    """
    from torch import nn

    lookups = {
        id(param)
        for one in model.modules()
        if isinstance(one, (nn.Embedding, nn.EmbeddingBag))
        for param in one.parameters(recurse=False)
    }
    heads = {id(one.weight) for one in model.modules() if isinstance(one, nn.Linear)}
    active: dict[int, float] = {}
    for one in model.modules():
        share = getattr(one, "monitor_active", None)
        if share is not None:
            active |= {id(param): float(share) for param in one.parameters()}
    num = sum(
        param.numel() * active.get(id(param), 1.0)
        for param in model.parameters()
        if param.dim() >= 2 and (id(param) not in lookups or id(param) in heads)
    )
    return 6.0 * num + 12.0 * channels * length
