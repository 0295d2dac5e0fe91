"""The preview on the screen: title, plot, changes and log; below the rows or beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult
from textual.containers import Container, Vertical

from expdb_tui.ink import titled
from expdb_tui.runs.preview import Preview, change_rows, plot_of, title_of
from expdb_tui.widgets.lineview import LineView
from expdb_tui.widgets.plotview import PlotView

if TYPE_CHECKING:
    from expdb_tui.shared import Shared

BESIDE, BELOW = 160, 30
"""From this width the preview is at the right, from this height below."""


class PreviewPane(Vertical):
    """What is known of the run under the cursor."""

    def __init__(self) -> None:
        super().__init__(id="preview")
        self.preview: Preview | None = None

    def compose(self) -> ComposeResult:
        """Lay out the parts."""
        yield LineView(id="preview-title")
        with Container(id="preview-body"):
            yield PlotView(id="preview-plot")
            yield LineView(id="preview-text")

    @staticmethod
    def fits(width: int, height: int) -> bool:
        """Tell whether there is room without being asked for."""
        return width >= BESIDE or height >= BELOW

    def lay_out(self, width: int, height: int) -> None:
        """Take the place that a terminal of this size has."""
        is_beside = width >= BESIDE
        self.styles.width = 62 if is_beside else "1fr"
        self.styles.height = "1fr" if is_beside else (12 if height >= BELOW else 8)
        body = self.query_one("#preview-body")
        body.styles.layout = "vertical" if is_beside else "horizontal"

    @property
    def columns(self) -> int:
        """How many columns of dots the plot has."""
        return max(40, self.query_one("#preview-plot").size.width * 2)

    def show(self, preview: Preview) -> None:
        """Show what was read of a run."""
        self.preview = preview
        app = cast("Shared", self.app)
        title, tail = title_of(preview, app.marks)
        self.query_one("#preview-title", LineView).show(
            lambda width, height: [titled([(" ", ""), *title], width - 1, app.marks.rule, tail)]
        )
        self.query_one("#preview-plot", PlotView).show(plot_of(preview))
        self.query_one("#preview-text", LineView).show(
            lambda width, height: change_rows(
                preview, width - 1, height, app.marks, ascii=app.is_ascii
            )
        )
