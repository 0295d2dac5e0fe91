"""The state of every random generator that training draws from.

Invariant: what `capture` returns is plain containers and tensors:

    {"python": (version, (ints), gauss or None),
     "numpy":  {"kind": "MT19937", "keys": uint32 [624], "pos": int, "has_gauss", "gauss"},
     "torch":  uint8 [n],
     "cuda":   [uint8 [16], ...]}          one per device; empty while CUDA is not initialised

numpy is the legacy global generator; generators of your own go through `State(extra=...)`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from expdb.errors import BadInput

NAMES = ("python", "numpy", "torch", "cuda")


def capture() -> dict[str, Any]:
    """Return the state of the global generators of this process; nothing is drawn from them."""
    import numpy as np
    import torch

    kind, keys, pos, has_gauss, gauss = np.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": {
            "kind": str(kind),
            "keys": torch.from_numpy(np.array(keys, dtype=np.uint32)),
            "pos": int(pos),
            "has_gauss": int(has_gauss),
            "gauss": float(gauss),
        },
        "torch": torch.get_rng_state(),
        "cuda": _cuda_states(),
    }


def require(saved: Mapping[str, Any]) -> None:
    """Refuse what `restore` could not restore whole.

    Raises:
        BadInput: a generator is missing.
    """
    for name in NAMES:
        if name not in saved:
            raise BadInput(f"the checkpoint has no generator of {name}")


def restore(saved: Mapping[str, Any]) -> tuple[str, ...]:
    """Put the generators back and return, in plain words, what could not be restored here."""
    import numpy as np
    import torch

    version, words, gauss = saved["python"]
    random.setstate((version, tuple(words), gauss))
    state = saved["numpy"]
    keys = state["keys"].numpy()
    np.random.set_state((state["kind"], keys, state["pos"], state["has_gauss"], state["gauss"]))
    torch.set_rng_state(saved["torch"].cpu())
    cuda = saved["cuda"]
    num_devices = torch.cuda.device_count() if cuda and torch.cuda.is_available() else 0
    for device, device_state in enumerate(cuda[:num_devices]):
        torch.cuda.set_rng_state(device_state.cpu(), device)
    if len(cuda) > num_devices:
        return (f"the generators of {len(cuda)} CUDA devices were saved, {num_devices} are here",)
    return ()


def _cuda_states() -> list[Any]:
    import torch

    # Asking an uninitialised CUDA would create it; before that nothing was drawn there.
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return []
    return list(torch.cuda.get_rng_state_all())


@contextmanager
def preserved() -> Iterator[None]:
    """Leave the global generators after the block as they were before it."""
    before = capture()
    try:
        yield
    finally:
        restore(before)


def capture_generator(generator: object) -> Any | None:
    """Return the state of one torch, numpy or python generator object; None for anything else."""
    import numpy as np
    import torch

    if isinstance(generator, torch.Generator):
        return {"torch": generator.get_state()}
    if isinstance(generator, np.random.Generator):
        return {"numpy": _without_arrays(generator.bit_generator.state)}
    if isinstance(generator, random.Random):
        return {"python": generator.getstate()}
    return None


def restore_generator(generator: Any, saved: Mapping[str, Any]) -> None:
    """Put one generator object back to what `capture_generator` returned for it."""
    if "torch" in saved:
        generator.set_state(saved["torch"].cpu())
    elif "numpy" in saved:
        generator.bit_generator.state = _with_arrays(saved["numpy"])
    else:
        version, words, gauss = saved["python"]
        generator.setstate((version, tuple(words), gauss))


def _without_arrays(tree: Any) -> Any:
    """Return a bit generator's state with each array as a tensor."""
    import numpy as np
    import torch

    if isinstance(tree, dict):
        return {key: _without_arrays(value) for key, value in tree.items()}
    if isinstance(tree, np.ndarray):
        return torch.from_numpy(tree.copy())
    return int(tree) if isinstance(tree, np.integer) else tree


def _with_arrays(tree: Any) -> Any:
    """Return the inverse of `_without_arrays`."""
    import torch

    if isinstance(tree, dict):
        return {key: _with_arrays(value) for key, value in tree.items()}
    return tree.numpy() if isinstance(tree, torch.Tensor) else tree
