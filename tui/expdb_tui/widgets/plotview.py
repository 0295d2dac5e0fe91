"""A plot on the screen; what it shows is handed over, how it is drawn is `plotting.draw`.

The mouse: a click names an x, a drag a range of it, the wheel zooms at the pointer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual import events
from textual.app import RenderResult
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from expdb_tui.ink import Piece, strip
from expdb_tui.plotting.draw import draw
from expdb_tui.plotting.edges import x_at
from expdb_tui.plotting.plot import Plot

if TYPE_CHECKING:
    from expdb_tui.shared import Shared

CLICK = 2
"""Cells that the pointer may move in a click."""


class PlotView(Widget):
    """One plot."""

    class Picked(Message):
        """A click at an x."""

        def __init__(self, x: float) -> None:
            super().__init__()
            self.x = x

    class Dragged(Message):
        """A drag from one x to another."""

        def __init__(self, low: float, high: float) -> None:
            super().__init__()
            self.low, self.high = low, high

    class Wheeled(Message):
        """The wheel at an x: nearer where `by` is 1, farther where it is -1."""

        def __init__(self, x: float, by: int) -> None:
            super().__init__()
            self.x, self.by = x, by

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.plot: Plot | None = None
        self._drawn: tuple[int, int, list[list[Piece]]] | None = None
        self._pressed: int | None = None

    def show(self, plot: Plot | None) -> None:
        """Show another plot, or none."""
        self.plot, self._drawn = plot, None
        self.refresh()

    def again(self) -> None:
        """Draw again: the signs or colours are other ones."""
        self._drawn = None
        self.refresh()

    def render(self) -> RenderResult:
        """Return nothing: `render_line` draws."""
        return ""

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        app, (width, height) = cast("Shared", self.app), (self._width, self.size.height)
        if self.plot is None:
            return strip((), self.size.width, app.palette)
        if self._drawn is None or self._drawn[:2] != (width, height):
            rows = draw(self.plot, width, height, app.marks, ascii=app.is_ascii)
            self._drawn = (width, height, rows)
        rows = self._drawn[2]
        row = rows[y] if y < len(rows) else ()
        return strip(row, self.size.width, app.palette, ellipsis=app.marks.ellipsis)

    @property
    def _width(self) -> int:
        """The columns of the plot: one at the right is air."""
        return max(1, self.size.width - 1)

    def _x(self, column: int) -> float:
        return x_at(self.plot, column, self._width) if self.plot is not None else 0.0

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin a click or a drag."""
        if self.plot is not None:
            self._pressed = event.x
            self.capture_mouse()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """End it."""
        self.release_mouse()
        start, self._pressed = self._pressed, None
        if start is None or self.plot is None:
            return
        if abs(event.x - start) <= CLICK:
            self.post_message(self.Picked(self._x(event.x)))
        else:
            low, high = sorted((self._x(start), self._x(event.x)))
            self.post_message(self.Dragged(low, high))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Go nearer."""
        self.post_message(self.Wheeled(self._x(event.x), 1))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Go farther away."""
        self.post_message(self.Wheeled(self._x(event.x), -1))
