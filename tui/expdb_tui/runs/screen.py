"""Screen 1, Runs: what there is, what lives, how it stands against the baseline.

Invariant: a refresh keeps the cursor on its run; new runs move nothing while somebody reads.
"""

from __future__ import annotations

import shlex
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container

from expdb.errors import ExpdbError
from expdb.query.paging import RunOrder
from expdb_tui.keys import key
from expdb_tui.memory import Said, Wrong, take, take_words
from expdb_tui.runs.cells import OPTIONAL
from expdb_tui.runs.columns import ask_columns, choices_of
from expdb_tui.runs.empty import empty_rows
from expdb_tui.runs.pane import BESIDE, PreviewPane
from expdb_tui.runs.preview import Preview, read_preview
from expdb_tui.runs.reading import RunsReading
from expdb_tui.runs.said import ListLook, View, said_list
from expdb_tui.widgets.chooser import Choice
from expdb_tui.widgets.lineview import LineView
from expdb_tui.widgets.rowtable import RowTable

SORTS: tuple[str | None, ...] = (None, "objective", "experiment", "seed", "step")
"""Orders in turn: newest first, then by the columns of these names."""
PREVIEW_DELAY_S = 0.08
VIEWS: dict[str, View] = {"list": "list", "rank": "rank", "fold": "fold"}
PREVIEWED: dict[str, bool | None] = {"": None, "shown": True, "hidden": False}
WORDS = {is_so: word for word, is_so in PREVIEWED.items()}


class RunsScreen(RunsReading):
    """The list of runs."""

    NUMBER, SCOPE = 1, "runs"
    KEYS = (
        ("enter", "open"), ("space", "mark"), ("d", "compare"), ("/", "filter"), ("s", "sort"),
        ("r", "rank"), ("l", "live"), ("g", "fold seeds"), ("c", "columns"), ("p", "preview"),
        ("b", "baseline"), ("G", "go back"),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        key("space", "mark", "runs.mark"),
        key("s", "sort", "runs.sort"),
        key("l", "live", "runs.live"),
        key("r", "rank", "runs.rank"),
        key("g", "fold", "runs.fold"),
        key("p", "preview", "runs.preview"),
        key("c", "columns", "runs.columns"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._is_previewed: bool | None = None

    def body(self) -> ComposeResult:
        """Lay out the filter, the rows, the preview."""
        yield from self.filter_parts()
        with Container(id="split"):
            yield RowTable(id="runs")
            yield LineView(id="empty")
            yield PreviewPane()

    @property
    def pane(self) -> PreviewPane:
        """The preview."""
        return self.query_one(PreviewPane)

    @property
    def command(self) -> str:
        """The command line of the list as it is shown."""
        said = [f"-w {shlex.quote(text)}" for text in self.said_filter()]
        verb = {"list": "ls", "rank": "rank", "fold": "ls --over seed"}[self.view]
        sort = [f"--sort {self.sort_word(self.sort)}"] if self.sort and verb == "ls" else []
        return " ".join(["expdb", verb, *said, *sort])

    def remember(self) -> Said:
        """Return the order, the filter and the view."""
        return {
            "sort": self.sort or "", "view": self.view, "filter": self.filter,
            "live": self.is_live_only, "hidden": sorted(self.hidden),
            "columns": list(self.extra),
            "preview": WORDS[self._is_previewed],
        }  # fmt: skip

    def recall(self, said: Said) -> None:
        """List the runs as last."""
        sort, view = take(said, "sort", str, "") or None, take(said, "view", str, "list")
        preview = take(said, "preview", str, "")
        self.extra = take_words(said, "columns")
        self.hidden = frozenset(take_words(said, "hidden")) & OPTIONAL.keys()
        if sort not in (*SORTS, *self.extra) or view not in VIEWS or preview not in PREVIEWED:
            raise Wrong("sort, view or preview")
        self.sort, self.view, self._is_previewed = sort, VIEWS[view], PREVIEWED[preview]
        self.filter = take(said, "filter", str, "")
        self.is_live_only = take(said, "live", bool, False)

    def on_mount(self) -> None:
        """Start reading, and look again as long as the screen is there."""
        self.query_one("#empty").display = False
        self.context([("reading the store", "dim")])
        self._lay_out()
        self.table.focus()
        self.reload()

    def on_screen_resume(self) -> None:
        """Read what was changed on other screens."""
        if self.lines is not None:
            self.reload()

    def relook(self) -> None:
        """Draw again with other signs or colours."""
        super().relook()
        if self.pane.preview is not None:
            self.pane.show(self.pane.preview)

    def on_resize(self) -> None:
        """Move the preview to where it fits."""
        self._lay_out()

    def _lay_out(self) -> None:
        width, height = self.app.size
        self.pane.display = self._wants_preview()
        self.pane.lay_out(width, height)
        is_beside = width >= BESIDE
        self.query_one("#split").styles.layout = "horizontal" if is_beside else "vertical"

    # ------------------------------------------------------------------------------ showing

    def fail(self, error: ExpdbError) -> None:
        """Say what is wrong; what was remembered may not hold any more."""
        super().fail(error)
        if self.lines is None and (self.filter or self.sort or self.view != "list"):
            self.filter, self.sort, self.view = "", None, "list"
            self.reload()

    def say_context(self) -> None:
        """Say how many runs there are, which, and in which order."""
        lines, main = self.lines, self.main
        if lines is None:
            return
        look = ListLook(
            filter=self.filter, is_live_only=self.is_live_only, view=self.view, sort=self.sort,
            error=self.error, num_above=len(self._new_above),
        )  # fmt: skip
        marked = len(main.chosen)
        left = said_list(lines.order, look, main.marks, main.session.short)
        self.context(left, [(f"{marked} marked", "dim")] if marked else ())

    def show_empty(self, order: RunOrder) -> None:
        """Say where there is no run how to get one."""
        empty = self.query_one("#empty", LineView)
        empty.display = not order.ids
        self.table.display = bool(order.ids)
        self.pane.display = bool(order.ids) and self._wants_preview()
        if order.ids:
            return
        rows = empty_rows(order.num_all)
        empty.show(lambda width, height: rows)

    def page_came(self) -> None:
        """Read the first preview, once there is a run."""
        if self.pane.preview is None:
            self._ask_preview()

    def _wants_preview(self) -> bool:
        fits = PreviewPane.fits(*self.app.size)
        return fits if self._is_previewed is None else self._is_previewed

    @on(RowTable.Moved)
    def moved(self) -> None:
        """Read what came on the screen; the preview once the cursor rests."""
        if self._new_above and self.table.rows_shown.start == 0:
            self._new_above = frozenset()
            self.say_context()
        self.read_page()
        self.set_timer(PREVIEW_DELAY_S, self._ask_preview)

    def _ask_preview(self) -> None:
        lines, run = self.lines, self.run_here
        if lines is None or run is None or not self.pane.display:
            return
        order, columns = lines.order, self.pane.columns

        def take(found: Preview | None) -> None:
            if found is not None and found.row.row.id == self.run_here:
                self.pane.show(found)

        self.read(
            lambda reader: read_preview(reader, order, run, columns=columns), take, group="preview"
        )

    # ------------------------------------------------------------------------------ keys

    @on(RowTable.Opened)
    def opened(self, event: RowTable.Opened) -> None:
        """Open the run."""
        if self.run_here is not None:
            self.main.open_run(self.run_here)

    def action_mark(self) -> None:
        """Mark the run, and go on to the next."""
        run, lines = self.run_here, self.lines
        if run is None or lines is None:
            return
        self.mark(run)
        lines.places = self.main.chosen_places()
        lines.renew()
        if self.view != "list":
            self.read_view()
        self.table.refresh()
        self.table.action_move(1)
        self.say_context()

    def typed_out(self) -> None:
        """Go back to the rows."""
        self.table.focus()
        self.say_context()

    def action_back(self) -> None:
        """Leave the filter; then take it away."""
        if self.is_typing:
            self.close_filter()
        elif self.view != "list":
            self._turn("list")
        elif self.filter or self.is_live_only:
            self.filter, self.is_live_only, self.error = "", False, ""
            self.reload()

    def action_sort(self) -> None:
        """Order by the next column."""
        orders = (*SORTS, *self.extra)
        at = orders.index(self.sort) if self.sort in orders else -1
        self.sort = orders[(at + 1) % len(orders)]
        self.reload()

    def action_columns(self) -> None:
        """Choose the columns."""

        def chosen(hidden: frozenset[str], extra: tuple[str, ...]) -> None:
            self.hidden, self.extra = hidden, extra
            lines = self.lines
            if lines is not None:
                lines.old |= lines.rows.keys()
            if self.sort not in (*SORTS, *extra):
                self.sort = None
            self.reload()

        def ask(choices: list[Choice]) -> None:
            self.app.push_screen(*ask_columns(choices, self.hidden, self.extra, chosen))

        self.read(choices_of, ask, group="columns")

    def action_live(self) -> None:
        """Show what lives alone, or all again."""
        self.is_live_only = not self.is_live_only
        self.reload()

    def action_rank(self) -> None:
        """Show the leaderboard, or the list again."""
        self._turn("rank")

    def action_fold(self) -> None:
        """Fold the runs over seeds, or unfold them."""
        self._turn("fold")

    def _turn(self, view: View) -> None:
        self.view = "list" if self.view == view else view
        self.reload()

    def action_preview(self) -> None:
        """Show the preview or hide it."""
        self._is_previewed = not self._wants_preview()
        self._lay_out()
        self._ask_preview()
