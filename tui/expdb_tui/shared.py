"""What all screens and widgets share: the store, the look, the marked runs, how the store lives.

Widgets and screens know the app as this; what it is made of is `app.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from pathlib import Path

from textual.app import App

from expdb.model import RunAt
from expdb.query.paging import RunOrder
from expdb.query.pulse import Pulse
from expdb.signs import STATE_GLYPHS
from expdb.text import plain
from expdb_tui.chosen import Chosen
from expdb_tui.keys import KeyNames
from expdb_tui.life import Life
from expdb_tui.marks import Marks, marks
from expdb_tui.memory import Look, Memory
from expdb_tui.palette import ALL, Depth, Ground, Palette
from expdb_tui.session import Session, now_ms
from expdb_tui.window import Window


class Shared(App[None]):
    """The app as its parts see it."""

    def __init__(
        self,
        session: Session,
        *,
        ascii: bool,
        ground: Ground,
        depth: Depth,
        keys: KeyNames,
        memory: Memory,
    ) -> None:
        # With 16 colours those of the terminal itself are meant, not what they look like elsewhere.
        super().__init__(ansi_color=True if depth == "16" else None)
        self.session = session
        self.keys = keys
        self.memory = memory
        self.faults: Path | None = None
        """Where what nobody expected is written down."""
        self.pages: dict[str, Look] = {}
        """The screens that were shown, each by its scope."""
        self.is_ascii = ascii
        self.marks: Marks = marks(ascii)
        self.palette: Palette = ALL[ground, depth]
        self.chosen = Chosen()
        self.life = Life(live_sign=self.glyph("running"), failed_sign=self.glyph("failed"))
        self.head: RunAt | None = None
        self.order: RunOrder | None = None
        """The list as the last look of screen 1 found it."""
        self.started_ms = now_ms()
        self.read_runs: set[str] = set()
        """Failed runs that somebody has opened: they are no news any more."""
        self.window = Window(None)
        self.opened: str | None = None
        """The run that was pointed at last: what screen 2 shows, and what others begin with."""
        self.store_name = plain(f"{session.store.root.parent.name}/{session.store.root.name}")

    def relook(self, *, ascii: bool | None = None, ground: Ground | None = None) -> None:
        """Draw with other signs, or on another ground."""
        if ascii is not None:
            self.is_ascii, self.marks = ascii, marks(ascii)
        if ground is not None:
            self.palette = ALL[ground, self.palette.depth]
        self.life = replace(
            self.life, live_sign=self.glyph("running"), failed_sign=self.glyph("failed")
        )

    def glyph(self, state: str) -> str:
        """Return the glyph of a state."""
        look = STATE_GLYPHS[state]
        return look.ascii if self.is_ascii else look.glyph

    @property
    def is_higher_better(self) -> bool:
        """Whether the objective of the list is to be high."""
        return self.order is not None and self.order.mode == "max"

    def chosen_places(self) -> dict[str, int]:
        """Return the marked runs with their places among the series."""
        return {run: place for run in self.chosen.runs if (place := self.chosen.place(run))}

    @abstractmethod
    def take_pulse(self, pulse: Pulse) -> None:
        """Take how the store lives, for the header of all screens."""

    @abstractmethod
    def open_run(self, run: str) -> None:
        """Show one run."""

    @abstractmethod
    def action_go(self, mode: str) -> None:
        """Show one of the screens."""

    @abstractmethod
    def go_back(self, run: str, step: int | None = None) -> None:
        """Show the plan of a rollback to a run; ask, carry it out."""

    @abstractmethod
    def filter_runs(self) -> None:
        """Show the list of runs, and type its filter."""

    @abstractmethod
    async def list_runs(self, filter: str) -> None:
        """Show the runs that a filter selects."""
