"""Histograms over fixed, log-spaced edges, so that those of two times or ranks can be added.

The edges are +-2^k for k from LOW to HIGH: what lies between the two innermost is one bin around 0,
and what lies beyond the outermost is in the outermost bins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from expdb.track import hist

if TYPE_CHECKING:
    from torch import Tensor

LOW: Final = -24
HIGH: Final = 16
POSITIVE: Final = tuple(2.0**k for k in range(LOW, HIGH + 1))
EDGES: Final = (*(-one for one in reversed(POSITIVE)), *POSITIVE)


def counted(values: Tensor) -> Tensor:
    """Return counts and facts of a tensor as a float64 row on its device: `fields` reads it."""
    import torch

    with torch.no_grad():
        flat = values.detach().reshape(-1).double()
        finite = torch.isfinite(flat)
        real = torch.where(finite, flat, 0.0)
        num = finite.sum()
        mean = real.sum() / num
        facts = [
            num, torch.isnan(flat).sum(), (flat == torch.inf).sum(), (flat == -torch.inf).sum(),
            torch.where(finite, flat, torch.inf).min(), torch.where(finite, flat, -torch.inf).max(),
            mean, (torch.where(finite, flat - mean, 0.0).square().sum() / num).sqrt(),
        ]  # fmt: skip
        edges = torch.tensor(EDGES[1:-1], dtype=torch.float64).to(flat.device, non_blocking=True)
        ordered = torch.sort(torch.where(finite, flat, torch.inf)).values
        below = torch.searchsorted(ordered, edges)
        ends = torch.stack([torch.zeros_like(num), num])
        counts = torch.cat([ends[:1], below.clamp(max=num), ends[1:]]).diff()
        return torch.cat([torch.stack([one.double() for one in facts]), counts.double()])


def counts_of(row: list[float]) -> list[int]:
    """Return the counts of a row; those of two rows over the same edges may be added."""
    return [int(one) for one in row[len(hist.FACTS) :]]


def fields(row: list[float]) -> dict[str, Any]:
    """Return the fields of a stored histogram."""
    return hist.fields_of(row[: len(hist.FACTS)], list(EDGES), counts_of(row))
