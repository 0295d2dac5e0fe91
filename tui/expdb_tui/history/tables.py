"""The tables of the history: a graph whose cursor goes from run to run, and the operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.strip import Strip

from expdb_tui.history.lines import LineageLines
from expdb_tui.ink import strip
from expdb_tui.widgets.rowtable import RowTable

if TYPE_CHECKING:
    from expdb_tui.app import ExpdbApp


class Lineage(RowTable):
    """The graph: the cursor goes from run to run."""

    def action_move(self, by: int) -> None:
        """Go to the next run in a direction, at least so many rows away where there is one."""
        lines = self.lines
        if not isinstance(lines, LineageLines) or not len(lines):
            return
        step = 1 if by > 0 else -1
        wanted = max(0, min(len(lines) - 1, self.cursor + by))
        ahead = range(wanted, len(lines) if by > 0 else -1, step)
        back = range(wanted, self.cursor, -step)
        found = next((at for at in (*ahead, *back) if lines.node(at) is not None), None)
        if found is not None:
            self.cursor = found


class OpTable(RowTable):
    """The operations; its cursor is seen while it has the focus, as there is one on a screen."""

    def render_line(self, y: int) -> Strip:
        """Draw the title or a row."""
        at = int(self.scroll_offset.y) + y - 1
        if self.has_focus or at != self.cursor or not 0 <= at < len(self.lines):
            return super().render_line(y)
        app, width = cast("ExpdbApp", self.app), self.size.width
        pieces = [(" ", ""), *self.lines.line(at, width - 1)]
        return strip(pieces, width, app.palette, ellipsis=app.marks.ellipsis)
