"""A curve in one row: its shape and nothing else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from expdb_tui.plotting.axis import value_axis
from expdb_tui.plotting.raster import Raster

HEAD_SHARE = 0.07
"""The first part of a curve is left out: its fall would flatten all that follows."""


def spark(values: NDArray[np.float64], cells: int, *, is_log: bool, ascii: bool) -> str:
    """Return a curve in `cells` cells, on a range of its own."""
    values = values[int(len(values) * HEAD_SHARE) :]
    finite = values[np.isfinite(values)]
    if is_log:
        finite = finite[finite > 0]
    if not len(finite):
        return ""
    axis = value_axis([float(finite.min())], [float(finite.max())], is_log=is_log, key="")
    raster = Raster(cells, 1, ascii=ascii)
    across, down = raster.dots
    x = np.linspace(0, across - 1, len(values)) if len(values) > 1 else np.zeros(1)
    raster.line(x, down - 1 - axis.place(values, down), "dim", ".")
    return "".join(text for text, _ in raster.rows()[0])
