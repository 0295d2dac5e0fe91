"""Small files beside the points (evals, events, notes, status): a full disk must not stop training.

Invariant: what cannot be written waits in memory, in order, and is written at the next chance; at
the end of the run what still cannot be written is an error.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from expdb.store.files import reason

Action = Callable[[], None]


class SideFiles:
    """Writes now, or waits; `on_trouble` gets one line when writing begins to fail."""

    def __init__(self, on_trouble: Callable[[str], None]) -> None:
        self._on_trouble = on_trouble
        self._waiting: deque[tuple[str, Action]] = deque()
        self._lock = threading.RLock()

    def write(self, what: str, action: Action) -> None:
        """Run `action`, after what waits; when the store cannot be written it waits too."""
        self._waiting.append((what, action))
        try:
            self.flush()
        except OSError as error:
            self._on_trouble(f"store: {reason(error)}; {what} waits in memory")

    def attempt(self, what: str, action: Action) -> None:
        """Run `action` for what is written again later anyway: a failure is said, and not kept."""
        try:
            action()
        except OSError as error:
            self._on_trouble(f"store: {reason(error)}; {what} is not written yet")

    def flush(self) -> None:
        """Write all that waits, oldest first.

        Raises:
            OSError: the store cannot be written; what is left goes on waiting.
        """
        with self._lock:
            while self._waiting:
                self._waiting[0][1]()
                self._waiting.popleft()
