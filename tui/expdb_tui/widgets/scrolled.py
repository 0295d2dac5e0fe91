"""Rows of pieces that scroll: more of them than fit, laid out by somebody else for the width.

Invariant: the row at the top is one of the rows; a layout for another size keeps it where it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual.binding import Binding, BindingType
from textual.strip import Strip

from expdb_tui.ink import Piece, strip
from expdb_tui.widgets.lineview import Layout, LineView

if TYPE_CHECKING:
    from expdb_tui.shared import Shared


class Scrolled(LineView, can_focus=True):
    """Rows under a window that moves with the keys and the wheel."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_by(-1)", show=False),
        Binding("down,j", "scroll_by(1)", show=False),
        Binding("pageup", "page_by(-1)", show=False),
        Binding("pagedown", "page_by(1)", show=False),
        Binding("home", "scroll_by(-1000000)", show=False),
        Binding("end", "scroll_by(1000000)", show=False),
    ]

    def __init__(self, *, id: str | None = None, ground: str = "bg") -> None:
        super().__init__(id=id)
        self._ground = ground
        self.top = 0
        """The row at the top."""

    def show(self, layout: Layout, *, keep: bool = False) -> None:
        """Show other rows, from the first one on unless the place is to be kept."""
        super().show(layout)
        self.top = min(self.top, self.last_top) if keep else 0

    @property
    def last_top(self) -> int:
        """The row at the top when the last one is at the foot."""
        return max(0, len(self.rows) - self.size.height) if self.size.height else 0

    def jump(self, row: int) -> None:
        """Bring a row to the top, as far as there are rows below it."""
        self.top = max(0, min(row, self.last_top))
        self.refresh()

    def on_resize(self) -> None:
        """Stay within the rows."""
        self.jump(self.top)

    def action_scroll_by(self, by: int) -> None:
        """Move the window by rows."""
        self.jump(self.top + by)

    def action_page_by(self, by: int) -> None:
        """Move the window by pages."""
        self.jump(self.top + by * max(1, self.size.height - 1))

    def on_mouse_scroll_down(self) -> None:
        """Move the window down."""
        self.jump(self.top + 3)

    def on_mouse_scroll_up(self) -> None:
        """Move the window up."""
        self.jump(self.top - 3)

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        app, rows = cast("Shared", self.app), self.rows
        at = self.top + y
        pieces: Sequence[Piece] = rows[at] if at < len(rows) else ()
        signs = app.marks
        return strip(
            pieces, self.size.width, app.palette, ground=self._ground, ellipsis=signs.ellipsis
        )
