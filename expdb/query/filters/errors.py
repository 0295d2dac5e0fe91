"""What is said of a filter that cannot be used: the words, the place, the nearest name."""

from __future__ import annotations

from typing import Final

from expdb import text
from expdb.errors import BadInput, NotFound

BEFORE: Final = 50
AROUND: Final = 80


def wrong(source: str, at: int, end: int, message: str, *, hint: str = "") -> BadInput:
    """Return the error for a filter that does not follow the grammar, with its place."""
    return BadInput(message, details=_place(source, at, end), hint=hint)


def unknown(source: str, at: int, end: int, message: str, *, hint: str = "") -> NotFound:
    """Return the error for a name that nothing has, with its place."""
    return NotFound(message, details=_place(source, at, end), hint=hint)


def _place(source: str, at: int, end: int) -> tuple[str, str]:
    """Return the expression, and carets under the characters from `at` to `end`."""
    start = max(0, at - BEFORE) if text.cells(text.plain(source)) > AROUND else 0
    stop = len(source) if start == 0 and len(source) <= AROUND else max(end, start + AROUND)
    shown = text.plain(source[start:stop])
    before = text.cells(text.plain(source[start:at]))
    carets = max(1, text.cells(text.plain(source[at : min(end, stop)])))
    return shown, " " * before + "^" * carets
