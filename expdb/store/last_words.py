"""The traceback in the log of an attempt: behind a line of its own, each line set in.

Invariant: no line of a traceback looks like one that the run says itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

MARK: Final = "traceback"
INDENT: Final = "  | "
READ_BYTES: Final = 160 * 1024
"""More than a traceback with its indents and the lines behind it take."""


def marked(lines: Iterable[str]) -> Iterator[str]:
    """Yield the log lines of a traceback."""
    yield MARK
    for line in lines:
        yield f"{INDENT}{line}".rstrip()


def read_traceback(log: Path) -> list[str]:
    """Return the lines of the last traceback in a log; none where it has none, or is gone.

    The text was plain when it was written; a file that somebody changed may hold anything.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - READ_BYTES))
            lines = file.read().decode("utf-8", "backslashreplace").split("\n")
    except OSError:
        return []
    if MARK not in lines:
        return []
    found: list[str] = []
    at = len(lines) - lines[::-1].index(MARK)
    for line in lines[at:]:
        if not line.startswith(INDENT.rstrip()):
            break
        found.append(line.removeprefix(INDENT) if line.startswith(INDENT) else "")
    return found
