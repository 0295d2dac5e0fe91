"""Rows of text that are more than the screen has: scrolled by rows and pages.

Invariant: other rows move nothing, unless the end is followed; what is over the width is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from expdb_tui.ink import strip
from expdb_tui.widgets.lineview import Rows

if TYPE_CHECKING:
    from expdb_tui.shared import Shared

WHEEL = 3


class Pager(Widget, can_focus=True):
    """Rows laid out for a width, of which a window is shown."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_by(-1)", show=False),
        Binding("down,j", "scroll_by(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "jump(0)", show=False),
        Binding("end", "jump(-1)", show=False),
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
        super().__init__(id=id)
        self.top = 0
        self.follows = False
        """Whether the last row stays in sight."""
        self._ground = ground
        self._layout_of: Callable[[int], Rows] = lambda width: ()
        self._laid: tuple[int, Rows] | None = None

    def show(self, layout: Callable[[int], Rows], *, top: int | None = None) -> None:
        """Show other rows, from row `top` on where one is named."""
        self._layout_of, self._laid = layout, None
        if top is not None:
            self.top = top
        self.refresh()

    def render(self) -> RenderResult:
        """Return nothing: `render_line` draws."""
        return ""

    @property
    def rows(self) -> Rows:
        """All rows."""
        width = self.size.width
        if self._laid is None or self._laid[0] != width:
            self._laid = (width, self._layout_of(width))
        return self._laid[1]

    @property
    def last_top(self) -> int:
        """The first row that is shown when the last one is in sight."""
        return max(0, len(self.rows) - self.size.height)

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        app, rows = cast("Shared", self.app), self.rows
        self.top = self.last_top if self.follows else max(0, min(self.top, self.last_top))
        at = self.top + y
        pieces = rows[at] if at < len(rows) else ()
        return strip(
            pieces, self.size.width, app.palette, ground=self._ground, ellipsis=app.marks.ellipsis
        )

    def action_scroll_by(self, by: int) -> None:
        """Move by rows; upwards ends the following."""
        if by < 0:
            self.follows = False
        self.top = max(0, min(self.last_top, self.top + by))
        self.refresh()
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
