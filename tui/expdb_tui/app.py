"""The terminal app: a table of runs, and one run by itself.

Invariant: queries run in worker threads; a refresh keeps the cursor on its run. Names are shown as
plain text, never as markup.
"""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.theme import Theme
from textual.widgets import DataTable, Footer, Static

from expdb.errors import ExpdbError
from expdb.report.style import Style
from expdb_tui.detail import DetailScreen
from expdb_tui.load import Loaded, Source, now_ms
from expdb_tui.rows import cells_of, heads, summary

DARK = Theme(
    name="expdb-dark",
    primary="#6cb6ff",
    secondary="#8794a5",
    warning="#dcb44e",
    error="#f2777f",
    success="#4cc2a0",
    accent="#6cb6ff",
    foreground="#d0d7e1",
    background="#12161d",
    surface="#1a202a",
    panel="#1a202a",
    dark=True,
)


class RunsTable(DataTable[Text]):
    """The table of runs; Enter is named in the footer."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "open")]


class RunsApp(App[None]):
    """A table of runs, newest first."""

    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "refresh", "refresh"),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, source: Source, *, ascii: bool = False) -> None:
        super().__init__()
        self._source = source
        self._ascii = ascii
        self.loaded: Loaded | None = None

    def compose(self) -> ComposeResult:
        """Lay out the context line, the table, the message of an empty store, and the footer."""
        yield Static("reading the store", id="context", markup=False)
        yield RunsTable(id="runs", cursor_type="row", zebra_stripes=False)
        yield Static("", id="empty", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Set the theme, and start reading."""
        self.register_theme(DARK)
        self.theme = DARK.name
        self.query_one("#empty").display = False
        self._table().focus()
        self.load()

    def _table(self) -> RunsTable:
        return self.query_one("#runs", RunsTable)

    @property
    def style_of_text(self) -> Style:
        """How the lines of a run are drawn."""
        width = max(40, self.size.width - 2)
        id_cells = self.loaded.id_cells if self.loaded else 4
        return Style(
            ascii=self._ascii, width=width, terminal=True, now_ms=now_ms(), id_cells=id_cells
        )

    @work(thread=True, exclusive=True, group="runs")
    def load(self) -> None:
        """Read the runs in a worker thread."""
        try:
            found = self._source.runs()
        except ExpdbError as error:
            self.call_from_thread(self.fail, error.message)
            return
        self.call_from_thread(self.fill, found)

    def fail(self, message: str) -> None:
        """Say what went wrong; the rows that are there stay."""
        self.query_one("#context", Static).update(f"error: {self.style_of_text.say(message)}")

    def fill(self, loaded: Loaded) -> None:
        """Show the runs, the cursor on the run where it was."""
        before = self.run_at_cursor()
        self.loaded, listing = loaded, loaded.listing
        table = self._table()
        table.clear(columns=True)
        for head in heads(listing):
            table.add_column(head)
        style = self.style_of_text
        for cells, row in zip(cells_of(listing, style), listing.rows, strict=True):
            table.add_row(*cells, key=row.id)
        ids = [row.id for row in listing.rows]
        if before in ids:
            table.move_cursor(row=ids.index(before), animate=False)
        empty = self.query_one("#empty", Static)
        empty.update(
            f"no runs yet in the store {style.say(self._source.store.name)}\n\n"
            "python train.py +exp=baseline"
        )
        empty.display = not ids
        table.display = bool(ids)
        if ids:
            table.focus()
        name = style.say(self._source.store.name)
        self.query_one("#context", Static).update(f"{name}   {summary(listing)}")

    def run_at_cursor(self) -> str | None:
        """Return the id of the run under the cursor; None where there is none."""
        table = self._table()
        rows = self.loaded.listing.rows if self.loaded else ()
        return rows[min(table.cursor_row, len(rows) - 1)].id if rows else None

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the run of the row."""
        if event.row_key.value is not None:
            run = event.row_key.value
            self.push_screen(DetailScreen(self._source, run, lambda: self.style_of_text))

    def action_refresh(self) -> None:
        """Read the store again."""
        self.load()
