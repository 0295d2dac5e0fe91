"""The keys of one rank, and the templates of its steps: what the V records of a journal point to.

Invariant: a key or template keeps its number for the life of the recorder, in every journal of it.
"""

from __future__ import annotations

import struct

from expdb.store.journal import MAX_KEY_BYTES, MAX_KEYS, VALUES, encode_key, encode_template


class Template:
    """The keys of one kind of step, with its packers: `V` records of one template have one size."""

    __slots__ = ("frame", "keys", "number", "record_bytes")

    def __init__(self, number: int, keys: tuple[str, ...]) -> None:
        self.number = number
        self.keys = keys
        self.record_bytes = VALUES.size + 8 * len(keys)
        self.frame = struct.Struct(f"<HIQcIqq{len(keys)}d")
        """Head of a frame and its one V record, without the checksum."""


class Templates:
    """All that a recorder has defined so far."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._by_keys: dict[tuple[str, ...], Template] = {}
        self.get = self._by_keys.get
        """The template of these keys, or None; a bound method, since each `log()` calls it."""

    def define(self, keys: tuple[str, ...]) -> tuple[Template, bytes]:
        """Make the template of storable keys; return it with records of what is new."""
        new = [key for key in keys if key not in self._numbers]
        for key in new:
            self._numbers[key] = len(self._numbers)
        template = self._by_keys[keys] = Template(len(self._by_keys), keys)
        return template, self._records(new, [template])

    def records(self) -> bytes:
        """Return the records that define everything; empty when there is nothing."""
        return self._records(list(self._numbers), list(self._by_keys.values()))

    def _records(self, keys: list[str], templates: list[Template]) -> bytes:
        records = [encode_key(self._numbers[key], key) for key in keys]
        records += [
            encode_template(item.number, [self._numbers[key] for key in item.keys])
            for item in templates
        ]
        return b"".join(records)


def is_storable(keys: tuple[str, ...]) -> bool:
    """Tell whether these keys fit in one template."""
    return len(keys) <= MAX_KEYS and not any(map(refusal, keys))


def refusal(key: str) -> str:
    """Return why a metric name cannot be stored; nothing when it can."""
    if not key:
        return "is empty"
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return "is not UTF-8 text"
    return f"has {size} bytes, over {MAX_KEY_BYTES}" if size > MAX_KEY_BYTES else ""
