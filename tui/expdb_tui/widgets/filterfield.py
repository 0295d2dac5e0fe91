"""The line in which a filter is typed; what is typed is told a moment later, keys of it at once.

`tab` takes what is suggested, `up` and `down` go through it, `enter` ends the typing.
"""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

DELAY_S = 0.15
OPEN_ENDS = ("(", ".")
"""Ends of what is typed on at once: no space follows them."""


class FilterField(Input):
    """A filter in the language of `expdb ls -w`."""

    DELAY_S: ClassVar[float] = DELAY_S
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "take", show=False),
        Binding("down", "choose(1)", show=False),
        Binding("up", "choose(-1)", show=False),
    ]

    class Typed(Message):
        """The filter as it stands."""

        def __init__(self, value: str) -> None:
            super().__init__()
            self.value = value

    class Edited(Message):
        """Another text, or another place of the cursor in it."""

    class Chosen(Message):
        """The next of what is suggested, or the one before it."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    class Taken(Message):
        """What is suggested is wanted."""

    def __init__(self, example: str = "exp != scratch and val/loss < 2") -> None:
        super().__init__(placeholder=example, id="filter", compact=True)
        # What is hidden takes the focus too, where nothing else on a screen can.
        self.can_focus = False

    def open(self, value: str) -> None:
        """Type here."""
        self.display = self.can_focus = True
        with self.prevent(Input.Changed):
            self.value = value
        self.cursor_position = len(value)
        self.focus()
        self.post_message(self.Edited())

    def shut(self) -> None:
        """Hide it."""
        self.display = self.can_focus = False

    def put(self, word: str, start: int, end: int) -> None:
        """Put a word in the place of what stands from `start` to `end`."""
        rest = self.value[end:]
        gap = "" if word.endswith(OPEN_ENDS) or rest.startswith(" ") else " "
        self.value = f"{self.value[:start]}{word}{gap}{rest}"
        self.cursor_position = start + len(word) + (1 if gap or rest.startswith(" ") else 0)

    @on(Input.Changed)
    def changed(self, event: Input.Changed) -> None:
        """Tell it once nothing more is typed."""
        event.stop()
        value = event.value
        self.post_message(self.Edited())
        self.set_timer(self.DELAY_S, lambda: self._tell(value))

    def _tell(self, value: str) -> None:
        if value == self.value:
            self.post_message(self.Typed(value))

    def action_take(self) -> None:
        """Want what is suggested."""
        self.post_message(self.Taken())

    def action_choose(self, by: int) -> None:
        """Go to another suggestion."""
        self.post_message(self.Chosen(by))
