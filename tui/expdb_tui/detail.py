"""One run by itself: the text of `expdb show`, which scrolls."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from expdb.errors import ExpdbError
from expdb_tui.load import Source

if TYPE_CHECKING:
    from expdb_tui.app import RunsApp


class DetailScreen(Screen[None]):
    """The text of one run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "back", "back"),
        Binding("r", "refresh", "refresh"),
        Binding("q", "app.quit", "quit"),
    ]

    def __init__(self, source: Source, run: str) -> None:
        super().__init__()
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
        app = cast("RunsApp", self.app)
        try:
            lines = self._source.run(self._run, app.style_of_text)
        except ExpdbError as error:
            lines = [f"error: {app.style_of_text.say(error.message)}"]
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
