"""The write path of one rank: a `write` is a frame on disk; parts are sealed beside training.

    write -> frame -> packed copy in memory     -> series book -> part (by size, and at close)
                   -> journal (one write(2))    survives SIGKILL when it returns

Invariant: a point is in memory, and in the journal or waiting for it, until a sealed part has it;
what is dropped is counted. Parts are sealed in the order of `seq`, since a rank's list says "all up
to here", and points are counted in that order too. A signal handler may raise at any point here
(KeyboardInterrupt): a `write` that was cut off has recorded its values or has not, and no other.

Three locks, taken in this order: `_one_seal` by who seals; `_counting` guards the book and the
counted frames; `_lock` guards what `write` touches and is held for microseconds. A writer takes
only the last. `on_trouble` is called under none of them.
"""

from __future__ import annotations

import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NoReturn
from zlib import crc32

from expdb.errors import BadInput, ExpdbError
from expdb.store.appending import JournalWriter
from expdb.store.chunk import Chunk, count_all
from expdb.store.files import reason
from expdb.store.journal import CRC, FRAME, encode_frame
from expdb.store.layout import RunLayout
from expdb.store.packed import Kept, Marks, Packed
from expdb.store.series import SeriesBook
from expdb.store.templates import Template, Templates, is_storable, parted

SEAL_POINTS = 1_000_000
SEAL_BYTES = 16 * 1024 * 1024
KEPT_BYTES = 32 * 1024 * 1024
"""The most that waits in memory to be sealed; what else waits is in the journal only."""
WAITING_BYTES = 64 * 1024 * 1024
RETRY_S = 1.0
pack_crc = CRC.pack


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
        self._summaries = layout.rank_series(attempt, rank)
        self._on_trouble = on_trouble
        self.book = book if book is not None else SeriesBook()
        self.book.attempt, self.book.through_seq = attempt, {}
        self._lock = threading.Lock()
        self._counting = threading.Lock()
        self._one_seal = threading.Lock()
        self._closed = ""
        self._templates = Templates()
        self._memory = Packed()
        self._older: tuple[Chunk, ...] = ()
        """What is to be sealed, in order; `_memory` has what came after it."""
        self._seq = 0
        self._sealed_seq = 0
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._retry_at = self._seal_at = 0.0
        self._look_at = 0
        """The frame from which on there may be enough to seal."""
        self.num_dropped = 0
        self._troubles: deque[str] = deque()
        """What `on_trouble` is told when all locks are free again."""
        self._journal_number, self._first_journal = 0, 1
        """The last journal, and the first one that has frames of `_memory`."""
        self._journal = self._next_journal()
        self._defined = self._journal.size
        """The bytes of the journal that are no values."""
        self._sealing: threading.Thread | None = None

    @property
    def num_waiting(self) -> int:
        """Frames that could not be written to the journal yet."""
        return len(self._waiting)

    def write(
        self,
        keys: tuple[str, ...],
        values: Sequence[float],
        step: int,
        time_ms: int,
        types: tuple[type, ...] | None = None,
    ) -> bool:
        """Record one step's values, aligned with `keys`; on disk when it returns, or waiting.

        With `types`, those of the values, it records nothing and returns False but for floats under
        keys that were recorded together before: those need no look.

        Raises:
            BadInput: a key or the step cannot be stored (the others are), or it is closed.
        """
        with self._lock:
            kept = self._memory.get(keys)
            if types is not None and (kept is None or types != kept.floats):
                return False
            kept = kept or self._begin(keys)
            if kept is not None:
                seq = self._seq = self._seq + 1
                try:
                    frame: bytes = kept.pack(kept.head, seq, kept.tag, step, time_ms, *values)
                except struct.error as error:
                    raise BadInput(f"step {step} cannot be recorded: {error}") from None
                frame += pack_crc(crc32(frame))
                frames = kept.frames
                frames += frame
                if not self._put(frame, droppable=True):
                    self._memory.take_back(kept, frame)
                    self.num_dropped += len(keys)
                elif seq >= self._look_at:
                    self._look(seq)
                kept.template.last = seq, step, values
        if self._troubles:
            self._tell()
        if kept is None:
            self._write_parted(keys, values, step, time_ms)
        return True

    def latest(self) -> dict[str, tuple[int, float]]:
        """Return key -> (step, value) of its last `write`, also after `close`."""
        return self._templates.latest()

    def update_book(self) -> SeriesBook:
        """Count everything recorded so far and return the series book as it is then."""
        with self._counting:
            self._count_all()
            return self.book.copy()

    def save_book(self) -> None:
        """Count everything recorded so far and write the summaries; the newest ones always win.

        Raises:
            OSError: it could not be written.
        """
        with self._counting:
            self._count_all()
            self.book.save(self._summaries, durable=False)

    def sync(self) -> None:
        """Make the journal survive a power loss, and retry what waits."""
        try:
            with self._lock:
                if self._closed:
                    return
                if self._waiting:
                    self._retry()
                sync = self._journal.syncer()
            sync()  # takes milliseconds, so it must not hold up `write`
        except OSError as error:
            self._troubles.append(f"the store could not be synced ({reason(error)})")
        self._tell()

    def close(self) -> None:
        """Seal all that was recorded and close the journal; it can be called again after an error.

        Raises:
            OSError, Corrupt: something is still unwritten; it stays in memory and in the journal.
        """
        with self._one_seal, self._counting, self._lock:
            if self._closed:
                return
            count_all(self.book, self._rank, *self._take())
            while self._older:
                self._seal(self._older[0], lambda: self.book.save(self._summaries))
                self._older = self._older[1:]
            self._seal(self._chunk(), lambda: self.book.save(self._summaries))
            self._leave("it has ended")
            self._waiting.clear()
            self._waiting_bytes = 0

    def abandon(self) -> None:
        """Close the handle without writing: in a forked child, whose parent goes on."""
        # A thread that is not in the child may have held a lock at the fork.
        self._lock, self._counting = threading.Lock(), threading.Lock()
        self._one_seal, self._sealing = threading.Lock(), None
        self._leave("it belongs to the process that started it, and this is a fork of it")

    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot pickle a recorder: it belongs to the process that made it")

    def _leave(self, why: str) -> None:
        self._closed = why
        self._templates.close()  # so that `write` comes by `_define` and need not check
        self._memory, self._older = Packed(), ()
        self._journal.close()

    # ---------------------------------------------------------------------------------- journal

    def _begin(self, keys: tuple[str, ...]) -> Kept | None:
        """Make the place for the frames of these keys; None when they do not fit in one."""
        self._look_at = 0
        template = self._templates.get(keys) or self._define(keys)
        return None if template is None else self._memory.open(template)

    def _define(self, keys: tuple[str, ...]) -> Template | None:
        """Make the template of these keys; None when they do not fit in one."""
        if self._closed:
            raise BadInput(f"run {self._run} takes no more points: {self._closed}")
        if not is_storable(keys):
            return None
        definition = self._templates.define(keys)
        self._seq += 1
        before = self._journal.size
        self._put(encode_frame(self._seq, definition.records), droppable=False)
        self._defined += self._journal.size - before
        self._templates.add(definition)  # last: values may follow once it is on its way
        return definition.template

    def _write_parted(
        self, keys: tuple[str, ...], values: Sequence[float], step: int, time_ms: int
    ) -> None:
        pieces, refused = parted(keys, values)
        for some, numbers in pieces:
            self.write(some, numbers, step, time_ms)
        if refused:
            raise BadInput("; ".join(refused), hint="the other values of this call are recorded")

    def _put(self, frame: bytes, *, droppable: bool) -> bool:
        """Write a frame, or keep it waiting; False when it has to be dropped."""
        failure: OSError | None = None
        if not (self._waiting or self._journal.broken) or self._retry():
            try:
                self._journal.append(frame)
                return True
            except OSError as error:
                failure = error
                self._retry_at = time.monotonic() + RETRY_S
        if droppable and self._waiting_bytes + len(frame) > WAITING_BYTES:
            self._troubles.append(
                "store: no room in memory either; points are dropped, and counted"
            )
            return False
        self._waiting.append(frame)
        self._waiting_bytes += len(frame)
        if failure is not None:
            self._troubles.append(f"store: {reason(failure)}; points wait in memory, none lost")
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
        self._waiting_bytes = 0
        if count:
            self._troubles.append(f"store is back: {count} waiting records written")
        return True

    def _tell(self) -> None:
        while self._troubles:
            try:
                text = self._troubles.popleft()
            except IndexError:  # another thread tells it
                return
            self._on_trouble(text)

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
        old, self._journal, self._defined = self._journal, fresh, fresh.size
        old.close()

    # ------------------------------------------------------------------------ counting, sealing

    def _count_all(self) -> None:
        """Count everything recorded so far; for who holds `_counting`."""
        with self._lock:
            taken = self._take()
        count_all(self.book, self._rank, *taken)

    def _take(self) -> tuple[Sequence[Chunk], Packed, Marks, int]:
        return self._older, self._memory, self._memory.marks(), self._seq

    def _look(self, seq: int) -> None:
        """Have what is in memory sealed if there is enough, else note when to look again."""
        if time.monotonic() < self._seal_at:
            return
        left = self._memory.num_frames_to(SEAL_POINTS, SEAL_BYTES)
        if left > 0:
            self._look_at = seq + left
        elif not self._waiting:
            self._cut()
        if self._older:
            self._start_sealing()

    def _cut(self) -> None:
        """Let what is in memory be the next chunk to be sealed."""
        chunk, values = self._chunk(), self._memory.num_bytes
        is_whole = len(chunk.journals) == 1 and self._journal.size - self._defined == values
        self._seq += 1
        try:
            self._switch_journal(seq=self._seq)
        except OSError as error:
            self._seal_at = time.monotonic() + RETRY_S
            self._troubles.append(f"store: {reason(error)}; points stay in the journal")
            return
        self._memory.freeze()
        self._older, self._memory, self._first_journal = (
            (*self._older, chunk), Packed(), self._journal_number,
        )  # fmt: skip
        if is_whole and sum(item.kept_bytes for item in self._older) > KEPT_BYTES:
            chunk.set_down()

    def _chunk(self) -> Chunk:
        numbers = range(self._first_journal, self._journal_number + 1)  # some may not be there
        paths = [self._layout.journal(self._attempt, self._rank, number) for number in numbers]
        return Chunk(self._memory, self._seq, paths, self._templates)

    def _start_sealing(self) -> None:
        if self._sealing is not None and self._sealing.is_alive():
            return
        self._sealing = threading.Thread(target=self._seal_beside, name="expdb-seal")
        try:
            self._sealing.start()
        except RuntimeError:
            pass  # no more threads: it is tried again later, and `close` seals in any case

    def _seal_beside(self) -> None:
        try:
            while self._older:
                self._seal_next()
        except (OSError, ExpdbError) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
            self._troubles.append(f"store: {why}; the journal keeps what could not be sealed")
            with self._lock:
                self._look_at, self._seal_at = 0, time.monotonic() + RETRY_S
        self._tell()

    def _seal_next(self) -> None:
        """Seal the oldest chunk, unless `close` was first."""
        with self._one_seal:
            older = self._older
            if not older:
                return
            with self._counting:
                older[0].count(self.book, self._rank, keep=True)
            self._seal(older[0], self._save_durably)
            with self._lock:
                self._older = self._older[1:]

    def _save_durably(self) -> None:
        with self._counting:
            self.book.save(self._summaries)

    def _seal(self, chunk: Chunk, save: Callable[[], object]) -> None:
        at = self._attempt, self._rank
        chunk.seal(self._layout, at, first_seq=self._sealed_seq + 1, save=save)
        self._sealed_seq = chunk.last_seq
