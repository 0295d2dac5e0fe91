"""The writing end of media: a record is in the journal when `add` returns, or waits in memory.

A journal that has reached its size is closed, and sealed beside training; the rest at the end.

Invariant: a record is in a journal, in a sealed file, or waiting; what is dropped is counted. A
closed journal never changes, so its sealing shares nothing with `add`.
"""

from __future__ import annotations

import errno
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from expdb.errors import BadInput, ExpdbError
from expdb.store.appending import JournalWriter
from expdb.store.files import reason
from expdb.store.journal import encode_frame
from expdb.store.layout import RunLayout
from expdb.store.media import seal_journal
from expdb.store.media_journal import encode_record

SEAL_BYTES = 16 * 1024 * 1024
WAITING_BYTES = 64 * 1024 * 1024
RETRY_S = 1.0


class MediaRecorder:
    """Writes the media of one rank of one attempt; any thread may call it.

    `on_trouble` gets one line when writing begins to fail, and one when it works again. Nothing is
    opened before the first record.
    """

    def __init__(
        self,
        layout: RunLayout,
        *,
        run: str,
        attempt: int,
        rank: int = 0,
        on_trouble: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._layout, self._run, self._attempt, self._rank = layout, run, attempt, rank
        self._on_trouble = on_trouble
        self._lock, self._one_seal = threading.Lock(), threading.Lock()
        self._closed = ""
        self._seq = self._number = 0
        self._journal: JournalWriter | None = None
        self._full: deque[int] = deque()
        """The closed journals that are not sealed yet."""
        self._sealing: threading.Thread | None = None
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._retry_at = 0.0
        self._failure: OSError | None = None
        self._troubles: deque[str] = deque()
        self.num_dropped = 0

    @property
    def num_waiting(self) -> int:
        """Records that could not be written to the journal yet."""
        return len(self._waiting)

    def add(
        self,
        kind: str,
        key: str,
        step: int,
        time_ms: int,
        body: Mapping[str, Any],
        blob: bytes = b"",
    ) -> None:
        """Record one text, histogram, table or image; on disk when it returns, or waiting.

        Raises:
            BadInput: the recorder is closed.
        """
        payload = encode_record(kind, key, step, time_ms, body, blob)
        with self._lock:
            if self._closed:
                raise BadInput(f"run {self._run} takes no more media: {self._closed}")
            if self._journal is not None and self._journal.size >= SEAL_BYTES:
                self._leave_journal()
                self._start_sealing()
            self._seq += 1
            self._put(encode_frame(self._seq, payload))
        self._tell()

    def sync(self) -> None:
        """Make the journal survive a power loss, and retry what waits."""
        try:
            with self._lock:
                if self._closed:
                    return
                if self._waiting:
                    self._retry()
                sync = self._journal.syncer() if self._journal is not None else None
            if sync is not None:
                sync()
        except OSError as error:
            self._troubles.append(f"the media could not be synced ({reason(error)})")
        self._tell()

    def close(self) -> None:
        """Seal all that was recorded; it can be called again after an error.

        Raises:
            OSError, ExpdbError: something is still unwritten; it stays in memory or in its journal.
        """
        with self._lock:
            if self._closed:
                return
            self._retry_at = 0.0
            if self._waiting and not self._retry():
                raise self._failure or OSError(errno.EIO, "media cannot be written")
            self._leave_journal()
        self._seal_full()
        with self._lock:
            self._closed = "it has ended"

    def abandon(self) -> None:
        """Close the handle without writing: in a forked child, whose parent goes on."""
        # A thread that does not exist in the child may have held a lock at the fork.
        self._lock, self._one_seal = threading.Lock(), threading.Lock()
        self._closed = "it belongs to the process that started it, and this is a fork of it"
        if self._journal is not None:
            self._journal.close()
        self._journal, self._sealing = None, None
        self._waiting.clear()

    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot pickle a recorder: it belongs to the process that made it")

    def _put(self, frame: bytes) -> None:
        failure: OSError | None = None
        if not self._waiting or self._retry():
            try:
                self._append(frame)
                return
            except OSError as error:
                failure = self._failure = error
                self._retry_at = time.monotonic() + RETRY_S
        if self._waiting_bytes + len(frame) > WAITING_BYTES:
            self.num_dropped += 1
            self._troubles.append("store: no room in memory either; media are dropped, and counted")
            return
        self._waiting.append(frame)
        self._waiting_bytes += len(frame)
        if failure is not None:
            self._troubles.append(f"store: {reason(failure)}; media wait in memory, none lost")

    def _retry(self) -> bool:
        """Write what waits, oldest first; True when all of it is on disk."""
        now, count = time.monotonic(), len(self._waiting)
        if now < self._retry_at:
            return False
        try:
            while self._waiting:
                self._append(self._waiting[0])
                self._waiting_bytes -= len(self._waiting.popleft())
        except OSError as error:
            self._failure, self._retry_at = error, now + RETRY_S
            return False
        if count:
            self._troubles.append(f"store is back: {count} waiting media written")
        return True

    def _append(self, frame: bytes) -> None:
        if self._journal is None or self._journal.broken:
            self._leave_journal()
            self._number += 1
            path = self._layout.media_journal(self._attempt, self._rank, self._number)
            self._journal = JournalWriter(
                path, run=self._run, attempt=self._attempt, rank=self._rank
            )
        self._journal.append(frame)

    def _leave_journal(self) -> None:
        if self._journal is not None:
            self._full.append(self._number)
            journal, self._journal = self._journal, None
            journal.close()

    def _start_sealing(self) -> None:
        if self._sealing is not None and self._sealing.is_alive():
            return
        self._sealing = threading.Thread(target=self._seal_beside, name="expdb-media")
        try:
            self._sealing.start()
        except RuntimeError:
            pass  # no more threads: `close` seals in any case

    def _seal_beside(self) -> None:
        try:
            self._seal_full()
        except (OSError, ExpdbError) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
            self._troubles.append(f"store: {why}; the journal keeps the media")
        self._tell()

    def _seal_full(self) -> None:
        with self._one_seal:
            while self._full:
                number = self._full[0]
                path = self._layout.media_journal(self._attempt, self._rank, number)
                seal_journal(
                    self._layout, path, attempt=self._attempt, rank=self._rank, number=number
                )
                self._full.popleft()

    def _tell(self) -> None:
        while self._troubles:
            try:
                text = self._troubles.popleft()
            except IndexError:  # another thread tells it
                return
            self._on_trouble(text)
