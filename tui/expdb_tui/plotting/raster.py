"""A grid of dots, 2 x 4 a cell, that becomes braille: lines, tints, marks.

Invariant: lines that share a cell keep their dots, and the later one gives the colour; a tint gives
way to every line. With ASCII a cell is one letter. What is outside costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from expdb_tui.ink import Piece

BITS: Final = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.int32)
BRAILLE: Final = 0x2800
BLANK: Final = 0x20
NOBODY: Final = -1
FAR: Final = 1e7
"""So many dots away everything is as far: differences of places stay finite."""

Dots = NDArray[np.float64]


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

    def line(self, x: Dots, y: Dots, role: str, letter: str = "*", *, every: int = 1) -> None:
        """Draw straight lines from point to point; a NaN in `y` breaks them.

        With `every` above 1 only so many of the dots on the way are drawn: a dotted line.
        """
        if not len(x):
            return
        finite = np.isfinite(x) & np.isfinite(y)
        way = _between(x, y, finite, self.dots)
        self._set(*(_spaced(*way, every) if every > 1 else way), role, letter)
        alone = finite & ~np.append(finite[1:], False) & ~np.insert(finite[:-1], 0, False)
        self._set(x[alone], y[alone], role, letter)

    def points(self, x: Dots, y: Dots, role: str, letter: str = "*") -> None:
        """Draw a block of 2 x 2 dots at each point."""
        finite = np.isfinite(x) & np.isfinite(y)
        x, y = np.floor(x[finite]), np.floor(y[finite])
        for right in (0, 1):
            for down in (0, 1):
                self._set(x + right, y + down, role, letter)

    def _set(self, x: Dots, y: Dots, role: str, letter: str) -> None:
        column, row = _whole(x), _whole(y)
        inside = (column >= 0) & (column < self.width * 2) & (row >= 0) & (row < self.height * 4)
        column, row = column[inside], row[inside]
        self._lines[row, column] = True
        self._line_role[row // 4, column // 2] = self._role(role, letter)

    def tint(self, x: Dots, low: Dots, high: Dots, role: str) -> None:
        """Fill between two heights (`low` is nearer the foot) at columns of dots, as every other
        dot.
        """
        across, down = self.dots
        finite = np.isfinite(x) & np.isfinite(low) & np.isfinite(high)
        column = _whole(np.where(finite, x, -1.0))
        shown = np.flatnonzero(finite & (column >= 0) & (column < across))
        column, top, foot = column[shown], _whole(high[shown]), _whole(low[shown])
        rows = np.arange(down)[:, None]
        chosen = (rows >= top) & (rows <= foot) & ((rows + column) % 2 == 0)
        row, at = np.nonzero(chosen)
        self._tints[row, column[at]] = True
        self._tint_role[row // 4, column[at] // 2] = self._role(role, ":")

    def put(self, cell: int, row: int, text: str, role: str) -> None:
        """Put one sign into a cell, over what is drawn there."""
        if 0 <= cell < self.width and 0 <= row < self.height:
            self._over[row, cell] = (text, role)

    def has_line(self, cell: int, row: int) -> bool:
        """Tell whether a line passes a cell."""
        inside = 0 <= cell < self.width and 0 <= row < self.height
        return inside and bool(self._line_role[row, cell] != NOBODY)

    def rows(self, ground: Mapping[tuple[int, int], Piece] | None = None) -> list[list[Piece]]:
        """Return the rows; `ground` is what stands in cells that nothing is drawn in."""
        is_line = self._line_role != NOBODY
        role = np.where(is_line, self._line_role, self._tint_role).astype(np.int32)
        code = np.where(is_line, _codes(self._lines), _codes(self._tints))
        if self._ascii:
            letters = np.array([*map(ord, self._letters), BLANK], np.int32)
            code = np.where(role == NOBODY, BLANK, letters[role])
        else:
            code = np.where(role == NOBODY, BLANK, code + BRAILLE)
        names: dict[str, int] = {"": 0}
        known = [names.setdefault(name, len(names)) for name in self._roles]
        # A cell that nobody drew in has the number -1, which is the last of these.
        named = np.array([*known, 0], np.int32)[role]
        for (row, cell), (text, name) in (ground or {}).items():
            if role[row, cell] == NOBODY and len(text) == 1:
                code[row, cell] = ord(text)
                named[row, cell] = names.setdefault(name, len(names))
        for (row, cell), (text, name) in self._over.items():
            code[row, cell] = ord(text[0])
            named[row, cell] = names.setdefault(name, len(names))
        order = list(names)
        return [_pieces(code[row], named[row], order) for row in range(self.height)]


def _whole(places: Dots) -> NDArray[np.int64]:
    return np.floor(np.clip(np.nan_to_num(places, nan=-FAR), -FAR, FAR)).astype(np.int64)


def _codes(grid: NDArray[np.bool_]) -> NDArray[np.int32]:
    down, across = grid.shape
    cells = grid.reshape(down // 4, 4, across // 2, 2)
    found: NDArray[np.int32] = np.einsum("hrwc,rc->hw", cells.astype(np.int32), BITS)
    return found


def _pieces(codes: NDArray[np.int32], roles: NDArray[np.int32], names: list[str]) -> list[Piece]:
    """Return one row: neighbours of one role are one piece."""
    edges = [0, *(np.flatnonzero(np.diff(roles)) + 1).tolist(), len(roles)]
    letters = list(map(chr, codes.tolist()))
    return [
        ("".join(letters[start:stop]), names[int(roles[start])]) for start, stop in pairwise(edges)
    ]


def _between(
    x: Dots, y: Dots, finite: NDArray[np.bool_], dots: tuple[int, int]
) -> tuple[Dots, Dots]:
    """Return the dots of all lines from one point to the next, of the parts that are inside."""
    both = np.flatnonzero(finite[:-1] & finite[1:])
    x, y = np.clip(x, -FAR, FAR), np.clip(y, -FAR, FAR)
    x0, y0 = x[both], y[both]
    dx, dy = x[both + 1] - x0, y[both + 1] - y0
    enter, leave = np.zeros(len(both)), np.ones(len(both))
    for start, size, most in ((x0, dx, dots[0]), (y0, dy, dots[1])):
        is_flat = size == 0
        length = np.where(is_flat, 1.0, size)
        first, last = (-1 - start) / length, (most - start) / length
        is_out = is_flat & ((start < -1) | (start > most))
        near = np.where(is_flat, 0.0, np.minimum(first, last))
        far = np.where(is_flat, 1.0, np.maximum(first, last))
        enter = np.maximum(enter, near)
        leave = np.where(is_out, -1.0, np.minimum(leave, far))
    inside = enter <= leave
    if not inside.any():
        return x[:0], y[:0]
    x0, y0, dx, dy = x0[inside], y0[inside], dx[inside], dy[inside]
    enter, length = enter[inside], (leave - enter)[inside]
    x0, y0, dx, dy = x0 + dx * enter, y0 + dy * enter, dx * length, dy * length
    steps = np.maximum(np.abs(dx), np.abs(dy)).astype(np.int64) + 2
    segment = np.repeat(np.arange(len(steps)), steps)
    first_of = np.cumsum(steps) - steps
    share = (np.arange(int(steps.sum())) - first_of[segment]) / (steps[segment] - 1)
    return x0[segment] + dx[segment] * share, y0[segment] + dy[segment] * share


def _spaced(x: Dots, y: Dots, every: int) -> tuple[Dots, Dots]:
    """Return one of `every` dots that follow each other on a way."""
    column, row = np.floor(x), np.floor(y)
    moved = np.ones(len(x), bool)
    moved[1:] = (np.diff(column) != 0) | (np.diff(row) != 0)
    chosen = np.flatnonzero(moved)[::every]
    return x[chosen], y[chosen]
