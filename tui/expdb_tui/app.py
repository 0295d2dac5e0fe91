"""The terminal app: six screens over one store, the marks they share, and the look of the ground.

Invariant: queries run in worker threads; names are shown as plain text, never as markup; no screen
writes but through a plan that asks.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import Any, ClassVar

from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.theme import Theme

from expdb.query.paging import Alarm, RunOrder
from expdb_tui.compare.screen import CompareScreen
from expdb_tui.goback.flow import go_back
from expdb_tui.history.screen import HistoryScreen
from expdb_tui.life import Life
from expdb_tui.matrix.screen import MatrixScreen
from expdb_tui.palette import Depth, Ground, Palette
from expdb_tui.plot.screen import PlotScreen
from expdb_tui.run.screen import RunScreen
from expdb_tui.runs.screen import RunsScreen
from expdb_tui.screens.page import Page
from expdb_tui.session import Session
from expdb_tui.shared import Shared
from expdb_tui.widgets.prompt import Prompt

TICK_S = 1.0


def _theme(palette: Palette) -> Theme:
    return Theme(
        name=f"expdb-{palette.ground}",
        primary=palette.accent or "ansi_blue",
        secondary=palette.dim or "ansi_default",
        warning=palette.warn or "ansi_yellow",
        error=palette.fail or "ansi_red",
        success=palette.better or "ansi_green",
        accent=palette.accent or "ansi_blue",
        foreground=palette.text or "ansi_default",
        background=palette.bg or "ansi_default",
        surface=palette.surface or "ansi_default",
        panel=palette.surface or "ansi_default",
        dark=palette.ground == "dark",
    )


class ExpdbApp(Shared):
    """What `expdb tui` runs."""

    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    MODES: ClassVar[dict[str, Any]] = {
        "runs": RunsScreen,
        "run": RunScreen,
        "compare": CompareScreen,
        "plot": PlotScreen,
        "matrix": MatrixScreen,
        "history": HistoryScreen,
    }
    DEFAULT_MODE = "runs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", show=False),
        Binding("1", "go('runs')", show=False),
        Binding("2", "go('run')", show=False),
        Binding("3,d", "go('compare')", show=False),
        Binding("4", "go('plot')", show=False),
        Binding("5", "go('matrix')", show=False),
        Binding("6", "go('history')", show=False),
        Binding("G", "go_back", show=False),
        Binding("escape", "leave", show=False),
        Binding("ctrl+r", "reload", show=False),
        Binding("colon", "verb", show=False),
    ]

    def __init__(
        self,
        session: Session,
        *,
        ascii: bool = False,
        ground: Ground = "dark",
        depth: Depth = "true",
        run: str | None = None,
    ) -> None:
        super().__init__(session, ascii=ascii, ground=ground, depth=depth)
        self._first_run = run
        self._alarms: set[Alarm] = set()
        self.animation_level = "none"

    def on_mount(self) -> None:
        """Set the look, and start to look at the store once a second."""
        theme = _theme(self.palette)
        self.register_theme(theme)
        self.theme = theme.name
        self.head = self.session.head_of()
        self.set_interval(TICK_S, self.tick)
        if self._first_run is not None:
            self.call_after_refresh(self.open_run, self._first_run)

    def on_unmount(self) -> None:
        """Give the last look at the store up."""
        self.session.close()

    def take_life(self, order: RunOrder) -> None:
        """Take what a look at the store found, for the header of all screens."""
        new = [alarm for alarm in order.alarms if alarm not in self._alarms]
        self._alarms.update(new)
        self.order = order
        self.life = Life(
            num_live=len(order.is_live),
            num_failed=order.num_failed,
            last_point_ms=order.last_point_ms,
            live_sign=self.life.live_sign,
            failed_sign=self.life.failed_sign,
        )
        self._renew_header()
        if new:
            self.bell()
            said = ", ".join(f"{alarm.name} {alarm.rule} at {alarm.step}" for alarm in new[:3])
            self._say(said)

    def _renew_header(self) -> None:
        # A dialog has none, and a screen that is only just being made has none yet.
        for header in self.screen.query("#header"):
            header.refresh()

    def tick(self) -> None:
        """Look at the store, and let the header's age go on."""
        if not self.is_running:
            return  # it is being left, and the screens may be gone already
        page = self.screen
        self._renew_header()
        if isinstance(page, Page) and page.is_mounted:
            page.tick()

    def action_go(self, mode: str) -> None:
        """Show one of the screens; it is about the run that the present one has its cursor on."""
        page = self.screen
        if not isinstance(page, Page):
            return
        if page.run_here is not None:
            self.opened = page.run_here
        if self.current_mode == mode:
            page.reload()
        else:
            self.switch_mode(mode)

    def action_go_back(self) -> None:
        """Show the plan of a rollback to the run of the screen."""
        page = self.screen
        if isinstance(page, Page) and page.run_here is not None:
            self.go_back(page.run_here)

    def go_back(self, run: str, step: int | None = None) -> None:
        """Show the plan of a rollback to a run, at a step or at its best one; ask, carry it out."""
        page = self.screen
        if isinstance(page, Page):
            go_back(page, run, step)

    async def list_runs(self, filter: str) -> None:
        """Show the runs that a filter selects."""
        await self.switch_mode("runs")
        if isinstance(self.screen, RunsScreen):
            self.screen.filter = filter
            self.screen.reload()

    def action_leave(self) -> None:
        """Leave what is open on the screen."""
        if isinstance(self.screen, Page):
            self.screen.action_back()

    def action_reload(self) -> None:
        """Read the store again."""
        if isinstance(self.screen, Page):
            self.screen.reload()

    def action_verb(self) -> None:
        """Ask for any command of `expdb`, and run it in the terminal itself."""

        def given(line: str | None) -> None:
            if line is not None:
                self.run_verb(line)

        self.push_screen(Prompt("expdb", hint="compare baseline exp01"), given)

    def run_verb(self, line: str) -> None:
        """Leave the screen to a command, and come back when it has ended and enter was pressed."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            self._say(f"{line}: {error}")
            return
        script = [sys.executable, "-m", "expdb.cli.main"]
        store = ["--store", str(self.session.store.root)]
        try:
            with self.suspend():
                subprocess.run([*script, *store, *words], cwd=self.session.directory, check=False)
                input("\nenter goes back ")
        except (SuspendNotSupported, EOFError):
            self._say("this terminal cannot be lent to a command")
        self.action_reload()

    def action_help_quit(self) -> None:
        """Say how to leave, on the key that ends other programs: it may be pressed by habit."""
        if isinstance(self.screen, Page):
            self.screen.say("q quits")

    def _say(self, text: str) -> None:
        if isinstance(self.screen, Page):
            self.screen.say(text, is_bad=True)

    def open_run(self, run: str) -> None:
        """Show one run."""
        self.opened = run
        self.switch_mode("run")
