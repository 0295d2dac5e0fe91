"""A grid of dots, 2 x 4 a cell, that becomes braille: lines, tints, marks.

Invariant: lines that share a cell keep their dots, and the later one gives the colour; a tint gives
way to every line. With ASCII a cell is one letter.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from expdb_tui.ink import Piece

BITS: Final = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.int32)
BRAILLE: Final = 0x2800
NOBODY: Final = -1


class Raster:
    """A grid of `width` x `height` cells; a dot is (x, y) from the left and from the top."""

    def __init__(self, width: int, height: int, *, ascii: bool = False) -> None:
        self.width, self.height = max(1, width), max(1, height)
        self._ascii = ascii
        self._lines = np.zeros((self.height * 4, self.width * 2), bool)
        self._tints = np.zeros_like(self._lines)
        self._line_role = np.full((self.height, self.width), NOBODY, np.int16)
        self._tint_role = np.full((self.height, self.width), NOBODY, np.int16)
        self._roles: list[str] = []
        self._letters: list[str] = []
        self._over: dict[tuple[int, int], Piece] = {}

    @property
    def dots(self) -> tuple[int, int]:
        """How many dots there are across and down."""
        return self.width * 2, self.height * 4

    def _role(self, role: str, letter: str) -> int:
        self._roles.append(role)
        self._letters.append(letter)
        return len(self._roles) - 1

    def line(
        self, x: NDArray[np.float64], y: NDArray[np.float64], role: str, letter: str = "*"
    ) -> None:
        """Draw straight lines from point to point; a NaN in `y` breaks them."""
        if not len(x):
            return
        finite = np.isfinite(x) & np.isfinite(y)
        self._set(*_between(x, y, finite), role, letter)
        alone = finite & ~np.append(finite[1:], False) & ~np.insert(finite[:-1], 0, False)
        self._set(x[alone], y[alone], role, letter)

    def points(
        self, x: NDArray[np.float64], y: NDArray[np.float64], role: str, letter: str = "*"
    ) -> None:
        """Draw a block of 2 x 2 dots at each point."""
        finite = np.isfinite(x) & np.isfinite(y)
        x, y = np.floor(x[finite]), np.floor(y[finite])
        for right in (0, 1):
            for down in (0, 1):
                self._set(x + right, y + down, role, letter)

    def _set(self, x: NDArray[np.float64], y: NDArray[np.float64], role: str, letter: str) -> None:
        column, row = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
        inside = (column >= 0) & (column < self.width * 2) & (row >= 0) & (row < self.height * 4)
        column, row = column[inside], row[inside]
        self._lines[row, column] = True
        self._line_role[row // 4, column // 2] = self._role(role, letter)

    def tint(
        self,
        x: NDArray[np.float64],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        role: str,
    ) -> None:
        """Fill between two heights (`low` is nearer the foot) at columns of dots, as every other
        dot.
        """
        across, down = self.dots
        number = self._role(role, ":")
        finite = np.isfinite(x) & np.isfinite(low) & np.isfinite(high)
        rows = np.arange(down)
        for at in np.flatnonzero(finite):
            column = int(x[at])
            if not 0 <= column < across:
                continue
            chosen = rows[(rows >= np.floor(high[at])) & (rows <= np.floor(low[at]))]
            chosen = chosen[(chosen + column) % 2 == 0]
            self._tints[chosen, column] = True
            self._tint_role[chosen // 4, column // 2] = number

    def put(self, cell: int, row: int, text: str, role: str) -> None:
        """Put one sign into a cell, over what is drawn there."""
        if 0 <= cell < self.width and 0 <= row < self.height:
            self._over[row, cell] = (text, role)

    def has_line(self, cell: int, row: int) -> bool:
        """Tell whether a line passes a cell."""
        inside = 0 <= cell < self.width and 0 <= row < self.height
        return inside and bool(self._line_role[row, cell] != NOBODY)

    def rows(self, ground: dict[tuple[int, int], Piece] | None = None) -> list[list[Piece]]:
        """Return the rows; `ground` is what stands in cells that nothing is drawn in."""
        behind = ground or {}
        line_codes = self._codes(self._lines)
        tint_codes = self._codes(self._tints)
        out: list[list[Piece]] = []
        for row in range(self.height):
            pieces: list[Piece] = []
            for cell in range(self.width):
                pieces.append(self._piece(row, cell, line_codes, tint_codes, behind))
            out.append(_joined(pieces))
        return out

    def _piece(
        self,
        row: int,
        cell: int,
        line_codes: NDArray[np.int32],
        tint_codes: NDArray[np.int32],
        behind: dict[tuple[int, int], Piece],
    ) -> Piece:
        over = self._over.get((row, cell))
        if over is not None:
            return over
        number = int(self._line_role[row, cell])
        code = int(line_codes[row, cell])
        if number == NOBODY:
            number, code = int(self._tint_role[row, cell]), int(tint_codes[row, cell])
        if number == NOBODY or not code:
            return behind.get((row, cell), (" ", ""))
        return (self._letters[number] if self._ascii else chr(BRAILLE + code)), self._roles[number]

    def _codes(self, grid: NDArray[np.bool_]) -> NDArray[np.int32]:
        cells = grid.reshape(self.height, 4, self.width, 2)
        found: NDArray[np.int32] = np.einsum("hrwc,rc->hw", cells.astype(np.int32), BITS)
        return found


def _between(
    x: NDArray[np.float64], y: NDArray[np.float64], finite: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the dots of all lines from one point to the next."""
    both = np.flatnonzero(finite[:-1] & finite[1:])
    if not len(both):
        return x[:0], y[:0]
    # What is far outside is cut before steps are counted: a spike of 1e300 is one line as well.
    limit = 1e5
    x, y = np.clip(x, -limit, limit), np.clip(y, -limit, limit)
    x0, y0, x1, y1 = x[both], y[both], x[both + 1], y[both + 1]
    steps = np.maximum(np.abs(x1 - x0), np.abs(y1 - y0)).astype(np.int64) + 2
    segment = np.repeat(np.arange(len(both)), steps)
    first = np.cumsum(steps) - steps
    share = (np.arange(int(steps.sum())) - first[segment]) / (steps[segment] - 1)
    return (
        x0[segment] + (x1 - x0)[segment] * share,
        y0[segment] + (y1 - y0)[segment] * share,
    )


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Return pieces with neighbours of one role in one."""
    out: list[Piece] = []
    for text, role in pieces:
        if out and out[-1][1] == role:
            out[-1] = (out[-1][0] + text, role)
        else:
            out.append((text, role))
    return out
