"""Rows of pieces on the screen: text that somebody else has laid out for a width and a height."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from textual.app import RenderResult
from textual.strip import Strip
from textual.widget import Widget

from expdb_tui.ink import Piece, strip

if TYPE_CHECKING:
    from expdb_tui.shared import Shared

Rows = Sequence[Sequence[Piece]]
Layout = Callable[[int, int], Rows]
"""(width, height) -> the rows."""


class LineView(Widget):
    """Rows that fit the widget; what is over is not shown."""

    def __init__(self, *, id: str | None = None, ground: str = "bg") -> None:
        super().__init__(id=id)
        self._ground = ground
        self._layout_of: Layout = lambda width, height: ()
        self._laid: tuple[int, int, Rows] | None = None

    def show(self, layout: Layout) -> None:
        """Show other rows."""
        self._layout_of, self._laid = layout, None
        self.refresh()

    def again(self) -> None:
        """Lay the rows out again: the signs or colours are other ones."""
        self._laid = None
        self.refresh()

    def render(self) -> RenderResult:
        """Return nothing: `render_line` draws."""
        return ""

    @property
    def rows(self) -> Rows:
        """The rows as they are shown."""
        width, height = self.size
        if self._laid is None or self._laid[:2] != (width, height):
            self._laid = (width, height, self._layout_of(width, height))
        return self._laid[2]

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        app, rows = cast("Shared", self.app), self.rows
        pieces = rows[y] if y < len(rows) else ()
        return strip(
            pieces, self.size.width, app.palette, ground=self._ground, ellipsis=app.marks.ellipsis
        )
