"""The line in which a filter is typed; what is typed is told a moment later."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.message import Message
from textual.widgets import Input

DELAY_S = 0.15


class FilterField(Input):
    """A filter in the language of `expdb ls -w`."""

    DELAY_S: ClassVar[float] = DELAY_S

    class Typed(Message):
        """The filter as it stands."""

        def __init__(self, value: str) -> None:
            super().__init__()
            self.value = value

    def __init__(self) -> None:
        super().__init__(placeholder="exp != scratch and val/loss < 2", id="filter", compact=True)

    def open(self, value: str) -> None:
        """Type here."""
        self.display = True
        with self.prevent(Input.Changed):
            self.value = value
        self.cursor_position = len(value)
        self.focus()

    @on(Input.Changed)
    def changed(self, event: Input.Changed) -> None:
        """Tell it once nothing more is typed."""
        event.stop()
        value = event.value
        self.set_timer(self.DELAY_S, lambda: self._tell(value))

    def _tell(self, value: str) -> None:
        if value == self.value:
            self.post_message(self.Typed(value))
