"""Embeddings: collapse, rank, drift, dead rows, of up to ROWS evenly spaced rows.

emb_cosine     mean cosine of two rows: (|sum e^|^2 - n) / (n (n - 1))
emb_rank       effective rank: exp of the entropy of the singular values' shares
emb_drift      |E_t - E_before| / |E_t|, since the last look; the first look has none
emb_dead_rows  rows, scaled to the whole table, with a norm under 1 % of the median's
"""

from __future__ import annotations

import statistics as plain
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from expdb.monitor import formulas

if TYPE_CHECKING:
    from torch import Tensor

    from expdb.track.watch.units import Unit

ROWS: Final = 1024


def tables_of(units: Sequence[Unit]) -> dict[str, Tensor]:
    """Return unit name -> embedding table, of the units of kind embed."""
    return {
        unit.name: param
        for unit in units
        if unit.kind == "embed"
        for _, param in unit.params[:1]
        if param.dim() == 2 and not hasattr(param, "to_local")
    }


def rows_of(table: Tensor) -> Tensor:
    """Return a copy of the rows that stand for a table, on its device."""
    return table.detach()[:: max(1, -(-len(table) // ROWS))].float().clone()


def statistics(rows: Any, before: Any | None = None, *, of: int | None = None) -> dict[str, float]:
    """Return the statistics of rows [n, width] on the host; `of` is the table's number of rows."""
    import torch

    with torch.no_grad():
        wide = rows.double()
        num = len(wide)
        norms = wide.norm(dim=1)
        found = {}
        unit = wide[norms > 0] / norms[norms > 0, None]
        if len(unit) > 1:
            n = len(unit)
            found["emb_cosine"] = (float(unit.sum(0).square().sum()) - n) / (n * (n - 1))
        # The smaller Gram matrix has the squares of the singular values; in float64 its error is
        # under 1e-7 of the largest.
        gram = wide @ wide.T if num < wide.shape[1] else wide.T @ wide
        if bool(torch.isfinite(gram).all()):
            values = torch.linalg.eigvalsh(gram).clamp(min=0)
            values = torch.where(values > 1e-13 * values.max(), values, 0.0).sqrt()
            rank = formulas.effective_rank(values.tolist())
            if rank == rank:
                found["emb_rank"] = rank
        middle = plain.median(norms.tolist())
        dead = int((norms < formulas.DEAD_SHARE * middle).sum())
        found["emb_dead_rows"] = float(round(dead * (of or num) / num))
        if before is not None and float(wide.norm()) > 0:
            found["emb_drift"] = float((wide - before.double()).norm() / wide.norm())
        return found


class Embeddings:
    """The embedding tables of a model from look to look."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self.tables = tables_of(units)
        self._before: dict[str, Any] = {}

    def rows(self) -> dict[str, Any]:
        """Return the rows of all tables as they are now."""
        return {name: rows_of(table) for name, table in self.tables.items()}

    def measured(self, rows: Mapping[str, Any]) -> dict[str, float]:
        """Return the statistics of rows that are on the host now, and keep those for the drift."""
        out = {}
        for name, found in rows.items():
            before = self._before.get(name)
            for stat, value in statistics(found, before, of=len(self.tables[name])).items():
                out[f"layer/{name}/{stat}"] = value
            self._before[name] = found
        return out
