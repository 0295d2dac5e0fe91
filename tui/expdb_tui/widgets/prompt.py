"""One line that asks for a text, in the place of the keys; esc leaves it, enter gives it."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from expdb.text import plain


class Prompt(ModalScreen[str | None]):
    """Asks for one line."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]
    DEFAULT_CSS = """
    Prompt { background: $background 0%; align: left bottom; }
    Prompt Horizontal { height: 1; background: $surface; }
    Prompt Static { width: auto; padding: 0 1; color: $accent; }
    Prompt Input { height: 1; border: none; padding: 0; background: $surface; width: 1fr; }
    """

    def __init__(self, label: str, *, value: str = "", hint: str = "") -> None:
        super().__init__()
        self._label, self._value, self._hint = label, value, hint

    def compose(self) -> ComposeResult:
        """Lay out the label and the field."""
        with Horizontal():
            yield Static(plain(self._label), markup=False)
            yield Input(value=self._value, placeholder=self._hint, compact=True)

    def on_mount(self) -> None:
        """Type at once."""
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def given(self, event: Input.Submitted) -> None:
        """Take the text."""
        self.take(event.value)

    def take(self, text: str) -> None:
        """Give the text back."""
        self.dismiss(text.strip() or None)

    def action_leave(self) -> None:
        """Give nothing back."""
        self.dismiss(None)
