"""The errors expdb raises, by what the caller can do about them.

    ExpdbError                 one line for the user, an optional hint with the next command
    ├── BadInput               the call or the file given is wrong: correct it (exit 2)
    ├── NotFound               no such run, ref, checkpoint, metric, store (exit 3)
    ├── Ambiguous              several candidates; `details` lists them (exit 3)
    ├── Refused                safe to do only after something else is done first (exit 4)
    ├── Conflict               someone moved it meanwhile: look again, retry (exit 4)
    ├── Corrupt                damaged or unwritable store, file, checkpoint (exit 5)
    └── Unsupported            not read: of a newer expdb, or with classes nobody allowed (exit 5)

Invariant: `message` is one sentence without a full stop; `hint` is a command or a fact that
decides; `details` are indented lines between the two.
"""

from __future__ import annotations


class ExpdbError(Exception):
    """The root of everything expdb raises on purpose."""

    exit_code = 1

    def __init__(
        self, message: str, *, hint: str | tuple[str, ...] = "", details: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hints: tuple[str, ...] = (hint,) if isinstance(hint, str) and hint else tuple(hint)
        self.details = details


class BadInput(ExpdbError):
    """The call, a value or a given file is wrong, or an extra is not installed."""

    exit_code = 2


class NotFound(ExpdbError):
    """The named thing does not exist."""

    exit_code = 3


class Ambiguous(ExpdbError):
    """The name fits several things of one class."""

    exit_code = 3


class Refused(ExpdbError):
    """Doing it now would lose work; nothing was written."""

    exit_code = 4


class Conflict(ExpdbError):
    """Somebody else changed the same thing meanwhile; nothing was written."""

    exit_code = 4


class Corrupt(ExpdbError):
    """A file of the store is damaged, or the store cannot be used."""

    exit_code = 5


class Unsupported(ExpdbError):
    """The file was written by a newer expdb than this one."""

    exit_code = 5
