"""Screen 3, Compare: is it better, what differs, and by how much.

Invariant: what is compared is what is marked, else the run of the cursor against the baseline; the
verdict stands above everything and does not scroll.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from expdb.index.reader import Reader
from expdb.query.runs import baseline_row
from expdb_tui.compare.layout import (
    HALVES,
    LEFT,
    ONE,
    RIGHT,
    Look,
    halves,
    left_width,
    one_column,
    with_plot,
)
from expdb_tui.compare.meant import free_places, meant, why_none
from expdb_tui.compare.radar import with_radar
from expdb_tui.compare.reading import Asked, Compared, read_compared
from expdb_tui.compare.sections import patch_rows
from expdb_tui.compare.tables import num_shown
from expdb_tui.compare.verdict import about, verdict, who
from expdb_tui.ink import Piece
from expdb_tui.keys import key
from expdb_tui.memory import Said, take
from expdb_tui.screens.page import Page
from expdb_tui.widgets.frame import Bar
from expdb_tui.widgets.lineview import LineView
from expdb_tui.widgets.pager import Pager

SHARE = 10
"""Looks at the store take at most one tenth of the time."""
LEAST_PAUSE_S = 2.0


class VerdictBar(Bar):
    """The verdict, on a ground of its own."""

    ground = "surface"


class CompareScreen(Page):
    """The comparison."""

    NUMBER, SCOPE = 3, "compare"
    KEYS = (
        ("a", "show equal"), ("o", "over seeds"), ("tab", "section"), ("enter", "code diff"),
        ("4", "plot"), ("G", "go back"),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        key("a", "all", "compare.equal"),
        key("o", "over", "compare.seeds"),
        key("tab", "section(1)", "compare.next_part", priority=True),
        key("shift+tab", "section(-1)", "compare.previous_part", priority=True),
        key("enter", "code", "move.open"),
        key("left", "shift(-1)", "move.left"),
        key("right", "shift(1)", "move.right"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.shown: Compared | None = None
        self._asked: Asked | None = None
        self._is_over: bool | None = None
        self._is_all = False
        self._active = ""
        self._first = 1
        self._starts: dict[str, int] = {}
        self._next_look = 0.0

    def body(self) -> ComposeResult:
        """Lay out the verdict, the halves, and the code that lies over them."""
        yield VerdictBar(id="verdict")
        with Horizontal(id="halves"):
            yield Pager(id="left")
            yield LineView(id="between")
            yield Pager(id="right")
        yield Pager(id="patch")
        yield LineView(id="empty")

    @property
    def run_here(self) -> str | None:
        """The run that is compared with the first."""
        return self._asked.runs[1] if self._asked is not None else None

    @property
    def command(self) -> str:
        """The command line of the comparison."""
        if self._asked is None or self.shown is None:
            return "expdb compare"
        runs = " ".join(map(self.main.session.short, self._asked.runs))
        return f"expdb compare {runs}" + (" --over seed" if self.shown.seeds is not None else "")

    def on_mount(self) -> None:
        """Hide what is not asked for yet."""
        self.query_one("#patch").display = False
        self.query_one("#empty").display = False
        self._arrange()

    def on_screen_resume(self) -> None:
        """Compare what is marked now."""
        self._compare(is_new=False)

    def relook(self) -> None:
        """Draw again with other signs or colours."""
        super().relook()
        self._arrange()

    def on_resize(self) -> None:
        """Fit the halves to the width."""
        self._arrange()

    def remember(self) -> Said:
        """Return whether what is equal is shown too."""
        return {"equal": self._is_all}

    def recall(self, said: Said) -> None:
        """Show it as last."""
        self._is_all = take(said, "equal", bool, False)

    # ------------------------------------------------------------------------------ reading

    def reload(self) -> None:
        """Compare again, as the store is now."""
        self._compare(is_new=True)

    def tick(self) -> None:
        """Compare again while one of the runs goes on, at most a tenth of the time."""
        shown = self.shown
        is_live = shown is not None and any(run.state.is_alive for run in shown.found.runs)
        if is_live and time.monotonic() >= self._next_look:
            self.reload()

    def _compare(self, *, is_new: bool) -> None:
        """Read which runs are meant, and compare them."""
        begun = time.monotonic()
        self._next_look = begun + 600.0
        main, over = self.main, self._is_over
        marked, here = main.chosen.runs, main.opened
        places = main.chosen_places()
        directory, head = main.session.directory, main.head

        def ask(reader: Reader) -> Compared | str:
            row = baseline_row(reader, head=head)
            base = row.id if row is not None else None
            runs = meant(base, marked, here)
            if len(runs) < 2:
                return why_none(base, marked, here)
            at = tuple(0 if run == base else places.get(run, 0) for run in runs)
            asked = Asked(
                runs=runs, places=free_places(at, has_base=base in runs), is_over_seeds=over
            )
            return read_compared(reader, asked, cwd=directory, head=head)

        if self.shown is None:
            self.context([("comparing", "dim")])

        def take(found: Compared | str) -> None:
            took = time.monotonic() - begun
            self._next_look = time.monotonic() + max(LEAST_PAUSE_S, SHARE * took)
            self._take(found)

        self.read(ask, take, group="compare", is_new=is_new)

    def _take(self, found: Compared | str) -> None:
        is_empty = isinstance(found, str)
        self.query_one("#empty").display = is_empty
        self.query_one("#halves").display = not is_empty
        self.query_one("#verdict").display = not is_empty
        if isinstance(found, str):
            self.shown = self._asked = None
            self.context([("Compare", "text+bold")])
            self._show_empty(found)
            return
        is_same = self._asked is not None and self._asked.runs == found.asked.runs
        self.shown, self._asked = found, found.asked
        if not is_same:
            self._first, self._active = 1, ""
            self.query_one("#patch").display = False
            self._focus()
        self._show(keep=is_same)

    def _show_empty(self, why: str) -> None:
        said, rest = why.split("\n", 1) if "\n" in why else (why, "")
        rows: list[list[Piece]] = [[], [(f"  {said}", "text+bold")], []]
        for line in rest.splitlines():
            key, _, what = line.partition("|")
            rows.append([(f"  {key}", "accent"), (f"  {what}", "dim")])
        self.query_one("#empty", LineView).show(lambda width, height: rows)

    # ------------------------------------------------------------------------------ showing

    def _arrange(self) -> None:
        is_wide = self.app.size.width >= HALVES
        self.query_one("#right").display = is_wide
        self.query_one("#between").display = is_wide
        if self.shown is not None:
            self._show(keep=True)

    def _show(self, *, keep: bool) -> None:
        shown = self.shown
        if shown is None:
            return
        marks, width, top = self.main.marks, self.app.size.width, None if keep else 0
        self.context(who(shown, marks), about(shown, width))
        self.query_one("#verdict", Bar).put(verdict(shown, marks, width))
        look = Look(marks=marks, is_all=self._is_all, active=self._active, first=self._first)
        left, right = self.query_one("#left", Pager), self.query_one("#right", Pager)
        if width < HALVES:
            left.styles.width = "1fr"
            rows, self._starts = one_column(shown, width - 2, look)
            left.show(
                lambda wide, high: _margin(with_plot(shown, rows, wide - 2, high, look)), top=top
            )
            return
        wide = left_width(shown, width)
        left.styles.width = wide
        mine, others, self._starts = halves(shown, wide - 2, width - wide - 4, look)
        left.show(
            lambda cells, high: _margin(with_plot(shown, mine, cells - 2, high, look)), top=top
        )
        right.show(
            lambda cells, high: _margin(with_radar(shown, others, cells - 2, high, marks)), top=top
        )
        line: list[Piece] = [(marks.divider, "rule")]
        self.query_one("#between", LineView).show(lambda cells, high: [line] * high)

    # ------------------------------------------------------------------------------ keys

    def _focus(self) -> None:
        self.query_one("#right" if self._active in RIGHT and self._is_wide else "#left").focus()

    @property
    def _is_wide(self) -> bool:
        return self.app.size.width >= HALVES

    def action_section(self, by: int) -> None:
        """Go to the next part."""
        order = [
            name for name in ((*LEFT, *RIGHT) if self._is_wide else ONE) if name in self._starts
        ]
        if not order or self.query_one("#patch").display:
            return
        at = order.index(self._active) + by if self._active in order else (0 if by > 0 else -1)
        self._active = order[at % len(order)]
        self._focus()
        self._show(keep=True)
        holder = "#right" if self._active in RIGHT and self._is_wide else "#left"
        self.query_one(holder, Pager).jump(self._starts[self._active])

    def action_all(self) -> None:
        """Show what is equal too, or hide it."""
        self._is_all = not self._is_all
        self._show(keep=True)

    def action_over(self) -> None:
        """Compare means over seeds, or single runs."""
        shown = self.shown
        if shown is None:
            return
        if not shown.can_fold:
            self.say("over seeds these runs are one group, or one has no finished run")
            return
        self._is_over = shown.seeds is None
        self._compare(is_new=False)

    def action_shift(self, by: int) -> None:
        """Show the other runs, where not all have a column."""
        shown = self.shown
        if shown is None:
            return
        width = self.query_one("#left").size.width - 2
        last = len(shown.places) - num_shown(shown, width)
        self._first = max(1, min(last, self._first + by))
        self._show(keep=True)

    def action_code(self) -> None:
        """Show the code that differs, whole."""
        shown, patch = self.shown, self.query_one("#patch", Pager)
        if shown is None or patch.display:
            return
        if not any(one.text or one.note for one in shown.patches):
            self.say("the code is the same")
            return
        rows = patch_rows(shown.patches, self.main.marks)
        patch.show(lambda width, height: rows, top=0)
        self.query_one("#halves").display = False
        patch.display = True
        patch.focus()

    def action_back(self) -> None:
        """Leave the code; then go back to the runs."""
        patch = self.query_one("#patch")
        if patch.display:
            patch.display = False
            self.query_one("#halves").display = True
            self._focus()
            return
        self.main.action_go("runs")


def _margin(rows: Iterable[Sequence[Piece]]) -> list[list[Piece]]:
    return [[(" ", ""), *row] for row in rows]
