"""The journal: the append-only live file of one rank of one attempt.

    file    = header frame*
    header  = "EXPDBJ" u8 format=1 u8 0 | u32 length | JSON | u32 crc32 of all before
    JSON    = {format, needs, run, attempt, rank}
    frame   = u16 magic 0xE7DB | u32 length | u64 seq | payload[length] | u32 crc32 from magic on
    payload = record+
    record  = "K" u32 id  u16 n  utf-8[n]              a key and its id
            | "T" u32 id  u16 n  u32 key_id[n]         a template: the keys of one step
            | "V" u32 template  i64 step  i64 time_ms  f64 value[n]

Little-endian. `seq` counts frames from 1, up, per (attempt, rank), over all journals of that rank;
length >= 1.

Invariant: one `write(2)` per frame with O_APPEND; when it returns the frame survives SIGKILL. A
frame that does not check is the end of the journal: what follows is counted, never read as data. A
crc over zeroes cannot pass, since the magic is not zero.
"""

from __future__ import annotations

import errno
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.errors import Corrupt, Unsupported
from expdb.model import FORMAT, NEEDS
from expdb.store.files import encode_json, fsync_dir, reason

SIGNATURE = b"EXPDBJ"
MAGIC = 0xE7DB
FRAME = struct.Struct("<HIQ")
CRC = struct.Struct("<I")
KEY = struct.Struct("<cIH")
VALUES = struct.Struct("<cIqq")
MAX_KEY_BYTES = MAX_KEYS = 0xFFFF


def encode_header(*, run: str, attempt: int, rank: int) -> bytes:
    """Return the header of a journal."""
    info = {"format": FORMAT, "needs": NEEDS, "run": run, "attempt": attempt, "rank": rank}
    body = encode_json(info)
    head = SIGNATURE + bytes([FORMAT, 0]) + CRC.pack(len(body)) + body
    return head + CRC.pack(zlib.crc32(head))


def encode_frame(seq: int, payload: bytes) -> bytes:
    """Return one frame; `payload` holds at least one record."""
    head = FRAME.pack(MAGIC, len(payload), seq) + payload
    return head + CRC.pack(zlib.crc32(head))


def encode_key(number: int, key: str) -> bytes:
    """Return a K record."""
    data = key.encode()
    return KEY.pack(b"K", number, len(data)) + data


def encode_template(number: int, keys: list[int]) -> bytes:
    """Return a T record."""
    return KEY.pack(b"T", number, len(keys)) + struct.pack(f"<{len(keys)}I", *keys)


@dataclass(frozen=True, slots=True)
class Values:
    """One V record: the values of one `log()` call."""

    seq: int
    step: int
    time_ms: int
    keys: tuple[str, ...]
    values: tuple[float, ...]


class JournalReader:
    """Reads the whole frames of one journal; what it counts is complete after the iteration.

    Raises:
        Corrupt: the file is no journal, or its header is damaged.
        Unsupported: a newer expdb wrote it.
        FileNotFoundError: it was sealed and removed meanwhile.
    """

    def __init__(self, path: Path, *, after_seq: int = 0) -> None:
        self.path = path
        self.after_seq = after_seq
        try:
            self._data = path.read_bytes()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Corrupt(
                f"{path.name} cannot be read: {reason(error)}", hint=f"the file: {path}"
            ) from error
        self.header, self.good_bytes = self._read_header()
        self.num_frames = 0
        self.last_seq = 0

    @property
    def torn_bytes(self) -> int:
        """The bytes after the last good frame."""
        return len(self._data) - self.good_bytes

    def problem(self) -> str:
        """Return what is wrong with the journal in one line, or nothing."""
        if not self.torn_bytes:
            return ""
        if self.is_damaged():
            return (
                f"{self.path.name}: damaged after {self.num_frames} whole frames;"
                " the rest is not read"
            )
        return f"{self.path.name}: torn at its end; all {self.num_frames} whole frames kept"

    def is_damaged(self) -> bool:
        """Tell whether whole frames stand behind the last good one: no death tears that way."""
        at, magic = self.good_bytes - 1, MAGIC.to_bytes(2, "little")
        while (at := self._data.find(magic, at + 1)) >= 0:
            if self._frame_at(at) is not None:
                return True
        return False

    def __iter__(self) -> Iterator[Values]:
        """Yield the values of all good frames with a `seq` above `after_seq`, once."""
        keys: dict[int, str] = {}
        templates: dict[int, tuple[str, ...]] = {}
        data = memoryview(self._data)
        while (found := self._frame_at(self.good_bytes)) is not None and found[0] > self.last_seq:
            seq, stop = found
            payload = data[self.good_bytes + FRAME.size : stop - CRC.size]
            try:
                values = list(_records(seq, payload, keys, templates))
            except (KeyError, ValueError, struct.error):
                return  # whole, but not what a writer of this format writes
            self.num_frames, self.last_seq, self.good_bytes = self.num_frames + 1, seq, stop
            if seq > self.after_seq:
                yield from values

    def _frame_at(self, at: int) -> tuple[int, int] | None:
        """Return (seq, end) of the whole frame at a position, if there is one."""
        data = self._data
        if at + FRAME.size + CRC.size >= len(data):
            return None
        magic, length, seq = FRAME.unpack_from(data, at)
        stop = at + FRAME.size + length
        if magic != MAGIC or length < 1 or stop + CRC.size > len(data):
            return None
        if CRC.unpack_from(data, stop)[0] != zlib.crc32(memoryview(data)[at:stop]):
            return None
        return seq, stop + CRC.size

    def _read_header(self) -> tuple[dict[str, Any], int]:
        data, where = self._data, f"the file: {self.path}"
        fixed = len(SIGNATURE) + 2 + CRC.size
        if not data.startswith(SIGNATURE[: len(data)]):
            raise Corrupt(f"{self.path.name} is not a journal", hint=where)
        if len(data) < fixed:
            return {}, 0  # killed in its first write: no frames yet
        if data[len(SIGNATURE)] > FORMAT:
            raise Unsupported(
                f"{self.path.name} has journal format {data[len(SIGNATURE)]};"
                f" this expdb reads formats up to {FORMAT}",
                hint=where,
            )
        stop = fixed + CRC.unpack_from(data, fixed - CRC.size)[0]
        if len(data) < stop + CRC.size:
            return {}, 0
        if CRC.unpack_from(data, stop)[0] != zlib.crc32(data[:stop]):
            raise Corrupt(f"the header of {self.path.name} is damaged", hint=where)
        return json.loads(data[fixed:stop]), stop + CRC.size


def _records(
    seq: int, payload: memoryview, keys: dict[int, str], templates: dict[int, tuple[str, ...]]
) -> Iterator[Values]:
    at = 0
    while at < len(payload):
        kind = payload[at]
        if kind == ord("V"):
            _, number, step, time_ms = VALUES.unpack_from(payload, at)
            names = templates[number]
            values = struct.unpack_from(f"<{len(names)}d", payload, at + VALUES.size)
            yield Values(seq, step, time_ms, names, values)
            at += VALUES.size + 8 * len(names)
            continue
        _, number, count = KEY.unpack_from(payload, at)
        at += KEY.size
        if kind == ord("K"):
            keys[number] = bytes(payload[at : at + count]).decode()
            at += count
        elif kind == ord("T"):
            ids = struct.unpack_from(f"<{count}I", payload, at)
            templates[number] = tuple(keys[item] for item in ids)
            at += 4 * count
        else:
            raise ValueError(f"a record of the unknown kind {kind}")


class JournalWriter:
    """Appends frames to one journal file; one writer, one process.

    Raises OSError from `append` when the frame is not whole on disk; the file is then cut back to
    its last whole frame where that is possible, else it is `broken` and the next frame has to start
    a new file.
    """

    def __init__(self, path: Path, *, run: str, attempt: int, rank: int) -> None:
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o666)
        self.size = 0
        self.broken = False
        """Whether the tail could not be cut back: this file takes no more frames."""
        self._is_new = True
        try:
            self.append(encode_header(run=run, attempt=attempt, rank=rank))
        except OSError:
            self.remove()
            raise

    def append(self, frame: bytes) -> None:
        """Write one whole frame (see `encode_frame`).

        Raises:
            OSError: the frame is not on disk.
        """
        # A full disk writes half of it and returns the count without an error.
        try:
            written = os.write(self._fd, frame)
        except OSError:
            self._cut_back()
            raise
        if written != len(frame):
            self._cut_back()
            raise OSError(errno.ENOSPC, f"only {written} of {len(frame)} bytes fit", str(self.path))
        self.size += written

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._fd, self.size)
        except OSError:
            self.broken = True

    def syncer(self) -> Callable[[], None]:
        """Return what makes all written so far survive a power loss; any thread may call it, once.

        Raises:
            OSError: the journal is closed.
        """
        fd, is_new = os.dup(self._fd), self._is_new
        self._is_new = False

        def sync() -> None:
            try:
                os.fdatasync(fd)
                if is_new:
                    fsync_dir(self.path.parent)
            finally:
                os.close(fd)

        return sync

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def remove(self) -> None:
        """Close the file and take it away again: nothing of worth was written to it."""
        self.close()
        self.path.unlink(missing_ok=True)
