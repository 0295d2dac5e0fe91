"""A table of any number of rows, of which only those on the screen are drawn.

Who shows it hands over lines: `RowTable` asks for the line at a place, and draws what it gets.

Invariant: moving the cursor redraws two rows; the first row of the widget is the head and stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from expdb_tui.ink import Piece, strip
from expdb_tui.keys import key

if TYPE_CHECKING:
    from expdb_tui.shared import Shared


class Lines(Protocol):
    """What a table shows."""

    def __len__(self) -> int:
        """Return how many rows there are."""

    def head(self, width: int) -> Sequence[Piece]:
        """Return the line above the rows."""

    def line(self, at: int, width: int) -> Sequence[Piece]:
        """Return the row at a place from the top; of one that is not read yet, any pieces."""


class NoLines:
    """What a table shows before anything was read."""

    def __len__(self) -> int:
        return 0

    def head(self, width: int) -> Sequence[Piece]:
        """Return nothing."""
        return ()

    def line(self, at: int, width: int) -> Sequence[Piece]:
        """Return nothing."""
        return ()


class RowTable(ScrollView, can_focus=True):
    """Rows under a head, with a cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("up,k", "move(-1)", "move.up"),
        key("down,j", "move(1)", "move.down"),
        key("pageup", "page(-1)", "move.page_up"),
        key("pagedown", "page(1)", "move.page_down"),
        key("home", "jump(0)", "move.first"),
        key("end", "jump(-1)", "move.last"),
        key("enter", "open", "move.open"),
    ]
    cursor: reactive[int] = reactive(0)

    class Moved(Message):
        """The cursor came to another row, or other rows came on the screen."""

        def __init__(self, table: RowTable) -> None:
            super().__init__()
            self.table = table

        @property
        def control(self) -> RowTable:
            """The table."""
            return self.table

    class Opened(Message):
        """Enter, or a second click, on a row."""

        def __init__(self, table: RowTable, at: int) -> None:
            super().__init__()
            self.table = table
            self.at = at

        @property
        def control(self) -> RowTable:
            """The table."""
            return self.table

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.lines: Lines = NoLines()

    def show(self, lines: Lines, *, cursor: int | None = None) -> None:
        """Show other lines, the cursor on a row of them: it stays where it is on the screen, unless
        it is on the first row, under which nothing moves.
        """
        before = self.cursor - int(self.scroll_offset.y)
        was_first = self.cursor == 0
        self.lines = lines
        self.virtual_size = Size(self.size.width, len(lines) + 1)
        last = max(0, len(lines) - 1)
        self.set_reactive(RowTable.cursor, min(self.cursor if cursor is None else cursor, last))
        top = 0 if was_first and self.cursor < self.size.height - 1 else self.cursor - before
        self.scroll_to(y=max(0, top), animate=False, immediate=True)
        self._keep_in_sight()
        self.refresh()

    @property
    def rows_shown(self) -> range:
        """The places of the rows on the screen."""
        top = int(self.scroll_offset.y)
        return range(top, min(len(self.lines), top + max(0, self.size.height - 1)))

    def watch_cursor(self, before: int, now: int) -> None:
        """Redraw the row that the cursor left and the one it came to."""
        self.redraw(before)
        self.redraw(now)
        self._keep_in_sight()
        self.post_message(self.Moved(self))

    def watch_scroll_y(self, before: float, now: float) -> None:
        """Say that other rows came on the screen."""
        super().watch_scroll_y(before, now)
        if round(before) != round(now):
            self.post_message(self.Moved(self))

    def redraw(self, at: int) -> None:
        """Redraw one row, if it is on the screen."""
        y = at - int(self.scroll_offset.y) + 1
        if 1 <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def _keep_in_sight(self) -> None:
        height = max(1, self.size.height - 1)
        top = int(self.scroll_offset.y)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, immediate=True)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, immediate=True)

    def on_resize(self) -> None:
        """Fit the rows to the new size."""
        self.virtual_size = Size(self.size.width, len(self.lines) + 1)
        # How far it can be scrolled is only known once it was laid out.
        self.call_after_refresh(self._keep_in_sight)

    def render_line(self, y: int) -> Strip:
        """Draw the head, or the row that the scrolling brings there."""
        app, width = cast("Shared", self.app), self.size.width
        palette, signs = app.palette, app.marks
        if y == 0:
            return strip(self.lines.head(width), width, palette, ellipsis=signs.ellipsis)
        at = int(self.scroll_offset.y) + y - 1
        if at >= len(self.lines):
            return strip((), width, palette)
        is_cursor = at == self.cursor
        ground = "sel" if is_cursor else "bg"
        first = (signs.cursor, "accent") if is_cursor and self.has_focus else (" ", "")
        pieces = [first, *self.lines.line(at, width - 1)]
        return strip(
            pieces, width, palette, ground=ground, is_cursor=is_cursor, ellipsis=signs.ellipsis
        )

    def action_move(self, by: int) -> None:
        """Move the cursor by rows."""
        self.cursor = max(0, min(len(self.lines) - 1, self.cursor + by))

    def action_page(self, by: int) -> None:
        """Move the cursor by pages."""
        self.action_move(by * max(1, self.size.height - 2))

    def action_jump(self, to: int) -> None:
        """Move the cursor to the first row or to the last."""
        self.cursor = 0 if to == 0 else max(0, len(self.lines) - 1)

    def action_open(self) -> None:
        """Open the row under the cursor."""
        if len(self.lines):
            self.post_message(self.Opened(self, self.cursor))

    def on_click(self, event: events.Click) -> None:
        """Select the row; a second click opens it."""
        at = int(self.scroll_offset.y) + event.y - 1
        if event.y < 1 or at >= len(self.lines):
            return
        self.cursor = at
        if event.chain > 1:
            self.action_open()
