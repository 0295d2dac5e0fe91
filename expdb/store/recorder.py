"""The write path of one rank: a `write` is a frame on disk; parts are sealed beside training.

    write -> frame -> journal (one write(2))    survives SIGKILL when it returns
                   -> packed copy in memory     -> series book -> part (by size, and at close)

Invariant: a point is in the journal, in a sealed part, or in memory and counted as waiting; what is
dropped is counted. Parts are sealed in the order of `seq`, since a rank's list says "all up to
here", and points are counted in that order too.

Two locks: `_lock` guards what `write` touches and is held for microseconds; `_counting` guards the
book and the counted frames. Who needs both takes `_counting` first; a writer never takes it.
"""

from __future__ import annotations

import struct
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from expdb.errors import BadInput, ExpdbError
from expdb.store.files import reason
from expdb.store.journal import CRC, FRAME, MAGIC, MAX_KEYS, JournalWriter, encode_frame
from expdb.store.layout import RunLayout
from expdb.store.packed import Frames, Packed
from expdb.store.seal import seal
from expdb.store.series import SeriesBook
from expdb.store.templates import Template, Templates, is_storable, refusal

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
        self.book.attempt, self.book.through_seq = attempt, {}
        self._lock = threading.Lock()
        self._counting = threading.Lock()
        self._closed = ""
        self._templates = Templates()
        self._memory = Packed()
        self._older: Packed | None = None
        """What is being sealed; `_memory` has what came after it."""
        self._seq = 0
        self._sealed_seq = 0
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._retry_at = self._seal_at = 0.0
        self.num_dropped = 0
        self._journal_number = 0
        self._old_journals: list[Path] = []
        self._journal = self._next_journal()
        self._sealing: threading.Thread | None = None

    @property
    def num_waiting(self) -> int:
        """Frames that could not be written to the journal yet."""
        return len(self._waiting)

    def write(
        self, keys: tuple[str, ...], values: Sequence[float], step: int, time_ms: int
    ) -> None:
        """Record one step's values, aligned with `keys`; on disk when it returns, or waiting.

        Raises:
            BadInput: a key or the step cannot be stored (the other keys are recorded), or the
                recorder is closed.
        """
        with self._lock:
            template = self._templates.get(keys) or self._define(keys)
            if template is not None:
                seq = self._seq = self._seq + 1
                try:
                    head = template.frame.pack(
                        MAGIC,
                        template.record_bytes,
                        seq,
                        b"V",
                        template.number,
                        step,
                        time_ms,
                        *values,
                    )
                except struct.error as error:
                    raise BadInput(f"step {step} cannot be recorded: {error}") from None
                if self._put(head + CRC.pack(zlib.crc32(head)), len(keys)):
                    memory = self._memory
                    memory.add(template, head)
                    if memory.num_points >= SEAL_POINTS or memory.num_bytes >= SEAL_BYTES:
                        self._start_sealing()
                return
        self._write_parted(keys, values, step, time_ms)

    def update_book(self) -> SeriesBook:
        """Count everything recorded so far and return the series book as it is then."""
        with self._counting:
            with self._lock:
                fresh, seq = self._take()
            self._count(fresh, seq)
            return self.book.copy()

    def save_book(self) -> None:
        """Count everything recorded so far and write series.json; the newest one always wins.

        Raises:
            OSError: it could not be written.
        """
        with self._counting:
            with self._lock:
                fresh, seq = self._take()
            self._count(fresh, seq)
            self.book.save(self._layout.series_json)

    def sync(self) -> None:
        """Make the journal survive a power loss, and retry what waits."""
        with self._lock:
            if self._closed:
                return
            if self._waiting:
                self._retry()
            sync = self._journal.syncer()
        try:
            sync()  # takes milliseconds, so it must not hold up `write`
        except OSError as error:
            self._on_trouble(f"the store could not be synced ({reason(error)})")

    def close(self) -> None:
        """Seal all that was recorded and close the journal; it can be called again after an error.

        Raises:
            OSError, Corrupt: something is still unwritten; it stays in memory and in the journal.
        """
        if self._sealing is not None:
            self._sealing.join()
        with self._counting, self._lock:
            if self._closed:
                return
            self._count(*self._take())
            journals = [*self._old_journals, self._journal.path]
            self._seal(
                self._memory, self._seq, journals, lambda: self.book.save(self._layout.series_json)
            )
            self._leave("it has ended")
            self._waiting.clear()
            self._waiting_bytes = 0

    def abandon(self) -> None:
        """Close the handle without writing: in a forked child, whose parent goes on."""
        # A thread that does not exist in the child may have held a lock at the fork.
        self._lock, self._counting = threading.Lock(), threading.Lock()
        self._sealing = None
        self._leave("it belongs to the process that started it, and this is a fork of it")

    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot pickle a recorder: it belongs to the process that made it")

    def _leave(self, why: str) -> None:
        self._closed = why
        self._templates = (
            Templates()
        )  # so that `write` comes by `_define` and needs no check of its own
        self._memory, self._older = Packed(), None
        self._journal.close()

    # ---------------------------------------------------------------------------------- journal

    def _define(self, keys: tuple[str, ...]) -> Template | None:
        """Make the template of these keys; None when they do not fit in one."""
        if self._closed:
            raise BadInput(f"run {self._run} takes no more points: {self._closed}")
        if not is_storable(keys):
            return None
        template, records = self._templates.define(keys)
        self._seq += 1
        self._put(encode_frame(self._seq, records), 0)
        return template

    def _write_parted(
        self, keys: tuple[str, ...], values: Sequence[float], step: int, time_ms: int
    ) -> None:
        why = {key: refusal(key) for key in keys}
        good = [(key, value) for key, value in zip(keys, values, strict=True) if not why[key]]
        for start in range(0, len(good), MAX_KEYS):
            some = good[start : start + MAX_KEYS]
            self.write(tuple(key for key, _ in some), [value for _, value in some], step, time_ms)
        refused = [f"the name {key[:60]!a} {text}" for key, text in why.items() if text]
        if refused:
            raise BadInput("; ".join(refused), hint="the other values of this call are recorded")

    def _put(self, frame: bytes, num_points: int) -> bool:
        """Write a frame, or keep it waiting; False when it had to be dropped."""
        if not (self._waiting or self._journal.broken) or self._retry():
            try:
                self._journal.append(frame)
                return True
            except OSError as error:
                self._on_trouble(f"store: {reason(error)}; points wait in memory, none lost")
                self._retry_at = time.monotonic() + RETRY_S
        if num_points and self._waiting_bytes + len(frame) > WAITING_BYTES:
            self.num_dropped += num_points
            self._on_trouble("store: no room in memory either; points are dropped, and counted")
            return False
        self._waiting.append(frame)
        self._waiting_bytes += len(frame)
        return True

    def _retry(self) -> bool:
        """Write what waits, oldest first; True when all of it is on disk."""
        now = time.monotonic()
        if now < self._retry_at:
            return False
        count = len(self._waiting)
        try:
            if self._journal.broken:
                first = FRAME.unpack_from(self._waiting[0])[2] if count else self._seq
                self._switch_journal(seq=first - 1)
            while self._waiting:
                self._journal.append(self._waiting[0])
                self._waiting_bytes -= len(self._waiting.popleft())
        except OSError:
            self._retry_at = now + RETRY_S
            return False
        if count:
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
        records = self._templates.records()
        if seq > 0 and records:
            try:
                fresh.append(encode_frame(seq, records))
            except OSError:
                fresh.remove()
                raise
        self._old_journals.append(self._journal.path)
        self._journal.close()
        self._journal = fresh

    # ------------------------------------------------------------------------ counting, sealing

    def _take(self) -> tuple[list[tuple[Packed, Frames]], int]:
        memories = [self._memory] if self._older is None else [self._older, self._memory]
        return [(memory, memory.take()) for memory in memories], self._seq

    def _count(self, fresh: Sequence[tuple[Packed, Frames]], seq: int) -> None:
        for memory, frames in fresh:
            memory.count(frames, self.book)
        self.book.through_seq = {self._rank: seq}

    def _start_sealing(self) -> None:
        now = time.monotonic()
        if self._waiting or self._older is not None or now < self._seal_at:
            return
        self._seal_at = now + RETRY_S
        last = self._seq
        try:
            self._switch_journal(seq=last + 1)
        except OSError as error:
            self._on_trouble(f"store: {reason(error)}; points stay in the journal")
            return
        self._seq = last + 1
        self._older, self._memory = self._memory, Packed()
        self._sealing = threading.Thread(
            target=self._seal_beside,
            args=(self._older, last, list(self._old_journals)),
            name="expdb-seal",
        )
        try:
            self._sealing.start()
        except RuntimeError:  # no more threads: `close` will seal it
            self._put_back(self._older)
            self._sealing = None

    def _seal_beside(self, older: Packed, last: int, journals: list[Path]) -> None:
        done = False
        try:
            self.update_book()
            self._seal(older, last, journals, self.save_book)
            done = True
        except (OSError, ExpdbError) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
            self._on_trouble(f"store: {why}; the journal keeps what could not be sealed")
        finally:
            with self._counting, self._lock:
                if done:
                    self._older = None
                    self._old_journals = [p for p in self._old_journals if p not in journals]
                else:
                    self._put_back(older)

    def _put_back(self, older: Packed) -> None:
        older.extend(self._memory)
        self._memory, self._older = older, None
        self._seal_at = time.monotonic() + RETRY_S

    def _seal(
        self, memory: Packed, last: int, journals: list[Path], save: Callable[[], object]
    ) -> None:
        seal(
            self._layout,
            attempt=self._attempt,
            rank=self._rank,
            columns=memory.columns(),
            first_seq=self._sealed_seq + 1,
            last_seq=last,
            journals=journals,
            save=save,
        )
        self._sealed_seq = last
