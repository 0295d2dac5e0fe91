"""Requests to stop that arrive as signals.

Invariant: a handler sets a flag and calls the handler that was there before; the work is done at
the next update border, by the loop. Handlers are installed in the main thread only and put back at
the end.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class StopRequest:
    """A flag raised by SIGTERM or SIGUSR1 for as long as the `with` block lasts."""

    def __init__(self, signals: Sequence[signal.Signals] = SIGNALS) -> None:
        self._signals = signals
        self._earlier: dict[int, Any] = {}
        self._name = ""

    @property
    def name(self) -> str:
        """The first signal that came (`SIGTERM`); empty while none has."""
        return self._name

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in self._signals:
                self._earlier[number] = signal.signal(number, self._raise_flag)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        while self._earlier:
            number, earlier = self._earlier.popitem()
            # Somebody who replaced our handler meanwhile keeps theirs; None was set outside Python.
            if earlier is not None and signal.getsignal(number) == self._raise_flag:
                signal.signal(number, earlier)

    def _raise_flag(self, number: int, frame: FrameType | None) -> None:
        self._name = self._name or signal.Signals(number).name
        earlier = self._earlier.get(number)
        if callable(earlier):
            earlier(number, frame)
