"""Event files of TensorBoard: records with checksums, each an event with the values of a step.

    record   length uint64, masked CRC-32C of these 8 bytes, data, masked CRC-32C of the data
    event    1 wall time double (s), 2 step int64, 3 version text, 5 summary
    summary  1 value, again and again: 1 tag, 2 float32, or 8 a tensor that holds one number

Numbers are little-endian, events are Protocol Buffers. Other fields are passed over.

Invariant: a length is believed only where its checksum is right.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Final, NamedTuple

VERSION: Final = "brain.Event:2"
"""The version text of a first event; readers refuse another."""
MAX_RECORD: Final = 64_000_000
_DTYPES: Final = {1: (5, "<f"), 2: (6, "<d")}
"""Type of a tensor -> the field of its numbers, and how one of them is packed."""


class Event(NamedTuple):
    """The values of one step under their tags."""

    time_s: float
    step: int
    values: Mapping[str, float]
    version: str = ""
    num_others: int = 0
    """Values that are no single number: pictures, histograms, texts."""


class Damaged(ValueError):
    """Bytes that are no record, or no event."""


class CutOff(Damaged):
    """A file that ends inside of a record, as that of a killed process does."""


def record(data: bytes) -> bytes:
    """Return the record of some data."""
    length = struct.pack("<Q", len(data))
    return b"".join((length, _checksum(length), data, _checksum(data)))


def records(file: IO[bytes]) -> Iterator[bytes | None]:
    """Yield the data of each record, None for one whose data have another checksum.

    Raises:
        CutOff: the file ends inside of a record.
        Damaged: a length has another checksum, or is over 64 MB; what follows cannot be found.
    """
    while head := file.read(12):
        if len(head) < 12:
            raise CutOff
        (length,) = struct.unpack_from("<Q", head)
        if head[8:] != _checksum(head[:8]) or length > MAX_RECORD:
            raise Damaged
        body = file.read(length + 4)
        if len(body) < length + 4:
            raise CutOff
        data = body[:length]
        yield data if body[length:] == _checksum(data) else None


def is_first(head: bytes) -> bool:
    """Tell whether a file that begins so is an event file."""
    return len(head) >= 12 and head[8:12] == _checksum(head[:8])


def encoded(event: Event) -> bytes:
    """Return an event as bytes; values are float32, those beyond its range infinite."""
    parts = [b"\x09", struct.pack("<d", event.time_s)]
    if event.step:
        parts += [b"\x10", _varint(event.step)]
    if event.version:
        parts += [b"\x1a", _sized(event.version.encode())]
    if event.values:
        values = [
            b"\x0a" + _sized(b"\x0a" + _sized(tag.encode()) + b"\x15" + _float32(value))
            for tag, value in event.values.items()
        ]
        parts += [b"\x2a", _sized(b"".join(values))]
    return b"".join(parts)


def decoded(data: bytes) -> Event:
    """Return the event in the data of a record.

    Raises:
        Damaged: they are none.
    """
    time_s, step, version, others = 0.0, 0, "", 0
    values: dict[str, float] = {}
    for number, item in _fields(data):
        match number, item:
            case 1, bytes() if len(item) == 8:
                (time_s,) = struct.unpack("<d", item)
            case 2, int():
                step = item - 2**64 if item >= 2**63 else item
            case 3, bytes():
                version = item.decode("utf-8", "replace")
            case 5, bytes():
                for _, inner in _fields(item):
                    tag, value = _value(inner)
                    if value is None:
                        others += 1
                    else:
                        values[tag] = value
    return Event(time_s, step, values, version, others)


def _value(data: int | bytes) -> tuple[str, float | None]:
    """Return the tag of a value, and its number where it is one."""
    tag, value = "", None
    for number, item in _fields(data):
        if number == 1 and isinstance(item, bytes):
            tag = item.decode("utf-8", "replace")
        elif number == 2 and isinstance(item, bytes) and len(item) == 4:
            (value,) = struct.unpack("<f", item)
        elif number == 8:
            value = _scalar(list(_fields(item)))
    return tag, value


def _scalar(tensor: Iterable[tuple[int, int | bytes]]) -> float | None:
    """Return the number of a tensor of one float; None for any other."""
    fields = dict(tensor)
    dtype = fields.get(1)
    if not isinstance(dtype, int) or dtype not in _DTYPES:
        return None
    place, form = _DTYPES[dtype]
    data = fields.get(place, fields.get(4))
    if not isinstance(data, bytes) or len(data) != struct.calcsize(form):
        return None
    (value,) = struct.unpack(form, data)
    return float(value)


def _fields(data: int | bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the content of each field of a message."""
    if isinstance(data, int):
        raise Damaged
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        kind = key & 7
        if kind == 0:
            item, at = _read_varint(data, at)
            yield key >> 3, item
            continue
        if kind == 2:
            size, at = _read_varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise Damaged
        if at + size > len(data):
            raise Damaged
        yield key >> 3, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise Damaged
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), at
    raise Damaged


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _sized(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _float32(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def _checksum(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def crc32c(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli) of some bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _row(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE: Final = tuple(_row(byte) for byte in range(256))
