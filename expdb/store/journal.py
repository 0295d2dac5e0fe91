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
frame that does not check is never read as data: what follows is searched for whole frames with a
growing seq, and those whose keys are known are read. A crc over zeroes cannot pass, since the magic
is not zero; a number of a key or template is never given twice, so a lost definition cannot make
one key's values those of another.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.errors import Corrupt, Unsupported
from expdb.model import FORMAT, NEEDS
from expdb.store.files import encode_json, read_regular, reason

SIGNATURE = b"EXPDBJ"
MAGIC = 0xE7DB
FRAME = struct.Struct("<HIQ")
CRC = struct.Struct("<I")
KEY = struct.Struct("<cIH")
VALUES = struct.Struct("<cIqq")
COVERED = struct.Struct("<HIQcI")
"""The head of a frame, and of its first record if that is a V."""
ALIKE = 64
"""Covered frames of one template in a row from which on they are looked at as an array."""
ALIKE_FIELDS: dict[str, Any] = {
    "names": ["magic", "length", "seq", "kind", "number"],
    "formats": ["<u2", "<u4", "<u8", "S1", "<u4"],
    "offsets": [0, 2, 6, 14, 15],
}
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
            self._data = read_regular(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Corrupt(
                f"{path.name} cannot be read: {reason(error)}", hint=f"the file: {path}"
            ) from error
        self.header, self.good_bytes = self._read_header()
        self.last_seq = self.num_frames = 0
        self.num_before_damage: int | None = None
        """Whole frames before the first damage that whole frames follow."""
        self.num_unread = 0
        """Whole frames behind a damage whose keys were lost in it, or that make no sense."""

    @property
    def torn_bytes(self) -> int:
        """The bytes after the last whole frame."""
        return len(self._data) - self.good_bytes

    @property
    def is_damaged(self) -> bool:
        """Whether whole frames stand behind a bad one: no death of a writer tears that way."""
        return self.num_before_damage is not None

    def problem(self) -> str:
        """Return what is wrong with the journal in one line, or nothing."""
        name, before = self.path.name, self.num_before_damage
        if before is not None:
            read, behind = self.num_frames - before, self.num_frames - before + self.num_unread
            rest = f"{read} of {behind} behind it could be read"
            if not read:
                rest = "what follows could not be read"
            return f"{name}: damaged after {before} whole frames; {rest}"
        if self.torn_bytes:
            return f"{name}: torn at its end; all {self.num_frames} whole frames kept"
        return ""

    def __iter__(self) -> Iterator[Values]:
        """Yield the values of all whole frames with a `seq` above `after_seq`, once."""
        keys: dict[int, str] = {}
        templates: dict[int, tuple[str, ...]] = {}
        sizes: dict[int, int] = {}
        data = memoryview(self._data)
        at = self.good_bytes
        while True:
            if self.last_seq < self.after_seq:
                at = self._pass_covered(at, sizes)
            found = self._frame_at(at)
            if found is None or found[0] <= self.last_seq:
                behind = self._frame_behind(at)
                if behind is None:
                    return
                self._note_damage()
                at, found = behind
            seq, stop = found
            payload = data[at + FRAME.size : stop - CRC.size]
            try:
                values = list(_records(seq, payload, keys, templates, sizes))
            except (KeyError, ValueError, struct.error):
                self._note_damage()
                self.num_unread += 1
                values = []
            else:
                self.num_frames += 1
            self.last_seq, self.good_bytes, at = seq, stop, stop
            if seq > self.after_seq:
                yield from values

    def value_frames(self) -> Iterator[tuple[int, memoryview]]:
        """Yield all frames of values as they are, with the number of their template: neighbours of
        one template together. Once, instead of the iteration.

        Raises:
            Corrupt: a frame is not whole; the others were yielded.
        """
        data, self.after_seq = memoryview(self._data), (1 << 64) - 1
        at = self.good_bytes
        while at < len(data):
            found = self._frame_at(at)
            if found is None or found[0] <= self.last_seq:
                raise Corrupt(f"{self.path.name} is damaged", hint=f"the file: {self.path}")
            seq, stop = found
            _, length, _, kind, number = COVERED.unpack_from(data, at)
            if kind == b"V":
                size = stop - at
                more, seq = self._num_alike(stop, number, length, seq)
                for start in range(stop, stop + more * size, size):
                    if self._frame_at(start) is None:
                        raise Corrupt(f"{self.path.name} is damaged", hint=f"the file: {self.path}")
                stop += more * size
                yield number, data[at:stop]
            self.last_seq, self.good_bytes, at = seq, stop, stop

    def _note_damage(self) -> None:
        if self.num_before_damage is None:
            self.num_before_damage = self.num_frames

    def _pass_covered(self, at: int, sizes: Mapping[int, int]) -> int:
        """Go by the frames of values up to `after_seq`, which nobody wants, and return where.

        Their form is checked and their checksum is not: 300,000 of them stand in a full journal.
        """
        unpack, data, after, last = COVERED.unpack_from, self._data, self.after_seq, self.last_seq
        end, around, count = len(data), FRAME.size + CRC.size, 0
        like, alike = -1, 0
        while at + around + VALUES.size <= end:
            magic, length, seq, kind, number = unpack(data, at)
            if not last < seq <= after or kind != b"V" or sizes.get(number) != length:
                break
            if magic != MAGIC or at + around + length > end:
                break
            last, count, at = seq, count + 1, at + around + length
            like, alike = number, alike + 1 if number == like else 1
            if alike == ALIKE:
                more, last = self._num_alike(at, number, length, last)
                count, at, alike = count + more, at + more * (around + length), 0
        self.last_seq, self.num_frames, self.good_bytes = last, self.num_frames + count, at
        return at

    def _num_alike(self, at: int, number: int, length: int, last: int) -> tuple[int, int]:
        """Return how many covered frames of one template come next, and the seq of the last."""
        import numpy as np

        size, total, chunk = FRAME.size + length + CRC.size, 0, 8 * ALIKE
        spec: Any = {**ALIKE_FIELDS, "itemsize": size}
        dtype = np.dtype(spec)
        while (some := min(chunk, (len(self._data) - at) // size)) > 0:
            frames = np.frombuffer(self._data, dtype, some, at)
            seqs = frames["seq"]
            good = (frames["magic"] == MAGIC) & (frames["length"] == length)
            good &= (frames["kind"] == b"V") & (frames["number"] == number)
            good &= (seqs <= self.after_seq) & (seqs > np.append(np.uint64(last), seqs[:-1]))
            count = some if good.all() else int(good.argmin())
            if count:
                total, at, last = total + count, at + count * size, int(seqs[count - 1])
            if count < chunk:
                break
            chunk *= 2
        return total, last

    def _frame_behind(self, at: int) -> tuple[int, tuple[int, int]] | None:
        """Return (start, (seq, end)) of the next whole frame behind a bad one, if there is one."""
        magic = MAGIC.to_bytes(2, "little")
        while (at := self._data.find(magic, at)) >= 0:
            found = self._frame_at(at)
            if found is not None:
                if found[0] > self.last_seq:
                    return at, found
                self._note_damage()  # one that does not belong here, whole as it is
                self.num_unread += 1
                at = found[1]
            else:
                at += 1
        return None

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
        if not data:
            raise Corrupt(f"{self.path.name} is empty", hint=where)
        if len(data) < fixed:
            raise Corrupt(f"the header of {self.path.name} is cut off", hint=where)
        if data[len(SIGNATURE)] > FORMAT:
            raise Unsupported(
                f"{self.path.name} has journal format {data[len(SIGNATURE)]};"
                f" this expdb reads formats up to {FORMAT}",
                hint=where,
            )
        stop = fixed + CRC.unpack_from(data, fixed - CRC.size)[0]
        if len(data) < stop + CRC.size:
            raise Corrupt(f"the header of {self.path.name} is cut off", hint=where)
        if CRC.unpack_from(data, stop)[0] != zlib.crc32(data[:stop]):
            raise Corrupt(f"the header of {self.path.name} is damaged", hint=where)
        return json.loads(data[fixed:stop]), stop + CRC.size


def _records(
    seq: int,
    payload: memoryview,
    keys: dict[int, str],
    templates: dict[int, tuple[str, ...]],
    sizes: dict[int, int],
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
            sizes[number] = VALUES.size + 8 * count
            at += 4 * count
        else:
            raise ValueError(f"a record of the unknown kind {kind}")
