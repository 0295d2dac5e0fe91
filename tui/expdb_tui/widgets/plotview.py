"""A plot on the screen; what it shows is handed over, how it is drawn is `plotting.draw`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.app import RenderResult
from textual.strip import Strip
from textual.widget import Widget

from expdb_tui.ink import Piece, strip
from expdb_tui.plotting.draw import Plot, draw

if TYPE_CHECKING:
    from expdb_tui.app import ExpdbApp


class PlotView(Widget):
    """One plot."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.plot: Plot | None = None
        self._drawn: tuple[int, int, list[list[Piece]]] | None = None

    def show(self, plot: Plot | None) -> None:
        """Show another plot, or none."""
        self.plot, self._drawn = plot, None
        self.refresh()

    def render(self) -> RenderResult:
        """Return nothing: `render_line` draws."""
        return ""

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        app, (width, height) = cast("ExpdbApp", self.app), self.size
        if self.plot is None:
            return strip((), width, app.palette)
        if self._drawn is None or self._drawn[:2] != (width, height):
            rows = draw(self.plot, width, height, app.marks, ascii=app.is_ascii)
            self._drawn = (width, height, rows)
        rows = self._drawn[2]
        return strip(rows[y] if y < len(rows) else (), width, app.palette)
