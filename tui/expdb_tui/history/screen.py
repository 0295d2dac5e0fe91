"""Screen 6, History: where runs come from, and what was changed; undo and going back.

Invariant: the cursor stays on its run when the store changes; it never stands on an edge.
"""

from __future__ import annotations

import time
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical

from expdb.index.reader import Reader
from expdb_tui.goback.flow import undo_newest
from expdb_tui.history.detail import detail_rows
from expdb_tui.history.lines import LineageLines, OpLines
from expdb_tui.history.reading import Facts, HistoryRead, place_of, read_facts, read_history
from expdb_tui.history.tables import Lineage, OpTable
from expdb_tui.ink import Piece
from expdb_tui.keys import key
from expdb_tui.memory import Said, take
from expdb_tui.screens.page import Page
from expdb_tui.widgets.lineview import LineView
from expdb_tui.widgets.rowtable import RowTable

BESIDE, ROOMY, SHORT = 120, 100, 80
OPS_BELOW, OPS_BESIDE = 7, 11
RIGHT_CELLS = 44
SHARE = 10
"""Looks at the store take at most one tenth of the time."""
LEAST_PAUSE_S = 2.0


class HistoryScreen(Page):
    """Lineage and operations."""

    NUMBER, SCOPE = 6, "history"
    KEYS = (
        ("u", "undo"), ("G", "go back"), ("enter", "open"), ("tab", "lineage / operations"),
        ("g", "fold seeds"), ("d", "compare"),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        key("u", "undo", "history.undo"),
        key("g", "fold", "history.fold"),
        key("tab", "turn", "history.turn", priority=True),
        key("shift+tab", "turn", "history.turn", priority=True),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.found: HistoryRead | None = None
        self._unfolds = False
        self._next_look = 0.0

    def body(self) -> ComposeResult:
        """Lay out the graph, the operations, and what is said of a run."""
        with Container(id="past"):
            yield Lineage(id="lineage")
            yield LineView(id="between")
            with Vertical(id="beside"):
                yield OpTable(id="ops")
                yield LineView(id="facts")
        yield LineView(id="empty")

    @property
    def lineage(self) -> Lineage:
        """The graph."""
        return self.query_one("#lineage", Lineage)

    @property
    def lines(self) -> LineageLines | None:
        """The rows of the graph, once they were read."""
        found = self.lineage.lines
        return found if isinstance(found, LineageLines) else None

    @property
    def run_here(self) -> str | None:
        """The run of the node under the cursor."""
        lines = self.lines
        node = lines.node(self.lineage.cursor) if lines is not None else None
        return lines.found.nodes[node].lead.id if lines is not None and node is not None else None

    @property
    def command(self) -> str:
        """The command line of what is shown."""
        return "expdb log --graph" if self.lineage.has_focus else "expdb ops"

    def on_mount(self) -> None:
        """Prepare the tables."""
        self.query_one("#empty").display = False
        self.context([("reading the lineage", "dim")])
        self._arrange()
        self.lineage.focus()

    def on_screen_resume(self) -> None:
        """Read the history as it is now."""
        self.reload()

    def on_resize(self) -> None:
        """Move the operations to where they fit."""
        self._arrange()

    def _arrange(self) -> None:
        width, height = self.app.size
        is_beside = width >= BESIDE
        self.query_one("#past").styles.layout = "horizontal" if is_beside else "vertical"
        beside, ops = self.query_one("#beside"), self.query_one("#ops", RowTable)
        between = self.query_one("#between", LineView)
        between.display = is_beside
        self.query_one("#facts").display = is_beside
        beside.styles.width = max(RIGHT_CELLS, width * 36 // 100) if is_beside else "1fr"
        below = min(OPS_BELOW, max(3, height // 3), max(3, len(ops.lines) + 1))
        beside.styles.height = "1fr" if is_beside else below
        most = min(OPS_BESIDE, height // 2) if is_beside else OPS_BELOW
        ops.styles.height = min(len(ops.lines) + 1, most) if is_beside else "1fr"
        line: list[Piece] = [(self.main.marks.divider, "rule")]
        between.show(lambda cells, high: [line] * high)

    def remember(self) -> Said:
        """Return whether seeds are unfolded."""
        return {"unfolds": self._unfolds}

    def recall(self, said: Said) -> None:
        """Unfold as last."""
        self._unfolds = take(said, "unfolds", bool, False)

    # ------------------------------------------------------------------------------ reading

    def reload(self) -> None:
        """Read lineage and operations."""
        main, begun, unfolds = self.main, time.monotonic(), self._unfolds
        session = main.session
        self._next_look = begun + 600.0

        def ask(reader: Reader) -> HistoryRead:
            return read_history(
                reader,
                directory=session.directory,
                worktree=session.worktree_of(),
                head=session.head_now(),
                unfolds=unfolds,
            )

        def take(found: HistoryRead) -> None:
            took = time.monotonic() - begun
            self._next_look = time.monotonic() + max(LEAST_PAUSE_S, SHARE * took)
            self._take(found)

        self.read(ask, take, group="history", is_new=True)

    def _take(self, found: HistoryRead) -> None:
        main, run = self.main, self.run_here
        main.head = found.head
        self.found = found
        is_empty = not found.nodes
        self.query_one("#empty").display = is_empty
        self.query_one("#past").display = not is_empty
        if is_empty:
            self._show_empty()
        lines = LineageLines(found, main.marks, ascii=main.is_ascii)
        node = place_of(found.nodes, run)
        if node is None:
            node = next((at for at, one in enumerate(found.nodes) if one.lead.is_head), None)
        self.lineage.show(lines, cursor=lines.row_of(node) or 0)
        ops = self.query_one("#ops", RowTable)
        op = self._op
        shown = OpLines(found.ops, main.marks)
        ids = [one.id for one in found.ops]
        ops.show(shown, cursor=ids.index(op) if op in ids else 0)
        self._arrange()
        self._mark_active()
        self._say_context()
        self._ask_facts()

    @property
    def _op(self) -> str | None:
        """The operation under the cursor; the first row stays the newest."""
        ops = self.query_one("#ops", RowTable)
        lines = ops.lines
        if not isinstance(lines, OpLines) or not ops.cursor or ops.cursor >= len(lines):
            return None
        return lines.ops[ops.cursor].id

    def _say_context(self) -> None:
        found = self.found
        if found is None:
            return
        head = found.head
        is_wide = self.app.size.width >= SHORT
        order = "  newest first   HEAD " if is_wide else "  HEAD "
        left: list[Piece] = [("Lineage", "text+bold"), (order, "dim")]
        if head is None:
            left.append(("follows the baseline", "text"))
        else:
            step = "" if head.step is None else f"@{head.step}"
            left += [(head.run, "accent"), (step, "accent")]
        if found.edits is not None:
            said = f"{found.edits} edited" if found.edits else "clean"
            left += [("  work tree ", "dim"), (said, "warn" if found.edits else "dim")]
        more = found.history.num_all - found.history.num_shown
        count = len(found.ops)
        is_roomy = self.app.size.width >= ROOMY
        right = f"{count} operation{'' if count == 1 else 's'}" if is_roomy else ""
        if more > 0 and is_roomy:
            right = f"{more:,} older runs are not shown   {right}"
        self.context(left, [(right, "dim")])

    def _show_empty(self) -> None:
        rows: list[list[Piece]] = [
            [],
            [("  No runs yet.", "text+bold")],
            [],
            [("  python train.py +exp=baseline", "accent"), ("   trains the first one", "dim")],
            [
                (
                    "  What is trained after a rollback stands here below the run it went back to.",
                    "dim",
                )
            ],
        ]
        self.query_one("#empty", LineView).show(lambda width, height: rows)

    def _ask_facts(self) -> None:
        found, lines = self.found, self.lines
        node = lines.node(self.lineage.cursor) if lines is not None else None
        if found is None or node is None or not self.query_one("#facts").display:
            return

        def take(facts: Facts | None) -> None:
            marks = self.main.marks
            self.query_one("#facts", LineView).show(
                lambda width, height: (
                    [] if facts is None else [[], *detail_rows(facts, width, height - 1, marks)]
                )
            )

        self.read(lambda reader: read_facts(reader, found, node), take, group="facts")

    @on(RowTable.Moved, "#lineage")
    def moved(self) -> None:
        """Say what is to be said of the run under the cursor, once it rests."""
        self.set_timer(0.08, self._ask_facts)

    def tick(self) -> None:
        """Look whether something has changed, at most a tenth of the time."""
        if time.monotonic() >= self._next_look:
            self.reload()

    # ------------------------------------------------------------------------------ keys

    @on(RowTable.Opened, "#lineage")
    def opened(self) -> None:
        """Open the run."""
        if self.run_here is not None:
            self.main.open_run(self.run_here)

    def action_turn(self) -> None:
        """Go to the operations, or back to the lineage."""
        ops = self.query_one("#ops", RowTable)
        (self.lineage if ops.has_focus else ops).focus()
        self.call_after_refresh(self._mark_active)

    def _mark_active(self) -> None:
        ops = self.query_one("#ops", RowTable)
        if self.lines is not None and isinstance(ops.lines, OpLines):
            self.lines.is_active, ops.lines.is_active = not ops.has_focus, ops.has_focus
            self.lineage.refresh()
            ops.refresh()

    def action_fold(self) -> None:
        """Show each seed by itself, or seeds of one variant as one."""
        self._unfolds = not self._unfolds
        self.reload()

    def action_undo(self) -> None:
        """Show what undoing the newest operation would do, and ask."""
        undo_newest(self)

    def action_back(self) -> None:
        """Go back to the runs."""
        self.main.action_go("runs")
