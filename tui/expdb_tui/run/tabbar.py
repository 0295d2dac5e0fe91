"""The line of a run's tabs; a click opens one."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from expdb_tui.widgets.frame import Bar


class TabBar(Bar):
    """The tabs, and from which cell to which each of them is."""

    class Picked(Message):
        """A tab was clicked."""

        def __init__(self, at: int) -> None:
            super().__init__()
            self.at = at

    spans: Sequence[tuple[int, int]] = ()

    def on_click(self, event: events.Click) -> None:
        """Say which tab was clicked."""
        for at, (start, stop) in enumerate(self.spans):
            if start <= event.x - 1 < stop:
                self.post_message(self.Picked(at))
