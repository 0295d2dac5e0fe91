"""Screen 5, Matrix: what is declared, by experiment and seed; what is done, stale, missing.

Invariant: the cursor stays on its experiment and seed when the store changes; nothing runs before
its plan was shown.
"""

from __future__ import annotations

import time
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from expdb.index.reader import Reader
from expdb.query.filters.suggest import Suggestions
from expdb.query.status_results import StatusRow
from expdb.text import plain
from expdb_tui.ink import Piece
from expdb_tui.keys import key
from expdb_tui.matrix.cells import counts_of
from expdb_tui.matrix.chosen import filtered, suggested
from expdb_tui.matrix.detail import detail_rows
from expdb_tui.matrix.empty import EMPTY
from expdb_tui.matrix.reading import MatrixRead, read_matrix
from expdb_tui.matrix.running import RunMissing
from expdb_tui.matrix.table import CellTable, MatrixLines
from expdb_tui.memory import Said, take
from expdb_tui.widgets.lineview import LineView
from expdb_tui.widgets.rowtable import RowTable

SHARE = 10
"""Looks at the store take at most one tenth of the time."""
LEAST_PAUSE_S = 2.0
SAY_EVERY_S = 0.1
RUNNABLE = ("missing", "crashed", "preempted")


class MatrixScreen(RunMissing):
    """Experiments by seeds."""

    NUMBER, SCOPE = 5, "matrix"
    KEYS = (
        ("enter", "runs"), ("R", "run what is missing"), ("space", "mark"), ("/", "filter"),
        ("m", "metric"), ("d", "compare"), ("G", "go back"),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        key("space", "mark", "matrix.mark"),
        key("m", "metric", "matrix.metric"),
    ]
    EXAMPLE = "moe stale"

    def __init__(self) -> None:
        super().__init__()
        self.metric: str | None = None
        """What is shown besides the objective."""
        self._next_look = 0.0
        self._said_at = 0.0

    def body(self) -> ComposeResult:
        """Lay out the table and what is said of a cell."""
        yield from self.filter_parts()
        yield CellTable(id="matrix")
        yield LineView(id="cell")
        yield LineView(id="empty")

    @property
    def table(self) -> CellTable:
        """The rows."""
        return self.query_one("#matrix", CellTable)

    @property
    def cell(self) -> StatusRow | None:
        """The cell under the cursor."""
        row = self.table.row
        return row.cells[self.table.column] if row and self.table.column < len(row.cells) else None

    @property
    def run_here(self) -> str | None:
        """The run of the cell under the cursor."""
        cell = self.cell
        return cell.run.id if cell is not None and cell.run is not None else None

    @property
    def command(self) -> str:
        """The command line of what is shown."""
        return "expdb status"

    def on_mount(self) -> None:
        """Prepare the table."""
        self.query_one("#empty").display = False
        self.context([("reading what is declared", "dim")])
        self.table.focus()

    def on_screen_resume(self) -> None:
        """Read what is declared now."""
        self.reload()

    def on_resize(self) -> None:
        """Fit what is said of the cell to the new size."""
        self._fit()
        self._show_cell()

    def _fit(self) -> None:
        # The rest is for what is said of the cell: six rows at least.
        table = self.table
        table.styles.height = len(table.lines) + 1
        table.styles.max_height = max(4, self.app.size.height - 3 - 6)

    # ------------------------------------------------------------------------------ reading

    def reload(self) -> None:
        """Read what is declared, and how it stands."""
        main, begun = self.main, time.monotonic()
        session, head, metric = main.session, main.head, self.metric
        self._next_look = begun + 600.0

        def tick(done: int, total: int) -> None:
            now = time.monotonic()
            if now - self._said_at > SAY_EVERY_S or done == total:
                self._said_at = now
                self.app.call_from_thread(self._say_progress, done, total)

        def ask(reader: Reader) -> MatrixRead | None:
            worktree = session.worktree_of()
            top = worktree.top if worktree is not None else None
            return read_matrix(
                reader, directory=session.directory, top=top, head=head, tick=tick, metric=metric
            )

        def take(found: MatrixRead | None) -> None:
            took = time.monotonic() - begun
            self._next_look = time.monotonic() + max(LEAST_PAUSE_S, SHARE * took)
            self._take(found)

        self.read(ask, take, group="matrix", is_new=True)

    def _say_progress(self, done: int, total: int) -> None:
        if self.is_mounted:
            self.context([(f"composing {done} of {total} experiments", "dim")])

    def _take(self, found: MatrixRead | None) -> None:
        self.found = found
        self._show()

    def _show(self) -> None:
        found, main, table = self.found, self.main, self.table
        before = table.row
        self.query_one("#empty").display = found is None
        table.display = found is not None
        self.query_one("#cell").display = found is not None
        if found is None:
            self.context([("Matrix", "text+bold")])
            self.query_one("#empty", LineView).show(lambda width, height: EMPTY)
            return
        matrix = filtered(found.matrix, self.filter)
        lines = MatrixLines(matrix, main.marks, ascii=main.is_ascii, places=main.chosen_places())
        names = [row.name for row in matrix.rows]
        at = names.index(before.name) if before is not None and before.name in names else 0
        table.show(lines, cursor=at)
        table.column = min(table.column, max(0, len(found.matrix.seeds) - 1))
        self._fit()
        self.say_matrix()
        self._show_cell()

    def say_matrix(self) -> None:
        """Say how many runs are declared, and how they stand."""
        found = self.found
        if found is None:
            return
        matrix = found.matrix
        by = "x" if self.main.is_ascii else "×"
        num = len(self.table.lines)
        count = f"{num} of {len(matrix.rows)}" if num != len(matrix.rows) else f"{num}"
        what = f"{count} experiments {by} {len(matrix.seeds)} seeds"
        left: list[Piece] = [(what, "text+bold"), *counts_of(matrix, self.main.is_ascii)]
        if self.metric is not None and matrix.objective is not None:
            left += [("   ", ""), (plain(matrix.objective.metric), "accent")]
        if self.filter.strip():
            left += [("   filter ", "dim"), (plain(self.filter), "accent")]
        if matrix.num_others and self.app.size.width >= 100:
            left.append((f"   and {matrix.num_others} that nothing declares", "dim"))
        self.context(left, self._to_run(found))

    def _to_run(self, found: MatrixRead) -> list[Piece]:
        if self._runner is not None:
            return [("running what was missing", "accent")]
        if len(self.main.chosen):
            return [(f"{len(self.main.chosen)} marked", "dim")]
        count = sum(found.matrix.counts.get(state, 0) for state in RUNNABLE)
        return [("R", "accent"), (f" runs {count}", "dim")] if count else []

    @on(RowTable.Moved)
    def moved(self) -> None:
        """Say how the cell under the cursor stands."""
        self._show_cell()

    def _show_cell(self) -> None:
        row, found = self.table.row, self.found
        if row is None or found is None:
            return
        cell, seeds, at = self.cell, found.matrix.seeds, self.table.column
        seed = seeds[at] if at < len(seeds) else None
        marks, objective = self.main.marks, found.matrix.objective

        def layout(width: int, height: int) -> list[list[Piece]]:
            rows = detail_rows(
                row, cell, seed, found.declared, objective,
                width=width, height=height - 1, marks=marks,
            )  # fmt: skip
            return [[], *map(list, rows)]

        self.query_one("#cell", LineView).show(layout)

    def tick(self) -> None:
        """Look whether something has changed, and whether what runs has ended."""
        if self.has_ended():
            self._next_look = 0.0
        if time.monotonic() >= self._next_look:
            self.reload()

    # ------------------------------------------------------------------------------ keys

    @on(RowTable.Opened)
    async def opened(self) -> None:
        """List the runs of the cell."""
        row, cell = self.table.row, self.cell
        if row is None or cell is None or cell.run is None:
            self.say(
                "there is no run of this yet" if cell is not None else "nothing is declared here"
            )
            return
        name = row.name.replace("'", "''")
        seed = f" and seed = {cell.seed}" if cell.seed is not None else ""
        await self.main.list_runs(f"name = '{name}'{seed}")

    def action_mark(self) -> None:
        """Mark the run of the cell, and go on to the next."""
        run = self.run_here
        if run is None:
            self.say("there is no run of this yet")
            return
        self.mark(run)
        self._show()
        self.table.action_cell(1)

    def action_metric(self) -> None:
        """Show the next metric."""
        keys = self.found.metrics if self.found is not None else ()
        if keys:
            at = keys.index(self.metric) if self.metric in keys else 0
            following = keys[(at + 1) % len(keys)]
            self.metric = following if following != keys[0] else None
            self.reload()

    # ------------------------------------------------------------------------------ filter

    def suggestions(self, source: str, cursor: int) -> Suggestions:
        """Return names of experiments, and states."""
        found = self.found
        if found is None:
            return Suggestions(start=cursor, end=cursor)
        return suggested(found.matrix, source, cursor)

    def read_known(self) -> None:
        """Read nothing: the rows are there."""

    def filtered(self) -> None:
        """Show the rows that the filter selects."""
        self._show()

    def typed_out(self) -> None:
        """Go back to the rows."""
        self.table.focus()
        self.say_matrix()

    def remember(self) -> Said:
        """Return the filter and the metric."""
        return {"filter": self.filter, "metric": self.metric or ""}

    def recall(self, said: Said) -> None:
        """Show as last."""
        self.filter = take(said, "filter", str, "")
        self.metric = take(said, "metric", str, "") or None

    def action_back(self) -> None:
        """Leave the filter, then take it away; then go back to the runs."""
        if self.is_typing:
            self.close_filter()
        elif self.filter.strip():
            self.filter = ""
            self._show()
        else:
            self.main.action_go("runs")
