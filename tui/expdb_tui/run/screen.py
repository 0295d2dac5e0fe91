"""Screen 2, Run: everything about one run, in tabs.

Invariant: a refresh moves neither the tab nor what is scrolled to; a run that is gone says so, and
what was read of it stays.
"""

from __future__ import annotations

import time
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from expdb.index.reader import Reader
from expdb_tui.keys import key
from expdb_tui.memory import Said
from expdb_tui.run.config import ConfigTab
from expdb_tui.run.control import ControlKey
from expdb_tui.run.curves import CurvesTab, SystemTab
from expdb_tui.run.evals import EvalsTab
from expdb_tui.run.event_tab import EventsTab
from expdb_tui.run.facts import Facts, read_facts
from expdb_tui.run.head import NO_RUN, head_line, tab_line
from expdb_tui.run.layers import LayersTab
from expdb_tui.run.log import LogTab
from expdb_tui.run.pins import PinsTab
from expdb_tui.run.place import TabPlace
from expdb_tui.run.tab import Tab
from expdb_tui.run.tabbar import TabBar
from expdb_tui.run.texts import CodeTab, SamplesTab
from expdb_tui.run.weights import CheckpointsTab
from expdb_tui.screens.help import HelpScreen
from expdb_tui.session import now_ms
from expdb_tui.widgets.frame import KeyBar
from expdb_tui.widgets.lineview import Layout, LineView
from expdb_tui.widgets.pager import Pager
from expdb_tui.widgets.rowtable import RowTable

TABS: tuple[type[Tab], ...] = (
    CurvesTab, LogTab, ConfigTab, CodeTab, EventsTab, LayersTab, CheckpointsTab, EvalsTab,
    SamplesTab, SystemTab, PinsTab,
)  # fmt: skip
ACTS = {
    "move.up": ("up,k", "up"), "move.down": ("down,j", "down"), "move.left": ("left", "left"),
    "move.right": ("right", "right"), "move.far_left": ("shift+left", "shift+left"),
    "move.far_right": ("shift+right", "shift+right"), "move.first": ("home", "home"),
    "move.last": ("end", "end"), "move.open": ("enter", "enter"),
    "move.page_up": ("pageup", "pageup"), "move.page_down": ("pagedown", "pagedown"),
    "run.log": ("y", "y"), "run.axis": ("x", "x"), "run.smoother": ("plus,equals_sign", "+"),
    "run.rougher": ("minus", "-"), "run.events": ("e", "e"), "run.follow": ("f", "f"),
    "run.statistic": ("m", "m"), "run.z_score": ("z", "z"), "run.acknowledge": ("a", "a"),
}  # fmt: skip
"""Name of a key -> the usual keys, and what a tab gets."""
SHARE = 10
"""Reading takes at most one tenth of the time."""
ARROWS = {"↑↓": "up/down", "←→": "left/right"}


class RunScreen(ControlKey, TabPlace):
    """One run."""

    NUMBER, SCOPE = 2, "run"
    DEFAULT_CSS = """
    RunScreen { overflow: hidden; }
    #run-view, #run-text, #run-table { height: 1fr; width: 1fr; }
    #run-table { scrollbar-size: 0 0; background: $background; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        key("left_square_bracket", "tab(-1)", "run.previous_tab"),
        key("right_square_bracket", "tab(1)", "run.next_tab"),
        key("C", "control", "run.control"),
        *(key(keys, f"act('{given}')", name) for name, (keys, given) in ACTS.items()),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.facts: Facts | None = None
        self.tabs = [tab(self) for tab in TABS]
        self.tab: Tab = self.tabs[0]
        self._shown: str | None = None
        self._next_look = 0.0

    def body(self) -> ComposeResult:
        """Lay out the tabs, and the three ways in which they show."""
        yield TabBar(id="tabs")
        yield LineView(id="run-view")
        yield Pager(id="run-text")
        yield RowTable(id="run-table")

    @property
    def run_here(self) -> str | None:
        """The run that is shown."""
        return self.main.opened

    @property
    def command(self) -> str:
        """The command that says what the screen shows."""
        run = self.run_here
        return "expdb ls" if run is None else f"expdb show {self.main.session.short(run)}"

    @property
    def place(self) -> int:
        """Its place among the series: that of its mark, 0 of the baseline, else the first."""
        run = self.run_here or ""
        if self.facts is not None and self.facts.baseline is None and self.facts.order.baseline:
            return 0
        return self.main.chosen.place(run) or 1

    @property
    def view_size(self) -> tuple[int, int]:
        """Columns and rows that a tab has."""
        width, height = self.app.size
        return max(1, width - 1), max(1, height - 4)

    def remember(self) -> Said:
        """Return how curves are looked at."""
        return next(tab.remember() for tab in self.tabs if isinstance(tab, CurvesTab))

    def recall(self, said: Said) -> None:
        """Look at curves as last."""
        for tab in self.tabs:
            if isinstance(tab, CurvesTab):
                tab.recall(said)

    # ------------------------------------------------------------------------------ reading

    def on_mount(self) -> None:
        """Show nothing but the head until the run is read."""
        self._show_only("#run-view")

    def on_screen_resume(self) -> None:
        """Read the run that was opened meanwhile."""
        if self.run_here != self._shown:
            self._shown, self.facts = self.run_here, None
            for tab in self.tabs:
                tab.forget()
            self.tab = self.tabs[0]
            self.text.top = 0
            # What stands there is another run's.
            self.context([("reading the run", "dim")])
            self.query_one(TabBar).put(())
            self.show_view(lambda width, height: ())
        if self.run_here is None:
            self._show_nothing()
            return
        self._look(is_new=False)

    def reload(self) -> None:
        """Read the run again, from a new look at the store."""
        self._look(is_new=True)

    def _look(self, *, is_new: bool) -> None:
        run, order, head = self.run_here, self.main.order, self.main.head
        if run is None:
            return
        begun = time.monotonic()
        self._next_look = begun + 60.0

        def ask(reader: Reader) -> Facts:
            return read_facts(reader, run, order, head)

        def take(facts: Facts) -> None:
            self._next_look = time.monotonic() + max(0.9, SHARE * (time.monotonic() - begun))
            if run == self.run_here:
                self._take(facts)

        self.read(ask, take, group="facts", is_new=is_new)

    def _take(self, facts: Facts) -> None:
        before, self.facts = self.facts, facts
        self.say_head()
        if before is None:
            first = next((at for at, tab in enumerate(self.tabs) if tab.has(facts)), 0)
            self.open_tab(first)
        elif facts.run != before.run:
            self.say_tabs()
            if self.tab.has(facts) and not self.tab.has(before):
                self.tab.open()
            elif self.tab.has(facts):
                self.tab.refresh()

    def tick(self) -> None:
        """Look again, as long as the run trains."""
        if self.facts is None or time.monotonic() < self._next_look:
            return
        self.say_head()
        if self.facts.run.state.is_live:
            self.reload()

    def relook(self) -> None:
        """Draw again with other signs or colours."""
        super().relook()
        self.on_resize()

    def on_resize(self) -> None:
        """Lay out for the new size."""
        if self.facts is not None:
            self.say_head()
            self.say_tabs()
            self.tab.resized()

    # ------------------------------------------------------------------------------ showing

    def say_head(self) -> None:
        """Say which run this is, and how far it is."""
        if self.facts is not None:
            left, right = head_line(
                self.facts, self.app.size.width, now_ms(), ascii=self.main.is_ascii,
                id_cells=self.main.session.id_cells,
            )  # fmt: skip
            self.context(left, right)

    def is_open(self, tab: object) -> bool:
        """Tell whether a tab is the one that is shown."""
        return self.tab is tab

    def say_tabs(self) -> None:
        """Say which tabs there are, and what the keys of the open one are."""
        if self.facts is None:
            return
        looks = [tab.look(self.facts) for tab in self.tabs]
        bar = self.query_one(TabBar)
        left, bar.spans = tab_line(looks, self.tabs.index(self.tab), self.app.size.width - 2)
        bar.put(left, self.tab.tail())
        keys = self.query_one(KeyBar)
        names = self.main.keys.shown(self.SCOPE, self.tab.KEYS)
        if self.main.is_ascii:
            names = [(ARROWS.get(key, key), name) for key, name in names]
        keys.keys = names
        keys.refresh()

    def _show_nothing(self) -> None:
        self.context([("no run is open", "dim")])
        self.show_view(lambda width, height: NO_RUN)

    def _show_only(self, wanted: str) -> None:
        for name in ("#run-view", "#run-text", "#run-table"):
            self.query_one(name).display = name == wanted
        if wanted == "#run-view":
            self.set_focus(None)
        else:
            self.query_one(wanted).focus()

    def show_view(self, layout: Layout) -> None:
        """Show rows that fit the size."""
        self._show_only("#run-view")
        # One column of air at the right, as everywhere.
        self.query_one("#run-view", LineView).show(lambda width, height: layout(width - 1, height))

    def show_text(self) -> Pager:
        """Show rows that are scrolled, and return what holds them."""
        self._show_only("#run-text")
        return self.text

    @property
    def text(self) -> Pager:
        """What holds rows that are scrolled."""
        return self.query_one("#run-text", Pager)

    def show_table(self) -> RowTable:
        """Show a table, and return it."""
        self._show_only("#run-table")
        return self.query_one("#run-table", RowTable)

    # ------------------------------------------------------------------------------ keys

    def open_tab(self, at: int) -> None:
        """Show a tab; of one without data how it gets some."""
        if self.facts is None:
            return
        self.tab = self.tabs[at]
        self.say_tabs()
        self.text.follows = False
        if self.tab.has(self.facts):
            self.text.top = 0
            self.tab.open()
        else:
            rows = self.tab.teach_rows()
            self.show_view(lambda width, height: rows)

    def action_tab(self, by: int) -> None:
        """Go to the next tab that has something to show."""
        facts = self.facts
        if facts is None:
            return
        num, at = len(self.tabs), self.tabs.index(self.tab)
        places = [(at + by * step) % num for step in range(1, num)]
        found = next((place for place in places if self.tabs[place].has(facts)), None)
        if found is not None:
            self.open_tab(found)

    def action_act(self, key: str) -> None:
        """Let the tab do what a key means in it."""
        if self.facts is not None and self.tab.has(self.facts):
            self.tab.act(key)

    def action_help(self) -> None:
        """Show the keys of the tab."""
        self.app.push_screen(HelpScreen(self.main.keys.shown(self.SCOPE, self.tab.KEYS)))

    def action_back(self) -> None:
        """Leave what is open in the tab, then the run."""
        if self.facts is None or not self.tab.back():
            self.app.switch_mode("runs")

    @on(TabBar.Picked)
    def picked(self, event: TabBar.Picked) -> None:
        """Open the tab that was clicked."""
        self.open_tab(event.at)

    @on(RowTable.Opened)
    def opened(self) -> None:
        """Open the row of a table."""
        self.action_act("enter")

    @on(RowTable.Moved)
    def moved(self) -> None:
        """Take notice of another row."""
        self.action_act("moved")

    @on(Pager.Scrolled)
    def scrolled(self) -> None:
        """Take notice that somebody scrolled."""
        self.action_act("scrolled")
