"""`expdb doctor`: one line for each thing that is looked at, what to do under it, and a count.

Invariant: a command is never wrapped; what is well is dim.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from expdb.report import json
from expdb.report.style import Style
from expdb.signs import Colour

if TYPE_CHECKING:
    from expdb.actions.doctor_machine import Check, Mark

SIGNS: Final[dict[Mark, tuple[str, str, Colour]]] = {
    "ok": ("✓", "+", "green"),
    "note": ("!", "!", "yellow"),
    "problem": ("✗", "x", "red"),
    "none": ("-", "-", "dim"),
}
WORDS: Final[dict[Mark, str]] = {"ok": "ok", "note": "note", "problem": "problem", "none": "-"}
NAME_CELLS: Final = 12
WORD_CELLS: Final = 8


def render(checks: Sequence[Check], style: Style) -> list[str]:
    """Return the lines of all checks, and the count of what is not well."""
    lines: list[str] = []
    for check in checks:
        lines += _check(check, style)
    return [*lines, "", summary(checks)]


def sign(mark: Mark, style: Style) -> tuple[str, Colour]:
    """Return the sign of a mark on a terminal, its word in a pipe, and its colour."""
    glyph, plain, colour = SIGNS[mark]
    if not style.terminal:
        return f"{WORDS[mark]:<{WORD_CELLS}}", colour
    return plain if style.ascii else glyph, colour


def summary(checks: Sequence[Check]) -> str:
    """Return `1 problem, 1 thing to know`."""
    found = Counter(check.mark for check in checks)
    parts = []
    if found["problem"]:
        parts.append(f"{found['problem']} problem{'' if found['problem'] == 1 else 's'}")
    if found["note"]:
        parts.append(f"{found['note']} thing{'' if found['note'] == 1 else 's'} to know")
    return ", ".join(parts) or "no problem"


def _check(check: Check, style: Style) -> list[str]:
    text, colour = sign(check.mark, style)
    margin = " " * (len(text) + 1 + NAME_CELLS + 1)
    room = max(style.width - len(margin), 30)
    said = textwrap.wrap(
        style.say(check.what), room, break_long_words=False, break_on_hyphens=False
    ) or [""]  # fmt: skip
    shade: Colour = "dim" if check.mark in ("ok", "none") else ""
    first = f"{check.name:<{NAME_CELLS}} {said[0]}"
    lines = [f"{style.paint(text, colour)} {style.paint(first, shade)}".rstrip()]
    lines += [f"{margin}{style.paint(line, shade)}" for line in said[1:]]
    return lines + [f"{margin}{style.say(line)}" for line in check.advice]


def document(checks: Sequence[Check]) -> json.Data:
    """Return `doctor` as JSON."""
    found = Counter(check.mark for check in checks)
    return json.document(
        checks=[
            {
                "name": check.name,
                "state": check.mark,
                "what": check.what,
                "advice": list(check.advice),
            }
            for check in checks
        ],
        num_problems=found["problem"],
        num_notes=found["note"],
    )
