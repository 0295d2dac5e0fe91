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
from pathlib import Path
from typing import NoReturn
from zlib import crc32

from expdb.errors import BadInput, ExpdbError
from expdb.store.appending import JournalWriter
from expdb.store.curve_keeper import CurveKeeper
from expdb.store.files import reason
from expdb.store.journal import CRC, FRAME, MAX_KEYS, encode_frame
from expdb.store.layout import RunLayout
from expdb.store.packed import Kept, Marks, Packed
from expdb.store.seal import seal
from expdb.store.series import SeriesBook
from expdb.store.templates import Template, Templates, is_storable, refusal

SEAL_POINTS = 1_000_000
SEAL_BYTES = 16 * 1024 * 1024
WAITING_BYTES = 64 * 1024 * 1024
RETRY_S = 1.0
Taken = Sequence[tuple[Packed, Marks]]
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
        self._curves = CurveKeeper(layout) if rank == 0 else None
        self.book = book if book is not None else SeriesBook()
        self.book.attempt, self.book.through_seq = attempt, {}
        self._lock = threading.Lock()
        self._counting = threading.Lock()
        self._one_seal = threading.Lock()
        self._closed = ""
        self._templates = Templates()
        self._memory = Packed()
        self._older: Packed | None = None
        """What is being sealed; `_memory` has what came after it."""
        self._older_seq = self._older_journal = 0
        """Its last frame, and the number of its last journal."""
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
        """The last journal, and the first one that is not sealed."""
        self._journal = self._next_journal()
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
            with self._lock:
                taken = self._take()
            self._count(*taken)
            return self.book.copy()

    def save_book(self, *, durable: bool = False) -> None:
        """Count everything recorded so far and write the summaries; the newest ones always win.

        Raises:
            OSError: it could not be written.
        """
        with self._counting:
            with self._lock:
                taken = self._take()
            self._count(*taken)
            self.book.save(self._summaries, durable=durable)

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
            if self._older is not None:
                self._put_back(self._older)
            self._count(*self._take())
            save = self.book.save
            journals = self._journals(self._journal_number)
            self._seal(self._memory, self._seq, journals, lambda: save(self._summaries))
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
        self._memory, self._older = Packed(), None
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
        self._put(encode_frame(self._seq, definition.records), droppable=False)
        self._templates.add(definition)  # last: values may follow once it is on its way
        return definition.template

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

    def _journals(self, last: int) -> list[Path]:
        """Return the journals that are not sealed, up to a number; some may not be there."""
        numbers = range(self._first_journal, last + 1)
        return [self._layout.journal(self._attempt, self._rank, number) for number in numbers]

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
        old, self._journal = self._journal, fresh
        old.close()

    # ------------------------------------------------------------------------ counting, sealing

    def _take(self) -> tuple[Taken, int]:
        memories = [self._memory] if self._older is None else [self._older, self._memory]
        return [(memory, memory.marks()) for memory in memories], self._seq

    def _count(self, memories: Taken, seq: int) -> None:
        for memory, marks in memories:
            memory.count(marks, self.book)
        self.book.through_seq = {self._rank: seq}

    def _look(self, seq: int) -> None:
        """Start sealing if there is enough, else note when to look again."""
        now = time.monotonic()
        if now < self._seal_at:
            return
        left = self._memory.num_frames_to(SEAL_POINTS, SEAL_BYTES)
        if left > 0:
            self._look_at = seq + left
        elif not self._waiting and (self._sealing is None or not self._sealing.is_alive()):
            self._seal_at = now + RETRY_S
            self._start_sealing()

    def _start_sealing(self) -> None:
        if self._older is None:
            last, self._seq = self._seq, self._seq + 1
            try:
                self._switch_journal(seq=self._seq)
            except OSError as error:
                self._troubles.append(f"store: {reason(error)}; points stay in the journal")
                return
            self._older_seq, self._older_journal = last, self._journal_number - 1
            self._older, self._memory = self._memory, Packed()
        self._sealing = threading.Thread(
            target=self._seal_beside, args=(self._older,), name="expdb-seal"
        )
        try:
            self._sealing.start()
        except RuntimeError:
            pass  # no more threads: it is tried again later, and `close` seals in any case

    def _seal_beside(self, older: Packed) -> None:
        with self._one_seal:
            if self._older is not older:
                return  # `close` or another thread was first
            done = False
            try:
                older.freeze()
                self.update_book()
                journals = self._journals(self._older_journal)
                self._seal(older, self._older_seq, journals, lambda: self.save_book(durable=True))
                done = True
            except (OSError, ExpdbError) as error:
                why = reason(error) if isinstance(error, OSError) else str(error)
                self._troubles.append(f"store: {why}; the journal keeps what could not be sealed")
            finally:
                with self._counting, self._lock:
                    if done:
                        self._older, self._first_journal = None, self._older_journal + 1
                    else:
                        self._put_back(older)
        if done and self._curves is not None:
            self._curves.sealed(older.num_points, self.book)
        self._tell()

    def _put_back(self, older: Packed) -> None:
        self._memory, self._older, self._look_at = older.joined(self._memory), None, 0
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
