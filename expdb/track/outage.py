"""What is said while the store cannot be written: one line a stage, and one when it works again.

A full disk fails every heartbeat, status and record on its own; whoever reads the output wants to
know once that points wait in memory, once that some are lost, and when it is over.
"""

from __future__ import annotations

from collections.abc import Callable

ABOUT_STORE = ("store: ", "the store could not", "the media could not")
BACK = "store is back"
LOSSES = ("dropped, and counted", "is not kept")


class Outage:
    """Passes on the first line of each stage: something is late, something waits, something is
    lost. What is not about the store is passed on unless it was said just before.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._stage = 0
        self._last = ""
        self._is_quiet = True

    def trouble(self, message: str) -> None:
        """Take a line of whoever writes to the store."""
        if message.startswith(BACK):
            self._over(message)
            return
        stage = _stage(message)
        if stage:
            self._is_quiet = False
            if stage > self._stage:
                self._stage = stage
                self._say(message)
        elif message != self._last:
            self._last = message
            self._say(message)

    def works(self) -> None:
        """Take a heartbeat that was written: the second without a line in between ends an outage
        in which nothing waited.
        """
        if self._is_quiet:
            self._over(BACK)
        self._is_quiet = True

    def _over(self, message: str) -> None:
        if self._stage:
            self._stage = 0
            self._say(message)


def _stage(message: str) -> int:
    if not message.startswith(ABOUT_STORE):
        return 0
    if message.endswith(LOSSES):
        return 3
    return 2 if "memory" in message else 1
