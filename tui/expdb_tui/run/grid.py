"""Small plots side by side, and how many of them a size holds.

Invariant: pure; the rows are exactly as wide as asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from expdb_tui.ink import Piece, fit
from expdb_tui.marks import Marks
from expdb_tui.plotting.draw import draw
from expdb_tui.plotting.plot import Plot

GAP = 2
LEAST_ROWS = 8


def shape_of(width: int, height: int, *, most: int = 3) -> tuple[int, int]:
    """Return (down, across): 2 x 1 at 80 columns, 2 x 2 at 120, 3 x 3 at 200."""
    across = 1 if width < 100 else 2 if width < 180 else 3
    down = 3 if height >= 42 else 2 if height >= 2 * LEAST_ROWS else 1
    return min(down, most), min(across, most)


def grid_rows(
    plots: Sequence[Plot],
    shape: tuple[int, int],
    width: int,
    height: int,
    signs: Marks,
    *,
    ascii: bool,
) -> list[Sequence[Piece]]:
    """Return plots from left to right and down, all of one size; what is left over is blank."""
    down, across = shape
    one = max(1, (width - GAP * (across - 1)) // across)
    heights = [height // down + (at < height % down) for at in range(down)]
    out: list[Sequence[Piece]] = []
    for row, tall in enumerate(heights):
        drawn = [
            draw(plot, one, tall, signs, ascii=ascii)
            for plot in plots[row * across : (row + 1) * across]
        ]
        for at in range(tall):
            pieces: list[Piece] = []
            for number, rows in enumerate(drawn):
                pieces += [(" " * GAP if number else "", ""), *rows[at]]
            out.append(fit(pieces, width))
    return out


def moved_top(cursor: int, top: int, size: int, across: int) -> int:
    """Return the first plot that is shown, moved by whole rows until the cursor is in sight."""
    across = max(1, across)
    while cursor < top:
        top -= across
    while cursor >= top + size:
        top += across
    return max(0, top)
