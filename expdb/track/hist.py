"""Histograms of arrays and tensors: equal bins between the smallest and the largest finite value.

Taken: float, int and bool of any width, on any device; NaN and the infinities are counted apart.
The work is done in float64 and in pieces, so that a large tensor needs little memory beside it.

Invariant: the tensor, its gradient and every random generator stay as they are; a tensor on an
accelerator is counted there, in the order of its stream, and nothing waits for it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PIECE = 1 << 22
MAX_BINS = 4096
DEFAULT_BINS = 64
FACTS = ("count", "nan", "pos_inf", "neg_inf", "min", "max", "mean", "std")
LEAST_WIDTH = 0.5
"""Half the width of the range around the one value of a constant."""


class BadArray(Exception):
    """What cannot be counted; the message says what it is."""


def flat(values: Any) -> Any:
    """Return the values as one row: a detached tensor, or a numpy array.

    Raises:
        BadArray: it is empty, or no array of real numbers.
    """
    import numpy as np

    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        return _flat_tensor(torch, values)
    try:
        found = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise BadArray(f"{type(values).__name__} of no regular shape") from error
    if found.size == 0:
        raise BadArray(f"an empty {type(values).__name__}")
    if found.dtype.kind not in "biuf":
        raise BadArray(f"{type(values).__name__} of {found.dtype}")
    return found.reshape(-1)


def _flat_tensor(torch: Any, values: Any) -> Any:
    if hasattr(values, "to_local"):
        values = values.to_local()  # of a sharded tensor: the whole of it would need all ranks
    found = values.detach()
    if found.numel() == 0:
        raise BadArray(f"an empty {type(values).__name__}")
    if found.is_complex() or found.is_quantized or found.layout != torch.strided:
        kind = f"{found.layout} " if found.layout != torch.strided else ""
        raise BadArray(f"{type(values).__name__} of {kind}{found.dtype}")
    if found.device.type == "meta":
        raise BadArray(f"{type(values).__name__} without a value")
    found = found.reshape(-1)
    return found if found.device.type in ("cpu", "cuda") else found.cpu()


def on_host(values: Any, bins: int) -> dict[str, Any]:
    """Return the histogram of what `flat` returned, counted here: the fields of a stored one."""
    import numpy as np

    count = nan = pos_inf = neg_inf = 0
    low, high, total = math.inf, -math.inf, 0.0
    for piece in _pieces(values):
        finite = piece[np.isfinite(piece)]
        nan += int(np.isnan(piece).sum())
        pos_inf += int(np.isposinf(piece).sum())
        neg_inf += int(np.isneginf(piece).sum())
        if len(finite):
            count += len(finite)
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
            with np.errstate(over="ignore"):
                total += float(finite.sum())
    facts = [count, nan, pos_inf, neg_inf]
    if not count:
        return fields_of([*facts, low, high, 0.0, 0.0], [], [])
    with np.errstate(over="ignore", invalid="ignore"):
        mean, squares = total / count, 0.0
        edges = _edges(np, low, high, np.linspace(0.0, 1.0, bins + 1))
        counts = np.zeros(bins, np.int64)
        for piece in _pieces(values):
            finite = piece[np.isfinite(piece)]
            squares += float(np.square(finite - mean).sum())
            place = np.searchsorted(edges, finite, side="right") - 1
            counts += np.bincount(np.clip(place, 0, bins - 1), minlength=bins)
    std = math.sqrt(squares / count)
    return fields_of([*facts, low, high, mean, std], edges.tolist(), counts.tolist())


def _pieces(values: Any) -> Iterator[NDArray[np.float64]]:
    import numpy as np

    for start in range(0, len(values), PIECE):
        piece = values[start : start + PIECE]
        if isinstance(piece, np.ndarray):
            yield piece.astype(np.float64)
        else:
            yield piece.double().numpy()


def _edges(library: Any, low: Any, high: Any, places: Any) -> Any:
    """Return the borders of the bins; they never fall, and no range overflows."""
    pad = (LEAST_WIDTH + abs(low) * 2.0**-40) * (low == high)
    left, right = low - pad, high + pad
    inner = (left / 2.0 + (right / 2.0 - left / 2.0) * places) * 2.0
    return library.where((places < 1.0) & (inner < right), inner, right)


def on_device(values: Any, bins: int) -> Any:
    """Return a float64 row on the tensor's own device, which `from_row` turns into fields.

    Sorting and searching stand for a count by index: they are exact, the same in each run, and need
    no answer from the device.
    """
    import torch

    inf = math.inf
    with torch.no_grad():
        pieces = [values[at : at + PIECE] for at in range(0, len(values), PIECE)]
        zero = torch.zeros((), dtype=torch.float64, device=values.device)
        low, high, total = zero + inf, zero - inf, zero
        count, nan, pos_inf, neg_inf = zero, zero, zero, zero
        for piece in pieces:
            real = piece.double()
            finite = torch.isfinite(real)
            count = count + finite.sum()
            nan = nan + torch.isnan(real).sum()
            pos_inf, neg_inf = pos_inf + (real == inf).sum(), neg_inf + (real == -inf).sum()
            low = torch.minimum(low, torch.where(finite, real, inf).min())
            high = torch.maximum(high, torch.where(finite, real, -inf).max())
            total = total + torch.where(finite, real, 0.0).sum()
        mean, squares = total / count, zero
        places = torch.linspace(0.0, 1.0, bins + 1, dtype=torch.float64, device=values.device)
        edges = _edges(torch, low, high, places)
        counts = torch.zeros(bins, dtype=torch.float64, device=values.device)
        for piece in pieces:
            real = piece.double()
            finite = torch.isfinite(real)
            squares = squares + torch.where(finite, real - mean, 0.0).square().sum()
            ordered = torch.sort(torch.where(finite, real, inf)).values
            below = torch.searchsorted(ordered, edges)
            below[-1] = finite.sum()
            counts = counts + below.diff()
        std = (squares / count).sqrt()
        facts = torch.stack([count, nan, pos_inf, neg_inf, low, high, mean, std])
        return torch.cat([facts, edges, counts])


def from_row(row: list[float]) -> dict[str, Any]:
    """Return the fields of a stored histogram from what `on_device` counted."""
    num = len(FACTS)
    bins = (len(row) - num - 1) // 2
    edges, counts = row[num : num + bins + 1], row[num + bins + 1 :]
    return fields_of(row[:num], edges, [int(value) for value in counts])


def fields_of(facts: list[Any], edges: list[float], counts: list[int]) -> dict[str, Any]:
    """Return the stored fields; None stands for what is not defined, or is beyond float64."""
    count, nan, pos_inf, neg_inf = (int(value) for value in facts[:4])
    reals = [float(value) for value in facts[4:]]
    known = [value if count and math.isfinite(value) else None for value in reals]
    return {
        **dict(zip(FACTS, [count, nan, pos_inf, neg_inf, *known], strict=True)),
        "edges": edges if count else [],
        "counts": counts if count else [],
    }
