"""A plan and the question whether to carry it out: what every screen that writes asks with.

`Cancel` has the focus, so that keys typed ahead confirm nothing; no letter confirms. A plan without
a deed says why nothing can be done, and has no second button.

Invariant: the buttons stay while the plan scrolls; esc leaves everything as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget

from expdb.text import cells, plain
from expdb_tui.ink import Piece, fit, strip, width_of, wrap
from expdb_tui.widgets.pager import Pager

if TYPE_CHECKING:
    from expdb_tui.shared import Shared

WIDEST: Final = 86
AROUND: Final = 6
"""Cells of the border and the air at both sides."""
LEAST_LABEL: Final = 9
CONFIRMED: Final = "confirmed"
CANCELLED: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """Something that can be done; `name` is what the dialog then answers."""

    label: str
    name: str = CONFIRMED
    is_grave: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanShown:
    """What a dialog shows."""

    title: Sequence[Piece]
    pairs: Sequence[tuple[str, Sequence[Piece]]]
    """(label, value); an empty label goes on below the last one."""
    deeds: Sequence[Deed] = ()
    """What can be done; empty where nothing can be."""
    keys: Sequence[tuple[str, str]] = ()
    """Further keys and what they say; the dialog ends with the key."""

    def rows(self, width: int) -> list[Sequence[Piece]]:
        """Return the plan as rows of at most `width` cells; nothing of it is cut."""
        wide = max([LEAST_LABEL, *(cells(label) + 2 for label, _ in self.pairs)])
        out: list[Sequence[Piece]] = [*wrap(self.title, width), []]
        for label, value in self.pairs:
            first, *more = wrap(value, max(8, width - wide))
            out.append([*fit([(plain(label), "dim")], wide), *first])
            out += [[(" " * wide, ""), *row] for row in more]
        return out


class Buttons(Widget, can_focus=True):
    """Cancel, and the deeds."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab,right", "turn(1)", show=False, priority=True),
        Binding("shift+tab,left", "turn(-1)", show=False, priority=True),
        Binding("enter", "press", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("pageup", "scroll(-8)", show=False),
        Binding("pagedown", "scroll(8)", show=False),
    ]
    DEFAULT_CSS = "Buttons { height: 1; }"

    def __init__(self, plan: PlanShown) -> None:
        super().__init__(id="buttons")
        self._plan = plan
        self._names = ["Cancel" if plan.deeds else "Close", *(one.label for one in plan.deeds)]
        self.chosen = 0
        """Which button has the focus; 0 is Cancel."""

    def render_line(self, y: int) -> Strip:
        """Draw the buttons, and the keys where there is room."""
        app = cast("Shared", self.app)
        pieces: list[Piece] = []
        has_colours = bool(app.palette.bg)
        for at, name in enumerate(self._names):
            is_grave = at > 0 and self._plan.deeds[at - 1].is_grave
            colour = "warn" if is_grave else "accent"
            if at == self.chosen:
                pieces.append((f" {name} ", f"bg+bold+on-{colour if has_colours else 'accent'}"))
            elif has_colours:
                pieces.append((f" {name} ", f"{'warn' if is_grave else 'text'}+on-sel"))
            else:
                pieces.append((f"[{name}]", "text"))
            pieces.append(("  ", ""))
        keys: list[Piece] = []
        deeds = self._plan.deeds
        confirm = [("tab enter", deeds[0].label.lower())] if len(deeds) == 1 else []
        away = ("esc", "cancel" if deeds else "close")
        for key, said in (*self._plan.keys, *confirm, away):
            keys += [(key, "accent"), (f" {said}  ", "dim")]
        room = self.size.width - width_of(pieces)
        if width_of(keys) <= room:
            pieces += [(" " * (room - width_of(keys)), ""), *keys]
        return strip(
            pieces, self.size.width, app.palette, ground="surface", ellipsis=app.marks.ellipsis
        )

    def render(self) -> str:
        """Return nothing: `render_line` draws."""
        return ""

    def action_turn(self, by: int) -> None:
        """Go to the other button."""
        self.chosen = (self.chosen + by) % len(self._names)
        self.refresh()

    def action_scroll(self, by: int) -> None:
        """Scroll the plan."""
        self.screen.query_one("#plan", Pager).action_scroll_by(by)

    def action_press(self) -> None:
        """Answer with the button that has the focus."""
        answer = self._plan.deeds[self.chosen - 1].name if self.chosen else CANCELLED
        cast("Dialog", self.screen).dismiss(answer)

    def on_click(self, event: events.Click) -> None:
        """Answer with the button that was clicked."""
        start = 0
        for at, name in enumerate(self._names):
            end = start + cells(name) + 2
            if start <= event.x < end:
                self.chosen = at
                self.action_press()
                return
            start = end + 2


class Dialog(ModalScreen[str]):
    """Shows a plan; ends with the name of a deed, with one of its keys, or with nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", show=False)]
    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog #dialog { background: $surface; border: round $accent; padding: 1 2 0 2; }
    Dialog #plan { height: 1fr; }
    Dialog Buttons { margin: 1 0; }
    """

    def __init__(self, plan: PlanShown) -> None:
        super().__init__()
        self.plan = plan

    def compose(self) -> ComposeResult:
        """Lay out the plan above the buttons."""
        with Vertical(id="dialog"):
            yield Pager(id="plan", ground="surface")
            yield Buttons(self.plan)

    def on_mount(self) -> None:
        """Show the plan, with the focus on Cancel."""
        view = self.query_one("#plan", Pager)
        view.can_focus = False
        view.show(lambda width, height: self.plan.rows(width))
        self.query_one(Buttons).focus()
        app = cast("Shared", self.app)
        if not app.palette.bg:
            for part in self.query("*"):
                part.styles.background = "ansi_default"
        if app.is_ascii:
            self.query_one("#dialog").styles.border = ("ascii", self.app.theme_variables["accent"])
        self._lay_out()

    def on_resize(self) -> None:
        """Fit the screen."""
        self._lay_out()

    def _lay_out(self) -> None:
        width, height = self.app.size
        box = self.query_one("#dialog")
        wide = min(max(20, width - 4), WIDEST)
        box.styles.width = wide
        # Border, one row of air above, and the buttons with a row above and below.
        box.styles.height = min(len(self.plan.rows(wide - AROUND)) + 6, max(9, height - 2))

    def on_key(self, event: events.Key) -> None:
        """End with one of the plan's own keys."""
        if event.key in [key for key, _ in self.plan.keys]:
            event.stop()
            self.dismiss(event.key)

    def action_cancel(self) -> None:
        """Leave everything as it is."""
        self.dismiss(CANCELLED)
