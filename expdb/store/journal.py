"""The journal: the append-only live file of one rank of one attempt.

    file    = header frame*
    header  = "EXPDBJ" u8 format=1 u8 0 | u32 length | JSON {format, needs, run, attempt, rank} | u32 crc32 of all before
    frame   = u16 magic 0xE7DB | u32 length | u64 seq | payload[length] | u32 crc32 of all before (magic to payload)
    payload = record+
    record  = "K" u32 id  u16 n  utf-8[n]              a key and its id
            | "T" u32 id  u16 n  u32 key_id[n]         a template: the keys of one step
            | "V" u32 template  i64 step  i64 time_ms  f64 value[n]

Little-endian. `seq` counts frames from 1, up, per (attempt, rank), over all journals of that rank; length >= 1.

Invariant: one `write(2)` per frame with O_APPEND; when it returns the frame survives SIGKILL. A frame that does not
check is the end of the journal: what follows is counted as torn, never read as data. A crc over zeroes
cannot pass, since the magic is not zero.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.errors import Corrupt, Unsupported
from expdb.model import FORMAT, NEEDS
from expdb.store.files import encode_json

SIGNATURE = b"EXPDBJ"
MAGIC = 0xE7DB
FRAME = struct.Struct("<HIQ")
CRC = struct.Struct("<I")
KEY = struct.Struct("<cIH")
VALUES = struct.Struct("<cIqq")
MAX_KEY_BYTES = 0xFFFF


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
    data = key.encode("utf-8", "surrogatepass")
    return KEY.pack(b"K", number, len(data)) + data


def encode_template(number: int, keys: list[int]) -> bytes:
    """Return a T record."""
    return KEY.pack(b"T", number, len(keys)) + struct.pack(f"<{len(keys)}I", *keys)


class Template:
    """The keys of one kind of step, with its packers: `V` records of one template have one size."""

    __slots__ = ("frame", "keys", "number", "record_bytes")

    def __init__(self, number: int, keys: tuple[str, ...]) -> None:
        self.number = number
        self.keys = keys
        self.record_bytes = VALUES.size + 8 * len(keys)
        self.frame = struct.Struct(f"<HIQcIqq{len(keys)}d")
        """Head of a frame and its one V record, without the checksum."""


@dataclass(frozen=True, slots=True)
class Values:
    """One V record: the values of one `log()` call."""

    seq: int
    step: int
    time_ms: int
    keys: tuple[str, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class JournalInfo:
    """What a scan of a journal found."""

    header: dict[str, Any]
    num_frames: int
    last_seq: int
    good_bytes: int
    torn_bytes: int


class JournalReader:
    """Reads the whole frames of one journal; `info` is complete after the iteration."""

    def __init__(self, path: Path, *, after_seq: int = 0) -> None:
        self.path = path
        self.after_seq = after_seq
        data = path.read_bytes()
        self._data = data
        self.header, self._start = self._read_header(data)
        self.num_frames = 0
        self.last_seq = 0
        self.good_bytes = self._start

    @property
    def info(self) -> JournalInfo:
        """What the iteration found."""
        torn = len(self._data) - self.good_bytes
        return JournalInfo(self.header, self.num_frames, self.last_seq, self.good_bytes, torn)

    def __iter__(self) -> Iterator[Values]:
        keys: dict[int, str] = {}
        templates: dict[int, tuple[str, ...]] = {}
        for seq, payload in self._frames():
            yield from _records(seq, payload, keys, templates, wanted=seq > self.after_seq)

    def _frames(self) -> Iterator[tuple[int, memoryview]]:
        data, at = memoryview(self._data), self._start
        end = len(data)
        while at + FRAME.size + CRC.size < end:
            magic, length, seq = FRAME.unpack_from(data, at)
            stop = at + FRAME.size + length
            if magic != MAGIC or length < 1 or stop + CRC.size > end or seq <= self.last_seq:
                return
            if CRC.unpack_from(data, stop)[0] != zlib.crc32(data[at:stop]):
                return
            yield seq, data[at + FRAME.size : stop]
            at = stop + CRC.size
            self.num_frames += 1
            self.last_seq = seq
            self.good_bytes = at

    def _read_header(self, data: bytes) -> tuple[dict[str, Any], int]:
        import json

        if not data:
            return {}, 0  # killed between open and the first write: a journal without frames
        fixed = len(SIGNATURE) + 2 + CRC.size
        if data[: len(SIGNATURE)] != SIGNATURE:
            raise Corrupt(f"{self.path.name} is not a journal", hint=f"the file: {self.path}")
        if data[len(SIGNATURE)] > FORMAT:
            raise Unsupported(
                f"{self.path.name} has journal format {data[len(SIGNATURE)]};"
                f" this expdb reads formats up to {FORMAT}"
            )
        if len(data) < fixed:
            return {}, len(data)
        stop = fixed + CRC.unpack_from(data, fixed - CRC.size)[0]
        if len(data) < stop + CRC.size:
            return {}, len(data)
        if CRC.unpack_from(data, stop)[0] != zlib.crc32(data[:stop]):
            raise Corrupt(f"the header of {self.path.name} is damaged", hint=f"the file: {self.path}")
        return json.loads(data[fixed:stop]), stop + CRC.size


def _records(
    seq: int,
    payload: memoryview,
    keys: dict[int, str],
    templates: dict[int, tuple[str, ...]],
    *,
    wanted: bool,
) -> Iterator[Values]:
    at = 0
    while at < len(payload):
        kind = payload[at]
        if kind == ord("V"):
            _, number, step, time_ms = VALUES.unpack_from(payload, at)
            at += VALUES.size
            names = templates[number]
            if wanted:
                values = struct.unpack_from(f"<{len(names)}d", payload, at)
                yield Values(seq, step, time_ms, names, values)
            at += 8 * len(names)
            continue
        _, number, count = KEY.unpack_from(payload, at)
        at += KEY.size
        if kind == ord("K"):
            keys[number] = bytes(payload[at : at + count]).decode("utf-8", "surrogatepass")
            at += count
        else:
            ids = struct.unpack_from(f"<{count}I", payload, at)
            templates[number] = tuple(keys[item] for item in ids)
            at += 4 * count


class JournalWriter:
    """Appends frames to one journal file; one writer, one process.

    Raises OSError from `append` when the frame is not whole on disk; the file is then cut back to its last whole
    frame where that is possible, else the next frame starts a new file.
    """

    def __init__(self, path: Path, *, run: str, attempt: int, rank: int) -> None:
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o666)
        self.size = 0
        self.broken = False
        """Whether the tail could not be cut back: this file takes no more frames."""
        self._write(encode_header(run=run, attempt=attempt, rank=rank))

    def append(self, frame: bytes) -> None:
        """Write one whole frame (see `encode_frame`).

        Raises:
            OSError: the frame is not on disk.
        """
        self._write(frame)

    def _write(self, data: bytes) -> None:
        # A full disk writes half of it and returns the count without an error.
        try:
            written = os.write(self._fd, data)
        except OSError:
            self._cut_back()
            raise
        if written != len(data):
            self._cut_back()
            raise OSError(28, f"only {written} of {len(data)} bytes fit", str(self.path))
        self.size += written

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._fd, self.size)
        except OSError:
            self.broken = True

    def sync(self) -> None:
        """Make what was written survive a power loss."""
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
