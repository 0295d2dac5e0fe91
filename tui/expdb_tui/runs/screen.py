"""Screen 1, Runs: what there is, what lives, how it stands against the baseline.

Invariant: a refresh keeps the cursor on its run; new runs move nothing while somebody reads.
"""

from __future__ import annotations

import shlex
import time
from typing import Any, ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Input

from expdb.errors import ExpdbError
from expdb.index.reader import Reader
from expdb.query.paging import PageRow, RunOrder, order_of, page_of
from expdb.query.select import Selection, where_of
from expdb.text import plain
from expdb_tui.ink import Piece
from expdb_tui.plotting.axis import is_log_by_nature
from expdb_tui.plotting.reading import values_of_run
from expdb_tui.plotting.spark import spark
from expdb_tui.runs import folded, leaderboard
from expdb_tui.runs.cells import AT_CURVE
from expdb_tui.runs.empty import empty_rows
from expdb_tui.runs.fixed import FixedLines
from expdb_tui.runs.lines import RunLines
from expdb_tui.runs.pane import BESIDE, PreviewPane
from expdb_tui.runs.preview import Preview, read_preview
from expdb_tui.screens.page import Page
from expdb_tui.session import now_ms
from expdb_tui.widgets.filterfield import FilterField
from expdb_tui.widgets.lineview import LineView
from expdb_tui.widgets.rowtable import RowTable

View = Literal["list", "rank", "fold"]
SORTS: tuple[str | None, ...] = (None, "objective", "experiment", "seed", "step")
"""Orders in turn: newest first, then by the columns of these names."""
SHARE = 10
"""Looks at the store take at most one tenth of the time."""
AHEAD = 60
"""Rows that are read before and behind those on the screen."""
PREVIEW_DELAY_S = 0.08
DAY_MS = 86_400_000
LIVE = "state = running or state = paused"


class RunsScreen(Page):
    """The list of runs."""

    NUMBER = 1
    KEYS = (
        ("enter", "open"), ("space", "mark"), ("d", "compare"), ("/", "filter"), ("s", "sort"),
        ("r", "rank"), ("l", "live"), ("g", "fold seeds"), ("p", "preview"), ("b", "baseline"),
        ("G", "go back"),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", show=False),
        Binding("slash", "filter", show=False),
        Binding("s", "sort", show=False),
        Binding("l", "live", show=False),
        Binding("r", "rank", show=False),
        Binding("g", "fold", show=False),
        Binding("p", "preview", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.filter = ""
        self.is_live_only = False
        self.view: View = "list"
        self._sort: str | None = None
        self._is_previewed: bool | None = None
        self._error = ""
        self._next_look = 0.0
        self._lines: RunLines | None = None

    def body(self) -> ComposeResult:
        """Lay out the filter, the rows, the preview."""
        yield FilterField()
        with Container(id="split"):
            yield RowTable(id="runs")
            yield LineView(id="empty")
            yield PreviewPane()

    @property
    def pane(self) -> PreviewPane:
        """The preview."""
        return self.query_one(PreviewPane)

    @property
    def table(self) -> RowTable:
        """The rows."""
        return self.query_one("#runs", RowTable)

    @property
    def lines(self) -> RunLines | None:
        """The list, once it was read."""
        return self._lines

    @property
    def run_here(self) -> str | None:
        """The run under the cursor."""
        found = self.table.lines
        return found.run(self.table.cursor) if isinstance(found, RunLines | FixedLines) else None

    @property
    def command(self) -> str:
        """The command line of the list as it is shown."""
        said = [f"-w {shlex.quote(text)}" for text in self._said_filter()]
        verb = {"list": "ls", "rank": "rank", "fold": "ls --over seed"}[self.view]
        sort = [f"--sort {self._sort_word(self._sort)}"] if self._sort and verb == "ls" else []
        return " ".join(["expdb", verb, *said, *sort])

    def on_mount(self) -> None:
        """Start reading, and look again as long as the screen is there."""
        self.query_one(FilterField).display = False
        self.query_one("#empty").display = False
        self.context([("reading the store", "dim")])
        self._lay_out()
        self.table.focus()
        self.reload()

    def on_resize(self) -> None:
        """Move the preview to where it fits."""
        self._lay_out()

    def _lay_out(self) -> None:
        width, height = self.app.size
        self.pane.display = self._wants_preview()
        self.pane.lay_out(width, height)
        is_beside = width >= BESIDE
        self.query_one("#split").styles.layout = "horizontal" if is_beside else "vertical"

    # ------------------------------------------------------------------------------ reading

    def reload(self) -> None:
        """Read the order again, and what is on the screen."""
        head, sort, said = self.main.head, self._sort, self._said_filter()
        since = self.main.started_ms
        begun = time.monotonic()
        self._next_look = begun + 60.0

        def ask(reader: Reader) -> RunOrder:
            where = where_of(reader, Selection(where=said or None), now_ms=now_ms())
            return order_of(
                reader,
                head=head,
                where=where.condition,
                params=where.params,
                sort=self._sort_word(sort),
                failed_since_ms=now_ms() - DAY_MS,
                alarms_since_ms=since,
            )

        def take(order: RunOrder) -> None:
            self._next_look = time.monotonic() + max(0.9, SHARE * (time.monotonic() - begun))
            self._take_order(order)

        self.read(ask, take, group="order", is_new=True)

    def _sort_word(self, sort: str | None) -> str | None:
        return "-objective" if sort == "objective" and self.main.is_higher_better else sort

    def _said_filter(self) -> list[str]:
        said = [self.filter] if self.filter.strip() else []
        return [*said, LIVE] if self.is_live_only else said

    def _take_order(self, order: RunOrder) -> None:
        self._error = ""
        before, run = self.lines, self.run_here
        main = self.main
        lines = RunLines(order, main.marks, ascii=main.is_ascii, id_cells=main.session.id_cells)
        if before is not None:
            known = set(order.ids)
            lines.rows = {key: row for key, row in before.rows.items() if key in known}
            lines.old = order.changed_since(before.order) | before.old
            lines.sparks = before.sparks
        lines.places = main.chosen_places()
        lines.sorted_by = self._sort
        main.take_life(order)
        self._lines = lines
        self._show_empty(order)
        if self.view == "list":
            self.table.show(lines, cursor=lines.place(run))
            self._read_page()
        else:
            self._read_view()
        self._say_context()

    def _read_view(self) -> None:
        """Read the leaderboard, or the runs folded over seeds."""
        view, head, said, main = self.view, self.main.head, self._said_filter(), self.main
        ascii, marks = main.is_ascii, main.marks
        places = dict(main.chosen_places())

        def ask(reader: Reader) -> FixedLines[Any]:
            where = where_of(reader, Selection(where=said or None), now_ms=now_ms())
            sql, params = where.condition, where.params
            if view == "rank":
                found = leaderboard.read_leaderboard(reader, head=head, where=sql, params=params)
                return leaderboard.lines_of(found, marks, places, ascii=ascii)
            groups = folded.read_groups(reader, head=head, where=sql, params=params)
            return folded.lines_of(groups, marks, ascii=ascii)

        def take(lines: FixedLines[Any]) -> None:
            if view == self.view:
                self.table.show(lines, cursor=lines.place(self.run_here))
                self._say_context()

        self.read(ask, take, group="view")

    def _read_page(self) -> None:
        lines = self.lines
        if lines is None or self.view != "list":
            return
        shown = self.table.rows_shown
        if not lines.missing(shown):
            return
        around = range(max(0, shown.start - AHEAD), min(len(lines), shown.stop + AHEAD))
        ids, order, head = lines.missing(around), lines.order, self.main.head

        def ask(reader: Reader) -> list[PageRow]:
            return page_of(reader, order, ids, head=head)

        self.read(ask, lambda rows: self._take_page(lines, rows), group="page")

    def _take_page(self, lines: RunLines, rows: list[PageRow]) -> None:
        if lines is not self.lines:
            return
        lines.add(rows)
        self.table.refresh()
        if self.pane.preview is None:
            self._ask_preview()
        if self.size.width >= AT_CURVE:
            self._read_sparks(lines)

    def _read_sparks(self, lines: RunLines) -> None:
        key, ascii = lines.order.metric, self.main.is_ascii
        wanted = [
            run
            for at in self.table.rows_shown
            if (run := lines.run(at)) and (run not in lines.sparks or run in lines.order.is_live)
        ]
        if not wanted:
            return

        def ask(reader: Reader) -> dict[str, str]:
            found: dict[str, str] = {}
            for run in wanted:
                for name in ("train/loss", key or ""):
                    values = values_of_run(reader, run, name, 48) if name else None
                    if values is not None:
                        is_log = is_log_by_nature(name)
                        found[run] = spark(values, 12, is_log=is_log, ascii=ascii)
                        break
                else:
                    found[run] = ""
            return found

        def take(found: dict[str, str]) -> None:
            lines.sparks |= found
            lines.renew()
            self.table.refresh()

        self.read(ask, take, group="sparks")

    def fail(self, error: ExpdbError) -> None:
        """Say what is wrong; of a filter beside it."""
        if self.query_one(FilterField).display:
            self._error = error.message
            self._say_context()
            return
        super().fail(error)

    def tick(self) -> None:
        """Look whether something has changed, at most a tenth of the time."""
        now = time.monotonic()
        if now >= self._next_look:
            self.reload()

    # ------------------------------------------------------------------------------ showing

    def _say_context(self) -> None:
        lines = self.lines
        if lines is None:
            return
        order = lines.order
        left: list[Piece] = [(f"{len(order.ids):,} of {order.num_all:,}", "text")]
        if len(order.ids) == order.num_all:
            left = [(f"{order.num_all:,} run{'' if order.num_all == 1 else 's'}", "text")]
        if self.filter.strip():
            left += [("   filter ", "dim"), (plain(self.filter), "accent")]
        if self.is_live_only:
            left += [("   live only", "accent")]
        if self.view == "rank":
            left += [
                ("   by ", "dim"),
                (plain(order.metric or ""), "accent"),
                (", best first", "dim"),
            ]
        elif self.view == "fold":
            left += [("   one row a config, its seeds folded", "dim")]
        elif self._sort is not None:
            left += [("   sort ", "dim"), (self._sort, "text")]
        if order.baseline is not None:
            left += [("   baseline ", "dim"), (self.main.session.short(order.baseline.id), "text")]
        if order.warnings:
            said = f"{len(order.warnings)} damaged: expdb fsck"
            left += [(f"   {self.main.marks.event} {said}", "warn")]
        if self._error:
            left += [(f"   {plain(self._error)}", "warn")]
        marked = len(self.main.chosen)
        self.context(left, [(f"{marked} marked", "dim")] if marked else ())

    def _show_empty(self, order: RunOrder) -> None:
        empty = self.query_one("#empty", LineView)
        empty.display = not order.ids
        self.table.display = bool(order.ids)
        self.pane.display = bool(order.ids) and self._wants_preview()
        if order.ids:
            return
        rows = empty_rows(order.num_all)
        empty.show(lambda width, height: rows)

    def _wants_preview(self) -> bool:
        fits = PreviewPane.fits(*self.app.size)
        return fits if self._is_previewed is None else self._is_previewed

    @on(RowTable.Moved)
    def moved(self) -> None:
        """Read what came on the screen; the preview once the cursor rests."""
        self._read_page()
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
        self.main.chosen.toggle(run)
        lines.places = self.main.chosen_places()
        lines.renew()
        if self.view != "list":
            self._read_view()
        self.table.refresh()
        self.table.action_move(1)
        self._say_context()

    def action_filter(self) -> None:
        """Type a filter."""
        self.query_one("#context").display = False
        self.query_one(FilterField).open(self.filter)

    @on(FilterField.Typed)
    def filter_typed(self, event: FilterField.Typed) -> None:
        """Follow what is typed."""
        self.filter = event.value
        self.reload()

    @on(Input.Submitted, "#filter")
    def filter_done(self) -> None:
        """Go back to the rows."""
        self._close_filter()

    def _close_filter(self) -> None:
        self.query_one(FilterField).display = False
        self.query_one("#context").display = True
        self.table.focus()
        self._say_context()

    def action_back(self) -> None:
        """Leave the filter; then take it away."""
        if self.query_one(FilterField).display:
            self._close_filter()
        elif self.view != "list":
            self._turn("list")
        elif self.filter or self.is_live_only:
            self.filter, self.is_live_only, self._error = "", False, ""
            self.reload()

    def action_sort(self) -> None:
        """Order by the next column."""
        self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)]
        self.reload()

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
