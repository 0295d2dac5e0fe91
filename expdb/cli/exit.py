"""The exit codes of `expdb`; nothing else decides one."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class ExitCode(IntEnum):
    """How a command ended; each member's docstring says when."""

    def __new__(cls, value: int, doc: str) -> Self:
        """Make a member with a docstring of its own."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.__doc__ = doc
        return member

    OK = 0, "Done, or nothing to do."
    CONDITION_FALSE = 1, "A condition that was asked for does not hold: `compare --fail-if`."
    USAGE = 2, "The command line, a value or a given file is wrong, or an extra is not installed."
    NOT_FOUND = 3, "No such run, ref, metric, checkpoint or store, or a name that fits several."
    REFUSED = 4, "Refused for safety, or answered with no; nothing was written."
    STORE = 5, "The store is damaged, locked, not writable, or made by a newer expdb."
    INTERNAL = 70, "A fault in expdb itself."
    INTERRUPTED = 130, "Ctrl-C."
