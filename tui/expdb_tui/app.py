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
from textual.binding import BindingType
from textual.theme import Theme

from expdb.query.completion import Names
from expdb_tui.compare.screen import CompareScreen
from expdb_tui.goback.flow import go_back
from expdb_tui.history.screen import HistoryScreen
from expdb_tui.keys import KeyNames, bound, key
from expdb_tui.living import TICK_S, Living
from expdb_tui.matrix.screen import MatrixScreen
from expdb_tui.matrix.table import CellTable
from expdb_tui.memory import Memory, Said, Wrong, take, take_words
from expdb_tui.palette import Depth, Ground, Palette
from expdb_tui.plot.screen import PlotScreen
from expdb_tui.run.screen import RunScreen
from expdb_tui.runs.screen import RunsScreen
from expdb_tui.screens.page import Page
from expdb_tui.session import Session
from expdb_tui.widgets.commandline import CommandLine
from expdb_tui.widgets.pager import Pager
from expdb_tui.widgets.rowtable import RowTable
from expdb_tui.window import Window

LOOKS = {
    "light": "draw on a light ground", "dark": "draw on a dark ground",
    "ascii": "draw with plain letters", "unicode": "draw with all signs",
}  # fmt: skip
"""What `:` takes besides the verbs."""


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


class ExpdbApp(Living):
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
        key("q", "quit", "everywhere.quit"),
        key("1", "go('runs')", "everywhere.runs"),
        key("2", "go('run')", "everywhere.run"),
        key("3,d", "go('compare')", "everywhere.compare"),
        key("4", "go('plot')", "everywhere.plot"),
        key("5", "go('matrix')", "everywhere.matrix"),
        key("6", "go('history')", "everywhere.history"),
        key("G", "go_back", "everywhere.go_back"),
        key("escape", "leave", "everywhere.back"),
        key("ctrl+r", "reload", "everywhere.reload"),
        key("colon", "verb", "everywhere.command"),
    ]

    def __init__(
        self,
        session: Session,
        *,
        ascii: bool = False,
        ground: Ground = "dark",
        depth: Depth = "true",
        run: str | None = None,
        has_title: bool = False,
        keys: KeyNames | None = None,
        said: str = "",
        memory: Memory | None = None,
    ) -> None:
        super().__init__(
            session,
            ascii=ascii,
            ground=ground,
            depth=depth,
            keys=keys or KeyNames(usual_keys()),
            memory=memory or Memory(None),
        )
        self._said = said
        self._first_run = run
        self._has_title = has_title
        self.animation_level = "none"

    def on_mount(self) -> None:
        """Set the look, and start to look at the store once a second."""
        self._set_theme()
        self.head = self.session.head_of()
        if self._has_title and self._driver is not None:
            self.window = Window(self._driver.write)
        self.set_keymap({name: ",".join(keys) for name, keys in self.keys.own.items()})
        self.set_interval(TICK_S, self.tick)
        self.call_after_refresh(self._begin)

    def _set_theme(self) -> None:
        theme = _theme(self.palette)
        self.register_theme(theme)
        self.theme = theme.name

    def _begin(self) -> None:
        """Show the run that was asked for, else the screen that was left."""
        said = self.memory.of("app")
        try:
            mode, run = take(said, "screen", str, "runs"), take(said, "run", str, "")
            self.read_runs |= set(take_words(said, "read"))
        except Wrong as error:
            self.memory.problem = f"what was remembered is damaged: {error}"
            mode, run = "runs", ""
        problem = self._said or self.memory.problem
        if self._first_run is not None:
            self.open_run(self._first_run)
        elif mode in self.MODES and mode != "runs":
            self.opened = run or None
            self.switch_mode(mode)
        if problem:
            self.call_after_refresh(self._say, problem, 10.0)

    def on_unmount(self) -> None:
        """Remember, and give the last look at the store up."""
        self.memory.save(self._scopes())
        self.session.close()

    def _scopes(self) -> dict[str, Said]:
        """Return what is to be remembered."""
        failed = self._pulse.failed if self._pulse is not None else self.read_runs
        own: Said = {
            "screen": self.current_mode, "run": self.opened or "",
            "ground": self.palette.ground, "read": sorted(self.read_runs & failed),
        }  # fmt: skip
        return {"app": own, **{scope: page.remember() for scope, page in self.pages.items()}}

    def _remember(self) -> None:
        """Write what is new to remember, beside the screen."""
        scopes, page = self._scopes(), self.screen
        if not self.memory.changed(scopes):
            return

        def work() -> None:
            self.memory.save(scopes)
            if not self.memory.is_on:
                self.call_from_thread(self._say, self.memory.problem)

        page.run_worker(work, thread=True, exclusive=True, group="memory", exit_on_error=False)

    def tick(self) -> None:
        """Look at the store, and let the header's age go on."""
        if not (self.is_running and self.screen_stack):
            return  # it is being left
        page = self.screen
        self.renew_header()
        if isinstance(page, Page) and page.is_mounted:
            page.tick()
            self.feel(page)
            self._remember()

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

    def filter_runs(self) -> None:
        """Show the list of runs, and type its filter."""

        async def go() -> None:
            await self.switch_mode("runs")
            page = self.screen
            if isinstance(page, RunsScreen):
                page.action_filter()

        self.run_worker(go(), exclusive=True, group="mode")

    async def list_runs(self, filter: str) -> None:
        """Show the runs that a filter selects."""
        await self.switch_mode("runs")
        if isinstance(self.screen, RunsScreen):
            self.screen.filter = filter
            self.screen.reload()

    def action_leave(self) -> None:
        """Give up what takes long, else leave what is open on the screen."""
        if isinstance(self.screen, Page) and not self.screen.stop_reading():
            self.screen.action_back()

    def action_reload(self) -> None:
        """Read the store again."""
        if isinstance(self.screen, Page):
            self.screen.reload()

    def action_verb(self) -> None:
        """Ask for any command of `expdb`, and run it in the terminal itself."""

        def given(line: str | None) -> None:
            if line in LOOKS:
                self._relook(line)
            elif line is not None:
                self.run_verb(line)

        names = Names(self.session.store.root)
        self.push_screen(CommandLine({**self.session.verbs, **LOOKS}, names.runs), given)

    def _relook(self, word: str) -> None:
        """Draw with other signs, or on another ground."""
        if word in ("ascii", "unicode"):
            self.relook(ascii=word == "ascii")
        else:
            self.relook(ground="light" if word == "light" else "dark")
            self._set_theme()
        for page in self.pages.values():
            page.relook()
        self.renew_header()
        self.action_reload()

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

    def alarm(self, said: str) -> None:
        """Say something bad at the foot."""
        self._say(said)

    def action_help_quit(self) -> None:
        """Say how to leave, on the key that ends other programs: it may be pressed by habit."""
        if isinstance(self.screen, Page):
            self.screen.say("q quits")

    def _say(self, text: str, seconds: float = 4.0) -> None:
        if isinstance(self.screen, Page):
            self.screen.say(text, is_bad=True, seconds=seconds)

    def open_run(self, run: str) -> None:
        """Show one run; its failure and its critical events are known then."""
        self.opened = run
        self.has_read(run)
        self.switch_mode("run")


def usual_keys() -> dict[str, tuple[str, ...]]:
    """Return the usual keys of all bindings that have a name, those of every screen first."""
    kinds = (ExpdbApp, *ExpdbApp.MODES.values(), RowTable, Pager, CellTable)
    found: dict[str, tuple[str, ...]] = {}
    for kind in kinds:
        for base in kind.__mro__:
            for name, keys in bound(vars(base).get("BINDINGS", ())).items():
                found[name] = tuple(dict.fromkeys([*found.get(name, ()), *keys]))
    order = {"everywhere": 0, "move": 2}
    return dict(sorted(found.items(), key=lambda one: order.get(one[0].split(".")[0], 1)))
