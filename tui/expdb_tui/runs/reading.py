"""What the list of runs reads: the order, the pages on the screen, curves, other views.

Invariant: a refresh keeps the cursor on its run; new runs move nothing while somebody reads.
"""

from __future__ import annotations

import time
from typing import Any

from expdb.index.reader import Reader
from expdb.query.filters.suggest import quoted
from expdb.query.paging import PageRow, RunOrder, order_of, page_of
from expdb.query.select import Selection, where_of
from expdb_tui.plotting.axis import is_log_by_nature
from expdb_tui.plotting.reading import values_of_run
from expdb_tui.plotting.spark import spark
from expdb_tui.runs import folded, leaderboard
from expdb_tui.runs.cells import AT_CURVE
from expdb_tui.runs.fixed import FixedLines
from expdb_tui.runs.lines import RunLines
from expdb_tui.runs.said import View
from expdb_tui.screens.filtering import Filtering
from expdb_tui.session import DAY_MS, now_ms
from expdb_tui.widgets.rowtable import RowTable

SHARE = 10
"""Looks at the store take at most one tenth of the time."""
AHEAD = 60
"""Rows that are read before and behind those on the screen."""
LIVE = "state = running or state = paused"


class RunsReading(Filtering):
    """What the list of runs reads, and how it takes what was found."""

    HAS_PULSE = True

    def __init__(self) -> None:
        super().__init__()
        self.is_live_only = False
        self.view: View = "list"
        self.sort: str | None = None
        self.hidden: frozenset[str] = frozenset()
        self.extra: tuple[str, ...] = ()
        """Columns that are not wanted, and names of further ones."""
        self._next_look = 0.0
        self._new_above: frozenset[str] = frozenset()
        """New runs above those on the screen."""
        self._lines: RunLines | None = None

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

    def say_context(self) -> None:
        """Say how many runs there are, which, and in which order."""

    def show_empty(self, order: RunOrder) -> None:
        """Show what stands in the place of runs where there are none."""

    def page_came(self) -> None:
        """Take notice that runs on the screen were read."""

    def reload(self) -> None:
        """Read the order again, and what is on the screen."""
        head, sort, said = self.main.head, self.sort, self.said_filter()
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
                sort=self.sort_word(sort),
                failed_since_ms=now_ms() - DAY_MS,
                alarms_since_ms=since,
            )

        def take(order: RunOrder) -> None:
            self._next_look = time.monotonic() + max(0.9, SHARE * (time.monotonic() - begun))
            self._take_order(order)

        self.read(ask, take, group="order", is_new=True)

    def sort_word(self, sort: str | None) -> str | None:
        """Return an order as `--sort` names it: the best objective first."""
        if sort == "objective" and self.main.is_higher_better:
            return "-objective"
        return quoted(sort) if sort in self.extra else sort

    def said_filter(self) -> list[str]:
        """Return the filters of what is shown."""
        said = [self.filter] if self.filter.strip() else []
        return [*said, LIVE] if self.is_live_only else said

    def _take_order(self, order: RunOrder) -> None:
        if self.error:
            self.error = ""
            if self.is_typing:
                self.say_suggested()
        before, run = self.lines, self.run_here
        main = self.main
        lines = RunLines(order, main.marks, ascii=main.is_ascii, id_cells=main.session.id_cells)
        if before is not None:
            known = set(order.ids)
            lines.rows = {key: row for key, row in before.rows.items() if key in known}
            lines.old = order.changed_since(before.order) | before.old
            lines.sparks = before.sparks
            self._new_above = self._above(before.order, order, lines)
        lines.places = main.chosen_places()
        lines.sorted_by, lines.hidden, lines.extra = self.sort, self.hidden, self.extra
        main.order = order
        main.take_pulse(order)
        self._lines = lines
        self.show_empty(order)
        if self.view == "list":
            self.table.show(lines, cursor=lines.place(run))
            self.read_page()
        else:
            self.read_view()
        self.say_context()

    def _above(self, before: RunOrder, order: RunOrder, lines: RunLines) -> frozenset[str]:
        """Return the runs that came above the first row on the screen, since it was the first."""
        table = self.table
        if table.cursor == 0 or self.view != "list" or order.num_all < before.num_all:
            return frozenset()
        top = min(table.rows_shown.start, len(before.ids) - 1)
        first = lines.place(before.ids[top]) if top >= 0 else None
        if first is None:
            return frozenset()
        new = (self._new_above | set(order.ids) - set(before.ids)) if before.ids else set()
        return frozenset(run for run in new if (lines.place(run) or 0) < first)

    def read_view(self) -> None:
        """Read the leaderboard, or the runs folded over seeds."""
        view, head, said, main = self.view, self.main.head, self.said_filter(), self.main
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
                self.say_context()

        self.read(ask, take, group="view")

    def read_page(self) -> None:
        """Read the runs that came on the screen."""
        lines = self.lines
        if lines is None or self.view != "list":
            return
        shown = self.table.rows_shown
        if not lines.missing(shown):
            return
        around = range(max(0, shown.start - AHEAD), min(len(lines), shown.stop + AHEAD))
        ids, order, head = lines.missing(around), lines.order, self.main.head
        extra = self.extra

        def ask(reader: Reader) -> list[PageRow]:
            return page_of(reader, order, ids, head=head, extra=extra)

        self.read(ask, lambda rows: self._take_page(lines, rows), group="page")

    def _take_page(self, lines: RunLines, rows: list[PageRow]) -> None:
        if lines is not self.lines or lines.extra != self.extra:
            return
        lines.add(rows)
        self.table.refresh()
        self.page_came()
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

    def tick(self) -> None:
        """Look whether something has changed, at most a tenth of the time."""
        now = time.monotonic()
        if now >= self._next_look:
            self.reload()
