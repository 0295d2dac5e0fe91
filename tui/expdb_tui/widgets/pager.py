"""Rows that are more than the screen has, laid out by somebody else: scrolled by rows and pages.

Invariant: the row at the top is one of the rows; other rows move nothing, unless the end is
followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.strip import Strip

from expdb_tui.ink import Piece, strip
from expdb_tui.keys import key
from expdb_tui.widgets.lineview import Layout, LineView

if TYPE_CHECKING:
    from expdb_tui.shared import Shared

WHEEL = 3


class Pager(LineView, can_focus=True):
    """Rows under a window that moves with the keys and the wheel."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("up,k", "scroll_by(-1)", "move.up"),
        key("down,j", "scroll_by(1)", "move.down"),
        key("pageup", "page(-1)", "move.page_up"),
        key("pagedown", "page(1)", "move.page_down"),
        key("home", "jump(0)", "move.first"),
        key("end", "jump(-1)", "move.last"),
    ]

    class Scrolled(Message):
        """Somebody scrolled; upwards is away from the end."""

        def __init__(self, pager: Pager, by: int) -> None:
            super().__init__()
            self.pager = pager
            self.by = by

        @property
        def control(self) -> Pager:
            """The pager."""
            return self.pager

    def __init__(self, *, id: str, ground: str = "bg") -> None:
        super().__init__(id=id, ground=ground)
        self.top = 0
        """The row at the top."""
        self.follows = False
        """Whether the last row stays in sight."""

    def show(self, layout: Layout, *, top: int | None = None) -> None:
        """Show other rows, from row `top` on where one is named."""
        super().show(layout)
        if top is not None:
            self.top = top

    @property
    def last_top(self) -> int:
        """The row at the top when the last one is at the foot."""
        return max(0, len(self.rows) - self.size.height) if self.size.height else 0

    def jump(self, row: int) -> None:
        """Bring a row to the top, as far as there are rows below it."""
        self.top = max(0, min(row, self.last_top))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        app, rows = cast("Shared", self.app), self.rows
        self.top = self.last_top if self.follows else max(0, min(self.top, self.last_top))
        at = self.top + y
        pieces: Sequence[Piece] = rows[at] if at < len(rows) else ()
        return strip(
            pieces, self.size.width, app.palette, ground=self._ground, ellipsis=app.marks.ellipsis
        )

    def action_scroll_by(self, by: int) -> None:
        """Move by rows; upwards ends the following."""
        if by < 0:
            self.follows = False
        self.jump(self.top + by)
        self.post_message(self.Scrolled(self, by))

    def action_page(self, by: int) -> None:
        """Move by pages."""
        self.action_scroll_by(by * max(1, self.size.height - 2))

    def action_jump(self, to: int) -> None:
        """Move to the first row, or to the last."""
        self.action_scroll_by(-self.top if to == 0 else len(self.rows))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll with the wheel."""
        self.action_scroll_by(WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll with the wheel."""
        self.action_scroll_by(-WHEEL)
