"""A grid of text: names left, numbers right, two spaces between columns; no boxes.

Invariant: cells are measured in terminal cells before they are painted, so colour never moves a
column. A row is never wrapped; too wide a grid loses columns, then has its names cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from expdb.report.style import Style
from expdb.signs import Colour
from expdb.text import cells, cut_end, cut_middle

GAP: Final = "  "
SHORTEST_CUT: Final = 10


class Column(NamedTuple):
    """One column; `leaves` orders the columns that go when the grid is too wide, lowest first."""

    head: str
    right: bool = False
    min_cells: int = 0
    leaves: int | None = None
    cut: Literal["", "middle", "end"] = ""


class Cell(NamedTuple):
    """One cell: plain text and its colour."""

    text: str = ""
    colour: Colour = ""


class Grid(NamedTuple):
    """Columns and rows, ready to be laid out."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    marks: tuple[str, ...] = ()
    """One cell in front of each row, on a terminal only."""

    def widths(self) -> list[int]:
        """Return the natural width of each column."""
        return [
            max([column.min_cells, cells(column.head), *(cells(row[at].text) for row in self.rows)])
            for at, column in enumerate(self.columns)
        ]

    def width(self, style: Style) -> int:
        """Return the natural width of a whole line."""
        widths = self.widths()
        return _margin(self, style) + sum(widths) + len(GAP) * (len(widths) - 1)

    def without(self, leaves: int) -> Grid:
        """Return the grid without the columns that leave at `leaves`."""
        kept = [at for at, column in enumerate(self.columns) if column.leaves != leaves]
        rows = tuple(tuple(row[at] for at in kept) for row in self.rows)
        return Grid(tuple(self.columns[at] for at in kept), rows, self.marks)


def narrowed(grid: Grid, style: Style) -> Grid:
    """Return the grid without as many columns, in their order of leaving, as make it fit."""
    order = sorted({column.leaves for column in grid.columns if column.leaves is not None})
    for leaves in order:
        if grid.width(style) <= style.width:
            break
        grid = grid.without(leaves)
    return grid


def lay_out(grid: Grid, style: Style, *, head: bool = True) -> list[str]:
    """Return the lines of a grid: columns leave, then names are cut, until it fits."""
    grid = narrowed(grid, style)
    if not style.terminal:
        grid = _for_pipe(grid)
    widths = _cut_widths(grid, style)
    margin = " " * _margin(grid, style)
    lines = []
    if head:
        heads = tuple(Cell(column.head, "dim") for column in grid.columns)
        lines.append(_line(grid, heads, widths, margin, style))
    for at, row in enumerate(grid.rows):
        mark = f"{grid.marks[at]} " if margin and grid.marks else margin
        lines.append(_line(grid, row, widths, mark, style))
    return lines


def _margin(grid: Grid, style: Style) -> int:
    return 2 if grid.marks and style.terminal else 0


def _for_pipe(grid: Grid) -> Grid:
    """Put `-` in empty cells and the first column left, so that every line splits alike."""
    first = grid.columns[0]
    columns = (Column(head=first.head, cut=first.cut), *grid.columns[1:])
    rows = tuple(
        tuple(Cell(cell.text or "-", cell.colour if cell.text else "") for cell in row)
        for row in grid.rows
    )
    return Grid(columns, rows, grid.marks)


def _cut_widths(grid: Grid, style: Style) -> list[int]:
    widths = grid.widths()
    over = grid.width(style) - style.width
    cuttable = [at for at, column in enumerate(grid.columns) if column.cut]
    for at in sorted(cuttable, key=lambda at: -widths[at]):
        if over <= 0:
            break
        least = max(SHORTEST_CUT, cells(grid.columns[at].head))
        gone = min(over, max(0, widths[at] - least))
        widths[at] -= gone
        over -= gone
    return widths


def _line(grid: Grid, row: Sequence[Cell], widths: Sequence[int], margin: str, style: Style) -> str:
    parts = []
    for at, (column, cell, width) in enumerate(zip(grid.columns, row, widths, strict=True)):
        text = fit(cell.text, width, column.cut, style)
        pad = " " * (width - cells(text))
        painted = style.paint(text, cell.colour)
        last = at == len(widths) - 1
        parts.append(pad + painted if column.right else painted + ("" if last else pad))
    return (margin + GAP.join(parts)).rstrip()


def fit(text: str, width: int, cut: str, style: Style) -> str:
    """Return `text` cut to `width` cells in the way of its column."""
    if cut == "middle":
        return cut_middle(text, width, style.signs.ellipsis)
    if cut == "end":
        return cut_end(text, width, style.signs.ellipsis)
    return text


def right(text: str, width: int) -> str:
    """Return `text` padded on its left to `width` cells."""
    return " " * (width - cells(text)) + text


def left(text: str, width: int) -> str:
    """Return `text` padded on its right to `width` cells."""
    return text + " " * (width - cells(text))
