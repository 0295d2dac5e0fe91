"""One run by itself: the text of `expdb show`, which scrolls."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from expdb.errors import ExpdbError
from expdb.report.style import Style
from expdb_tui.load import Source


class DetailScreen(Screen[None]):
    """The text of one run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "back", "back"),
        Binding("r", "refresh", "refresh"),
        Binding("q", "app.quit", "quit"),
    ]

    def __init__(self, source: Source, run: str, style: Callable[[], Style]) -> None:
        """`style` is asked at each reading: how wide the screen is then, and what time it is."""
        super().__init__()
        self._style = style
        self._source = source
        self._run = run
        self.text = ""

    def compose(self) -> ComposeResult:
        """Lay out the text and the footer."""
        with VerticalScroll(id="scroll"):
            yield Static("reading the run", id="detail", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Start reading."""
        self.query_one("#scroll").focus()
        self.load()

    @work(thread=True, exclusive=True, group="detail")
    def load(self) -> None:
        """Read the run in a worker thread."""
        style = self._style()
        try:
            lines = self._source.run(self._run, style)
        except ExpdbError as error:
            lines = [f"error: {style.say(error.message)}"]
        self.app.call_from_thread(self.show_text, "\n".join(lines))

    def show_text(self, text: str) -> None:
        """Show the text of the run."""
        self.text = text
        self.query_one("#detail", Static).update(text)

    def action_back(self) -> None:
        """Go back to the runs."""
        self.dismiss()

    def action_refresh(self) -> None:
        """Read the run again."""
        self.load()
