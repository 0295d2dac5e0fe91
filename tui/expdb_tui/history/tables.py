"""The tables of the history: a graph whose cursor goes from run to run, and the operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.strip import Strip

from expdb_tui.history.lines import LineageLines
from expdb_tui.ink import strip
from expdb_tui.widgets.rowtable import RowTable

if TYPE_CHECKING:
    from expdb_tui.shared import Shared


class Lineage(RowTable):
    """The graph: the cursor goes from run to run."""

    def validate_cursor(self, at: int) -> int:
        """Return the run nearest to a row, on in the direction that the cursor moves."""
        lines = self.lines
        if not isinstance(lines, LineageLines) or lines.node(at) is not None:
            return at
        below, above = range(at, len(lines)), range(at, -1, -1)
        ways = (below, above) if at >= self.cursor else (above, below)
        return next((row for way in ways for row in way if lines.node(row) is not None), at)


class OpTable(RowTable):
    """The operations; its cursor is seen while it has the focus, as there is one on a screen."""

    def render_line(self, y: int) -> Strip:
        """Draw the title or a row."""
        at = int(self.scroll_offset.y) + y - 1
        if self.has_focus or at != self.cursor or not 0 <= at < len(self.lines):
            return super().render_line(y)
        app, width = cast("Shared", self.app), self.size.width
        pieces = [(" ", ""), *self.lines.line(at, width - 1)]
        return strip(pieces, width, app.palette, ellipsis=app.marks.ellipsis)
