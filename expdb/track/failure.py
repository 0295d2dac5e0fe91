"""What is kept of the error that ended a run: its traceback, bounded and without secrets.

Invariant: nothing here raises, whatever the error's own methods do, and no line is so long that
looking for secrets in it takes time.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Final

from expdb.errors import ExpdbError
from expdb.redact import Redactor

MAX_BYTES: Final = 64 * 1024
"""Of a traceback the last so much is kept: the error stands at its end."""
MAX_CHARS: Final = 4096
"""A longer line is cut in its middle."""
MARGIN: Final = 1024
"""What goes beside a cut, where half a secret could stand."""


def failure_words(error: BaseException) -> str:
    """Return the kind and the first line of an error."""
    if isinstance(error, SystemExit):
        return f"the script ended with exit code {error.code}"
    said = error.message if isinstance(error, ExpdbError) else _said(error)
    first = said.strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {first}".removesuffix(": ")


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as trouble:  # noqa: BLE001 - the user's own error may raise anything here
        return f"its text cannot be made: {type(trouble).__name__}"


def traceback_lines(error: BaseException, redactor: Redactor) -> list[str]:
    """Return the last lines of a traceback, with notes, causes and groups, without secrets."""
    try:
        text = "".join(traceback.format_exception(error))
    except Exception as trouble:  # noqa: BLE001 - as in `_said`
        text = f"{type(error).__name__}: no traceback can be made: {type(trouble).__name__}"
    lines: list[str] = []
    left = MAX_BYTES
    for line in _from_the_end(text.rstrip("\n")):
        line = clipped(line, redactor)
        left -= len(line.encode("utf-8", "backslashreplace")) + 1
        if left < 0:
            lines.append(f"... the first lines are left out: more than {MAX_BYTES // 1024} KiB")
            break
        lines.append(line)
    # Once more as a whole: a secret of several short lines is known by all of them together.
    return redactor.text("\n".join(reversed(lines))).split("\n")


def _from_the_end(text: str) -> Iterator[str]:
    end = len(text)
    while end >= 0:
        start = text.rfind("\n", 0, end) + 1
        yield text[start:end]
        end = start - 1


def clipped(line: str, redactor: Redactor) -> str:
    """Return a line without secrets, cut in its middle when it is very long."""
    if len(line) <= MAX_CHARS:
        return redactor.text(line)
    if "://" not in line:
        line = redactor.known(line)  # known values take one pass; the other patterns may take many
    reach = MAX_CHARS // 2
    if len(line) <= 2 * (reach + MARGIN):
        return redactor.text(line)
    head = redactor.text(line[: reach + MARGIN])
    tail = redactor.text(line[-reach - MARGIN :])
    left_out = len(line) - 2 * reach
    return f"{head[:-MARGIN]} ... {left_out:,} characters ... {tail[MARGIN:]}"
