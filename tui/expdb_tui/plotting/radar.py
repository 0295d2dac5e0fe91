"""A radar of scores: three to eight axes, the rim is the best there is, the centre chance.

A dot is as wide as it is high (2 x 4 of them in a cell of 1 x 2), so a circle is round as it is.

Invariant: pure; the rows are exactly as wide and as many as asked for; never scaled to the values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from expdb.text import cells, cut_middle, plain
from expdb_tui.ink import Piece, fit
from expdb_tui.marks import Marks
from expdb_tui.plotting.raster import Raster

LEAST_AXES, MOST_AXES, MOST_RUNS = 3, 8, 3
LEAST_ROWS, LEAST_CELLS = 11, 40
MARGIN: Final = 5
WIDEST_NAME: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Polygon:
    """The scores of one run, one an axis: 0 is chance, 1 the rim; None where it has none."""

    place: int
    scores: Sequence[float | None]


def fits(num_axes: int, width: int, height: int) -> bool:
    """Tell whether a radar says something at this size."""
    return LEAST_AXES <= num_axes <= MOST_AXES and width >= LEAST_CELLS and height >= LEAST_ROWS


def above_chance(score: float, chance: float) -> float:
    """Return a score as the share of the way from chance to the best."""
    return (score - chance) / (1 - chance) if chance < 1 else score


def radar_rows(
    axes: Sequence[str],
    polygons: Sequence[Polygon],
    width: int,
    height: int,
    signs: Marks,
    *,
    ascii: bool,
) -> list[list[Piece]]:
    """Return the rows of a radar; the baseline (place 0) is drawn first."""
    raster = Raster(width, height, ascii=ascii)
    across, down = raster.dots
    side = 2 * (min(WIDEST_NAME, max(map(cells, axes), default=0)) + 1)
    radius = max(4.0, min((across - 2 * side) / 2, (down - 8) / 2) - MARGIN / 2)
    middle = np.array([(across - 1) / 2, (down - 1) / 2])
    turns = np.arange(len(axes)) * 2 * math.pi / max(1, len(axes)) - math.pi / 2
    ways = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    for ring in (0.5, 1.0):
        corners = middle + ways * radius * ring
        closed = np.concatenate([corners, corners[:1]])
        raster.line(closed[:, 0], closed[:, 1], "rule2", ".", every=4)
    for way in ways:
        end = middle + way * radius
        spoke = np.stack([middle, end])
        raster.line(spoke[:, 0], spoke[:, 1], "rule", ".", every=4)
    for polygon in sorted(polygons, key=lambda one: one.place):
        _draw(polygon, raster, middle, ways, radius, signs)
    rows = raster.rows()
    for name, way in zip(axes, ways, strict=True):
        end = middle + way * (radius + 3)
        text = cut_middle(plain(name), WIDEST_NAME, signs.ellipsis)
        at = int(end[0]) // 2
        if abs(way[0]) < 0.2:
            at -= cells(text) // 2
        else:
            at += 1 if way[0] > 0 else -cells(text)
        row = int(np.clip(end[1] // 4 + (way[1] > 0.9) - (way[1] < -0.9), 0, height - 1))
        at = max(0, min(width - cells(text), at))
        rows[row] = _over(rows[row], at, text, width)
    return [fit(row, width) for row in rows]


def _draw(
    polygon: Polygon,
    raster: Raster,
    middle: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    ways: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    radius: float,
    signs: Marks,
) -> None:
    scores = np.array([math.nan if one is None else one for one in polygon.scores], np.float64)
    corners = middle + ways * (np.clip(scores, 0.0, 1.0) * radius)[:, None]
    closed = np.concatenate([corners, corners[:1]])
    role, letter = f"series{polygon.place}", signs.series[polygon.place]
    raster.line(closed[:, 0], closed[:, 1], role, letter)
    for x, y in corners[np.isfinite(corners[:, 0])].tolist():
        raster.put(int(x) // 2, int(y) // 4, letter, f"{role}+bold")


def _over(row: list[Piece], at: int, text: str, width: int) -> list[Piece]:
    """Return a row with a text laid over it."""
    left = fit(row, at, ellipsis="") if at else []
    chars = "".join(part for part, _ in row)
    roles = [role for part, role in row for _ in part]
    start = at + cells(text)
    right = [(chars[place], roles[place]) for place in range(start, min(width, len(chars)))]
    if at:
        left = [(chars[place], roles[place]) for place in range(min(at, len(chars)))]
    return [*left, (text, "dim"), *right]
