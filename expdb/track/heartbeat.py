"""The thread that shows a run to be alive: syncs the journal, writes series.json, touches
live.json.

Invariant: it never touches the caller's tensors, RNG or gradients; an I/O error is said once and
tried again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from expdb.store.attempts import HEARTBEAT_S
from expdb.store.layout import RunLayout
from expdb.store.recorder import Recorder
from expdb.store.store import reason


class Heartbeat:
    """Beats every 10 s and syncs every `sync_s` until it is stopped.

    `live` is the file that it touches; `beside` are called after each sync of the journal,
    `on_good` after each beat that was written.
    """

    def __init__(
        self,
        layout: RunLayout,
        attempt: int,
        recorder: Recorder,
        *,
        sync_s: float,
        on_trouble: Callable[[str], None],
        live: Path | None = None,
        beside: Sequence[Callable[[], None]] = (),
        on_good: Callable[[], None] = lambda: None,
    ) -> None:
        self._live = live or layout.attempt(attempt) / "live.json"
        self._recorder = recorder
        self._beside, self._on_good = beside, on_good
        self._sync_s = max(0.5, sync_s)
        self._on_trouble = on_trouble
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="expdb-heartbeat", daemon=True)

    def start(self) -> None:
        """Start beating."""
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for the beat in progress."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        due = time.monotonic() + HEARTBEAT_S
        while not self._stopped.wait(self._sync_s):
            self._recorder.sync()
            for action in self._beside:
                action()
            if time.monotonic() >= due:
                self._beat()
                due = time.monotonic() + HEARTBEAT_S

    def _beat(self) -> None:
        try:
            self._live.touch()
            self._recorder.save_book()
        except OSError as error:
            self._on_trouble(f"store: no heartbeat ({reason(error)})")
        else:
            self._on_good()
