"""The keys of one rank, and the templates of its steps: what the V records of a journal point to.

Invariant: a key or template keeps its number for the life of the recorder, in every journal of it,
and a number is given once, even where a definition was cut off and is made again.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from expdb.store.journal import (
    CRC,
    FRAME,
    MAGIC,
    MAX_KEY_BYTES,
    MAX_KEYS,
    VALUES,
    encode_key,
    encode_template,
)

HEAD, TAG = struct.Struct("<HI"), struct.Struct("<cI")
"""What is the same in all frames of one template: before `seq`, and after it."""


class Template:
    """The keys of one kind of step, with its packers: `V` records of one template have one size."""

    __slots__ = ("floats", "frame_bytes", "head", "keys", "last", "number", "pack", "tag")

    def __init__(self, number: int, keys: tuple[str, ...]) -> None:
        self.number = number
        self.keys = keys
        record_bytes = VALUES.size + 8 * len(keys)
        self.frame_bytes = FRAME.size + record_bytes + CRC.size
        self.pack = struct.Struct(f"<6sQ5sqq{len(keys)}d").pack
        """(head, seq, tag, step, time, values...) -> a frame of one V record, but its checksum."""
        self.head = HEAD.pack(MAGIC, record_bytes)
        self.tag = TAG.pack(b"V", number)
        self.floats = (float,) * len(keys)
        """The types of values that need no look."""
        self.last: tuple[int, int, Sequence[float]] = (0, 0, ())
        """Frame, step and values of its last record; one assignment, so never half of it."""


class Definition(NamedTuple):
    """A template, the keys that are new with it, and the records that define both."""

    template: Template
    numbers: Mapping[str, int]
    records: bytes


class Templates:
    """All that a recorder has defined so far."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._by_keys: dict[tuple[str, ...], Template] = {}
        self._next_key = self._next_template = 0
        self.get = self._by_keys.get
        """The template of these keys, or None; a bound method, since each `log()` calls it."""

    def define(self, keys: tuple[str, ...]) -> Definition:
        """Number what is new in these storable keys; `add` makes it known."""
        numbers: dict[str, int] = {}
        for key in keys:
            if key not in self._numbers and key not in numbers:
                number, self._next_key = self._next_key, self._next_key + 1
                numbers[key] = number
        number, self._next_template = self._next_template, self._next_template + 1
        template = Template(number, keys)
        records = _records(numbers, {**self._numbers, **numbers}, [template])
        return Definition(template, numbers, records)

    def add(self, definition: Definition) -> None:
        """Make a definition known, once it is on its way to the journal before any value."""
        self._numbers.update(definition.numbers)
        self._by_keys[definition.template.keys] = definition.template

    def numbered(self) -> dict[int, Template]:
        """Return number -> template, of all; any thread may ask."""
        return {template.number: template for template in list(self._by_keys.values())}

    def close(self) -> None:
        """Know no template from now on; `latest` still answers."""
        self.get = dict[tuple[str, ...], Template]().get

    def latest(self) -> dict[str, tuple[int, float]]:
        """Return key -> (step, value) of its last record, keys in the order of their first."""
        frames: dict[str, int] = {}
        found: dict[str, tuple[int, float]] = {}
        for template in list(self._by_keys.values()):
            frame, step, values = template.last
            for key, value in zip(template.keys, values, strict=False):  # none yet, at first
                if frame > frames.get(key, 0):
                    frames[key], found[key] = frame, (step, value)
        return found

    def records(self) -> bytes:
        """Return the records that define everything; empty when there is nothing."""
        return _records(self._numbers, self._numbers, list(self._by_keys.values()))


def _records(
    new: Mapping[str, int], numbers: Mapping[str, int], templates: list[Template]
) -> bytes:
    records = [encode_key(number, key) for key, number in new.items()]
    records += [
        encode_template(item.number, [numbers[key] for key in item.keys]) for item in templates
    ]
    return b"".join(records)


def is_storable(keys: tuple[str, ...]) -> bool:
    """Tell whether these keys fit in one template."""
    return len(keys) <= MAX_KEYS and not any(map(refusal, keys))


def parted(
    keys: Sequence[str], values: Sequence[float]
) -> tuple[list[tuple[tuple[str, ...], Sequence[float]]], list[str]]:
    """Return keys and values in pieces that each fit in one template, and in words which were
    refused.
    """
    why = {key: refusal(key) for key in keys}
    good = [(key, value) for key, value in zip(keys, values, strict=True) if not why[key]]
    starts = range(0, len(good), MAX_KEYS)
    pieces = [good[start : start + MAX_KEYS] for start in starts]
    refused = [f"the name {key[:60]!a} {text}" for key, text in why.items() if text]
    return [
        (tuple(key for key, _ in some), [value for _, value in some]) for some in pieces
    ], refused


def refusal(key: str) -> str:
    """Return why a metric name cannot be stored; nothing when it can."""
    if not key:
        return "is empty"
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return "is not UTF-8 text"
    return f"has {size} bytes, over {MAX_KEY_BYTES}" if size > MAX_KEY_BYTES else ""
