"""A question before something is done: what will happen, and the deeds to choose from.

Invariant: Cancel has the focus and no letter confirms, so what was typed ahead does nothing; with
no deed there is nothing to confirm. The plan scrolls, the buttons stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import ComposeResult, RenderResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.message import Message
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget

from expdb_tui.ink import Piece, strip
from expdb_tui.widgets.lineview import LineView, Rows
from expdb_tui.widgets.pager import Pager

if TYPE_CHECKING:
    from expdb_tui.shared import Shared

WIDEST = 86
AROUND = 6
"""Rows of a dialog that are not its plan: border, air, title, buttons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """Something that can be chosen; `name` is what the dialog then answers."""

    name: str
    label: str
    is_grave: bool = False


class DeedButton(Widget, can_focus=True):
    """One button; enter or a click chooses it."""

    DEFAULT_CSS = "DeedButton { height: 1; width: auto; margin: 0 2 0 0; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "choose", show=False)]

    class Chosen(Message):
        """The button was chosen."""

        def __init__(self, deed: Deed | None) -> None:
            super().__init__()
            self.deed = deed

    def __init__(self, deed: Deed | None) -> None:
        super().__init__()
        self._deed = deed
        self._label = f" {deed.label if deed is not None else 'Cancel'} "

    def get_content_width(self, container: object, viewport: object) -> int:
        """Return how wide the label is, with the brackets that focus has."""
        return len(self._label) + 2

    def render(self) -> RenderResult:
        """Return nothing: `render_line` draws."""
        return ""

    def render_line(self, y: int) -> Strip:
        """Draw the label; of the focused one reversed."""
        app = cast("Shared", self.app)
        role = "warn" if self._deed is not None and self._deed.is_grave else "accent"
        text = f"[{self._label}]" if self.has_focus and app.is_ascii else f" {self._label} "
        style = f"bg+bold+on-{role}+reverse" if self.has_focus else role
        return strip([(text, style)], self.size.width, app.palette, ground="surface")

    def on_focus(self) -> None:
        """Show that it has the focus."""
        self.refresh()

    def on_blur(self) -> None:
        """Show that it has it no more."""
        self.refresh()

    def action_choose(self) -> None:
        """Choose it."""
        self.post_message(self.Chosen(self._deed))

    def on_click(self, event: events.Click) -> None:
        """Choose it."""
        self.action_choose()


class Dialog(ModalScreen[str | None]):
    """A plan and its deeds; answers the name of the chosen one, or None."""

    DEFAULT_CSS = """
    Dialog { align: center middle; background: $background 60%; }
    #dialog { background: $surface; border: round $accent; padding: 1 2; height: auto; }
    #dialog-title { height: 2; }
    #dialog-plan { height: auto; }
    #dialog-deeds { height: 2; padding: 1 0 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
    ]

    def __init__(self, title: Sequence[Piece], plan: Rows, deeds: Sequence[Deed]) -> None:
        super().__init__()
        self._title, self._plan, self._deeds = title, plan, deeds

    def compose(self) -> ComposeResult:
        """Lay out the title, the plan, the buttons."""
        with Container(id="dialog"):
            yield LineView(id="dialog-title", ground="surface")
            yield Pager(id="dialog-plan", ground="surface")
            with Horizontal(id="dialog-deeds"):
                yield DeedButton(None)
                for deed in self._deeds:
                    yield DeedButton(deed)

    def on_mount(self) -> None:
        """Give Cancel the focus."""
        if cast("Shared", self.app).is_ascii:
            self.query_one("#dialog").styles.border = ("ascii", "white")
        self.query_one("#dialog-title", LineView).show(lambda width, height: [self._title])
        pager = self.query_one("#dialog-plan", Pager)
        pager.show(lambda width: self._plan)
        pager.can_focus = False
        self._fit()
        self.query(DeedButton).first().focus()

    def on_resize(self) -> None:
        """Fit the dialog to the terminal."""
        self._fit()

    def _fit(self) -> None:
        width, height = self.app.size
        self.query_one("#dialog").styles.width = min(width - 4, WIDEST)
        rows = max(1, min(len(self._plan), height - 2 - AROUND))
        self.query_one("#dialog-plan").styles.height = rows

    def on_deed_button_chosen(self, message: DeedButton.Chosen) -> None:
        """Answer."""
        self.dismiss(message.deed.name if message.deed is not None else None)

    def action_cancel(self) -> None:
        """Answer nothing."""
        self.dismiss(None)
