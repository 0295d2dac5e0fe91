"""The write path of one rank: each `write` is one journal frame on disk; parts are sealed beside training.

    write -> frame -> journal (one write(2))     survives SIGKILL when it returns
                   -> packed copy in memory      -> series book (heartbeat)  -> part (by size, and at close)

Invariant: a point is in the journal, in a sealed part, or in memory and counted as waiting; what is dropped is counted.
Parts are sealed in the order of `seq`, since a rank's list says "all up to here".
"""

from __future__ import annotations

import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from expdb.store.journal import (
    CRC,
    FRAME,
    MAGIC,
    JournalWriter,
    Template,
    encode_frame,
    encode_key,
    encode_template,
)
from expdb.store.layout import RunLayout
from expdb.store.packed import Packed
from expdb.store.seal import seal
from expdb.store.series import SeriesBook
from expdb.store.store import reason

SEAL_POINTS = 1_000_000
SEAL_BYTES = 16 * 1024 * 1024
WAITING_BYTES = 64 * 1024 * 1024
RETRY_S = 1.0


class Recorder:
    """Writes the points of one rank of one attempt; any thread may call it.

    `on_trouble` gets one line when writing begins to fail, and one when it works again.
    """

    def __init__(
        self,
        layout: RunLayout,
        *,
        run: str,
        attempt: int,
        rank: int = 0,
        book: SeriesBook | None = None,
        on_trouble: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._layout, self._run, self._attempt, self._rank = layout, run, attempt, rank
        self._on_trouble = on_trouble
        self.book = book if book is not None else SeriesBook()
        self.book.through_seq = {}
        self._lock = threading.Lock()
        self._keys: dict[str, int] = {}
        self._templates: dict[tuple[str, ...], Template] = {}
        self._memory = Packed()
        self._seq = 0
        self._sealed_seq = 0
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._retry_at = 0.0
        self.num_dropped = 0
        self._journal_number = 0
        self._old_journals: list[Path] = []
        self._journal = self._next_journal()
        self._sealing: threading.Thread | None = None
        self._folding = threading.Lock()
        """Held while frames are counted, so that an older part is counted before newer frames."""

    @property
    def num_waiting(self) -> int:
        """Frames that could not be written to the journal yet."""
        return len(self._waiting)

    def write(self, keys: tuple[str, ...], values: Sequence[float], step: int, time_ms: int) -> None:
        """Record one step's values, aligned with `keys`; on disk when it returns, or counted as waiting."""
        with self._lock:
            template = self._templates.get(keys)
            if template is None:
                template = self._define(keys)
            self._seq += 1
            head = template.frame.pack(
                MAGIC, template.record_bytes, self._seq, b"V", template.number, step, time_ms, *values
            )
            if self._put(head + CRC.pack(zlib.crc32(head)), len(keys)):
                memory = self._memory
                memory.add(template, head)
                if memory.num_points >= SEAL_POINTS or memory.num_bytes >= SEAL_BYTES:
                    self._start_sealing()

    def update_book(self) -> SeriesBook:
        """Count everything recorded so far into the series book and return it."""
        with self._folding, self._lock:
            self._memory.fold(self.book)
            self.book.through_seq[self._rank] = self._seq
            return self.book

    def sync(self) -> None:
        """Make the journal survive a power loss, and retry what waits."""
        with self._lock:
            if self._waiting:
                self._retry()
            try:
                self._journal.sync()
            except OSError as error:
                self._on_trouble(f"the store could not be synced ({reason(error)})")

    def close(self) -> None:
        """Seal all that was recorded and close the journal; it can be called again after an error.

        Raises:
            OSError: something is still unwritten; it stays in memory and in the journal.
        """
        if self._sealing is not None:
            self._sealing.join()
        book = self.update_book()
        with self._lock:
            seal(
                self._layout,
                attempt=self._attempt,
                rank=self._rank,
                columns=self._memory.columns(),
                first_seq=self._sealed_seq + 1,
                last_seq=self._seq,
                journals=[*self._old_journals, self._journal.path],
            )
            book.through_seq = {}
            self._memory = Packed()
            self._waiting.clear()
            self._waiting_bytes = 0
            self._old_journals.clear()
            self._journal.close()

    def abandon(self) -> None:
        """Close the handle without writing: in a forked child, whose parent goes on."""
        self._journal.close()

    def _define(self, keys: tuple[str, ...]) -> Template:
        for key in keys:
            self._keys.setdefault(key, len(self._keys))
        template = self._templates[keys] = Template(len(self._templates), keys)
        # Everything again, not only what is new: a definition is rare, and this is one way instead of two.
        self._seq += 1
        self._put(encode_frame(self._seq, self._definitions()), 0)
        return template

    def _definitions(self) -> bytes:
        records = [encode_key(number, key) for key, number in self._keys.items()]
        records += [
            encode_template(item.number, [self._keys[key] for key in item.keys])
            for item in self._templates.values()
        ]
        return b"".join(records)

    def _put(self, frame: bytes, num_points: int) -> bool:
        """Write a frame, or keep it waiting; False when it had to be dropped."""
        if not self._waiting or (time.monotonic() >= self._retry_at and self._retry()):
            try:
                self._journal.append(frame)
                return True
            except OSError as error:
                self._on_trouble(f"store: {reason(error)}; points wait in memory, none lost")
                self._retry_at = time.monotonic() + RETRY_S
        if num_points and self._waiting_bytes + len(frame) > WAITING_BYTES:
            self.num_dropped += num_points
            return False
        self._waiting.append(frame)
        self._waiting_bytes += len(frame)
        return True

    def _retry(self) -> bool:
        """Write what waits, oldest first; True when all of it is on disk."""
        count = len(self._waiting)
        try:
            if self._journal.broken:
                self._switch_journal(seq=FRAME.unpack_from(self._waiting[0])[2] - 1)
            while self._waiting:
                self._journal.append(self._waiting[0])
                self._waiting_bytes -= len(self._waiting.popleft())
        except OSError:
            self._retry_at = time.monotonic() + RETRY_S
            return False
        self._on_trouble(f"store is back: {count} waiting records written")
        return True

    def _next_journal(self) -> JournalWriter:
        self._journal_number += 1
        path = self._layout.journal(self._attempt, self._rank, self._journal_number)
        return JournalWriter(path, run=self._run, attempt=self._attempt, rank=self._rank)

    def _switch_journal(self, *, seq: int) -> None:
        """Go on in a new file, which starts with all definitions as frame `seq`.

        Raises:
            OSError: the old file stays in use.
        """
        fresh = self._next_journal()
        if seq > 0 and self._templates:
            fresh.append(encode_frame(seq, self._definitions()))
        self._old_journals.append(self._journal.path)
        self._journal.close()
        self._journal = fresh

    def _start_sealing(self) -> None:
        if self._waiting or (self._sealing is not None and self._sealing.is_alive()):
            return
        last = self._seq
        try:
            self._switch_journal(seq=last + 1)
        except OSError as error:
            self._on_trouble(f"store: {reason(error)}; points stay in the journal")
            return
        self._seq = last + 1
        memory, self._memory = self._memory, Packed()
        journals, self._old_journals = self._old_journals, []
        self._folding.acquire()
        self._sealing = threading.Thread(
            target=self._seal_beside, args=(memory, last, journals), name="expdb-seal"
        )
        self._sealing.start()

    def _seal_beside(self, memory: Packed, last: int, journals: list[Path]) -> None:
        try:
            memory.fold(self.book)
        finally:
            self._folding.release()
        try:
            seal(
                self._layout,
                attempt=self._attempt,
                rank=self._rank,
                columns=memory.columns(),
                first_seq=self._sealed_seq + 1,
                last_seq=last,
                journals=journals,
            )
            self._sealed_seq = last
        except OSError as error:
            with self._lock:
                memory.extend(self._memory)
                self._memory = memory
                self._old_journals[:0] = journals
            self._on_trouble(f"store: {reason(error)}; the journal keeps what could not be sealed")
