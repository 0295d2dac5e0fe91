"""A line on stderr that says how far a long piece of work is, and goes away with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from expdb.cli.output import Output

AFTER_S = 0.5
EVERY_S = 0.1


class Progress:
    """`checking 10,000 runs  41 %`: on a terminal only, and not within the first half second."""

    def __init__(
        self, out: Output, doing: str, noun: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._out, self._doing, self._noun, self._clock = out, doing, noun, clock
        self._next = clock() + AFTER_S
        self._is_shown = False

    def __call__(self, done: int, total: int) -> None:
        """Say how far it is, where it is time to."""
        now = self._clock()
        if now < self._next or not total:
            return
        self._next = now + EVERY_S
        self._is_shown = True
        self._out.passing(f"{self._doing} {total:,} {self._noun}  {100 * done // total} %")

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Take the line away."""
        if self._is_shown:
            self._out.passing("")
