"""A list of names of which some are chosen: letters narrow it, space turns one, enter takes all.

Invariant: what is narrowed away stays as it was chosen; esc leaves everything as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from expdb.text import plain
from expdb_tui.ink import Piece, between, fit
from expdb_tui.widgets.lineview import LineView

if TYPE_CHECKING:
    from expdb_tui.shared import Shared

WIDE, HIGH = 64, 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One name."""

    name: str
    kind: str
    """What it is, at the right."""
    label: str = ""
    """How it is shown; its name where this is empty."""


class Chooser(ModalScreen[tuple[str, ...] | None]):
    """Chooses some of many names; ends with them in the order in which they were chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("enter", "take", show=False),
        Binding("space", "turn", show=False),
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "move(-10)", show=False),
        Binding("pagedown", "move(10)", show=False),
        Binding("home", "move(-1000000)", show=False),
        Binding("end", "move(1000000)", show=False),
        Binding("backspace", "erase", show=False),
    ]
    DEFAULT_CSS = """
    Chooser { align: center middle; background: $background 70%; }
    Chooser #chooser { background: $surface; border: round $accent; padding: 0 1; }
    Chooser LineView { height: 1fr; }
    """

    def __init__(self, title: str, choices: Sequence[Choice], chosen: Sequence[str]) -> None:
        super().__init__()
        self._title, self._choices = title, tuple(choices)
        self.chosen = list(chosen)
        self.cursor = 0
        self.typed = ""
        self._top = 0

    def compose(self) -> ComposeResult:
        """Lay out the list."""
        with Vertical(id="chooser"):
            yield LineView(id="choices", ground="surface")

    def on_mount(self) -> None:
        """Show the list."""
        app = cast("Shared", self.app)
        if app.is_ascii:
            self.query_one("#chooser").styles.border = ("ascii", app.theme_variables["accent"])
        self._lay_out()
        self.query_one(LineView).show(self._rows)

    def on_resize(self) -> None:
        """Fit the screen."""
        self._lay_out()

    def _lay_out(self) -> None:
        width, height = self.app.size
        box = self.query_one("#chooser")
        box.styles.width = min(max(20, width - 4), WIDE)
        box.styles.height = min(len(self._choices) + 4, max(6, height - 2), HIGH)

    @property
    def shown(self) -> list[Choice]:
        """The names that hold what is typed."""
        return [one for one in self._choices if self.typed.lower() in one.name.lower()]

    def _rows(self, width: int, height: int) -> list[list[Piece]]:
        signs, shown = cast("Shared", self.app).marks, self.shown
        typed: list[Piece] = [(plain(self.typed), "accent")]
        if not self.typed:
            typed = [("letters narrow the list", "faint")]
        rows = [between([(self._title, "text+bold"), ("  ", ""), *typed], [], width)]
        room = max(1, height - 2)
        self._top = min(self._top, self.cursor)
        self._top = max(self._top, self.cursor - room + 1, 0)
        for at, one in enumerate(shown[self._top : self._top + room], self._top):
            is_here, is_on = at == self.cursor, one.name in self.chosen
            box = ("[x] " if is_on else "[ ] ", "accent" if is_on else "dim")
            first = (signs.cursor if is_here else " ", "accent")
            name = (plain(one.label or one.name), "text+bold" if is_here else "text")
            row = between([first, box, name], [(one.kind, "dim")], width)
            rows.append([(text, f"{role}+on-sel" if is_here else role) for text, role in row])
        if not shown:
            rows.append([("  nothing is called so", "dim")])
        rows += [[] for _ in range(height - 1 - len(rows))]
        keys = (("space", "turn"), ("enter", "take"), ("esc", "leave as it was"))
        foot: list[Piece] = []
        for key, said in keys:
            foot += [(key, "accent"), (f" {said}  ", "dim")]
        return [*rows[: height - 1], fit(foot, width)]

    def _draw(self) -> None:
        self.query_one(LineView).show(self._rows)

    def on_key(self, event: events.Key) -> None:
        """Narrow the list by what is typed."""
        char = event.character
        if char is not None and char.isprintable() and not char.isspace():
            event.stop()
            self.typed += char
            self.cursor = 0
            self._draw()

    def action_erase(self) -> None:
        """Take the last letter away."""
        self.typed = self.typed[:-1]
        self._draw()

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.cursor = max(0, min(len(self.shown) - 1, self.cursor + by))
        self._draw()

    def action_turn(self) -> None:
        """Choose the name under the cursor, or leave it out."""
        shown = self.shown
        if not shown:
            return
        name = shown[min(self.cursor, len(shown) - 1)].name
        if name in self.chosen:
            self.chosen.remove(name)
        else:
            self.chosen.append(name)
        self._draw()

    def action_take(self) -> None:
        """End with what is chosen."""
        self.dismiss(tuple(self.chosen))

    def action_leave(self) -> None:
        """End without a change."""
        self.dismiss(None)
