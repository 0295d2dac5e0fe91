"""The matrix as a table whose cursor is a cell.

Invariant: the row of the cursor is told by its bold name, the cell by its ground.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.binding import BindingType
from textual.reactive import reactive
from textual.strip import Strip

from expdb.query.matrix_results import Matrix, MatrixRow
from expdb_tui.ink import Piece, strip
from expdb_tui.keys import key
from expdb_tui.marks import Marks
from expdb_tui.matrix.cells import CELL, Grid, grid_of, head_of, line_of
from expdb_tui.widgets.rowtable import RowTable

if TYPE_CHECKING:
    from expdb_tui.shared import Shared


class MatrixLines:
    """The rows of a matrix."""

    def __init__(
        self, matrix: Matrix, marks: Marks, *, ascii: bool, places: Mapping[str, int] | None = None
    ) -> None:
        self.matrix, self._marks, self._ascii = matrix, marks, ascii
        self._places = places or {}

    def __len__(self) -> int:
        return len(self.matrix.rows)

    def grid(self, width: int) -> Grid:
        """Return the layout."""
        return grid_of(self.matrix, width)

    def head(self, width: int) -> Sequence[Piece]:
        """Return the line above the rows."""
        return head_of(self.matrix, self.grid(width), self._marks)

    def line(self, at: int, width: int) -> Sequence[Piece]:
        """Return a row without a cursor."""
        return self.line_at(at, width, None)

    def line_at(self, at: int, width: int, cursor: int | None) -> Sequence[Piece]:
        """Return a row with the cursor on one of its cells."""
        row, grid = self.matrix.rows[at], self.grid(width)
        return line_of(
            self.matrix, row, grid, self._marks, cursor=cursor, ascii=self._ascii,
            places=self._places,
        )  # fmt: skip


class CellTable(RowTable):
    """Rows of cells."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("left,h", "cell(-1)", "move.left"),
        key("right", "cell(1)", "move.right"),
    ]
    column: reactive[int] = reactive(0)

    @property
    def grid(self) -> Grid | None:
        """The layout, once there is a matrix."""
        lines = self.lines
        return lines.grid(self.size.width - 1) if isinstance(lines, MatrixLines) else None

    @property
    def row(self) -> MatrixRow | None:
        """The row of the cursor."""
        lines = self.lines
        if not isinstance(lines, MatrixLines) or not len(lines):
            return None
        return lines.matrix.rows[min(self.cursor, len(lines) - 1)]

    def watch_column(self, before: int, now: int) -> None:
        """Redraw the row, and say that the cursor came to another cell."""
        self.redraw(self.cursor)
        self.post_message(self.Moved(self))

    def action_cell(self, by: int) -> None:
        """Go to the next cell of the row."""
        grid = self.grid
        if grid is not None and grid.num_seeds:
            self.column = max(0, min(grid.num_seeds - 1, self.column + by))

    def render_line(self, y: int) -> Strip:
        """Draw the head or a row; the cursor is drawn as a cell."""
        at = int(self.scroll_offset.y) + y - 1
        lines = self.lines
        is_here = y > 0 and at == self.cursor and at < len(lines)
        if not is_here or not isinstance(lines, MatrixLines):
            return super().render_line(y)
        app, width = cast("Shared", self.app), self.size.width
        signs = app.marks
        first = (signs.cursor if self.has_focus else " ", "accent")
        pieces = [first, *lines.line_at(at, width - 1, self.column)]
        return strip(pieces, width, app.palette, ellipsis=signs.ellipsis)

    def on_click(self, event: events.Click) -> None:
        """Go to the cell that was clicked."""
        grid = self.grid
        if grid is not None and event.x >= grid.name + 3:
            at = (event.x - grid.name - 3) // (CELL + grid.gap)
            self.column = max(0, min(grid.num_seeds - 1, at))
