"""The signs that expdb draws with, in Unicode and in ASCII; standard library only.

Invariant: every sign of a state is one cell wide in every terminal (East Asian width N or Na).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TextIO


class Signs(NamedTuple):
    """The signs of one character set; every one is as wide in every terminal."""

    arrow: str
    pm: str
    ellipsis: str
    dot: str
    branch: str
    last_branch: str
    trunk: str
    bar_done: str
    bar_left: str
    line: str


UNICODE: Final = Signs(
    arrow="→",
    pm="±",
    ellipsis="…",
    dot="·",
    branch="├─",
    last_branch="└─",
    trunk="│",
    bar_done="━",
    bar_left="─",
    line="─",
)
ASCII: Final = Signs(
    arrow="->",
    pm="+-",
    ellipsis="..",
    dot=".",
    branch="|-",
    last_branch="\\-",
    trunk="|",
    bar_done="#",
    bar_left=".",
    line="-",
)

Colour = Literal["", "green", "red", "yellow", "cyan", "dim", "bold"]


class StateLook(NamedTuple):
    """How one state is drawn; `word` is the state's own name."""

    glyph: str
    ascii: str
    colour: Colour


STATE_GLYPHS: Final[Mapping[str, StateLook]] = {
    "finished": StateLook(glyph="✓", ascii="+", colour="green"),
    "up to date": StateLook(glyph="✓", ascii="+", colour="green"),
    "running": StateLook(glyph="▸", ascii=">", colour="cyan"),
    "paused": StateLook(glyph="◦", ascii="p", colour="cyan"),
    "pending": StateLook(glyph="⋅", ascii=".", colour=""),
    "preempted": StateLook(glyph="=", ascii="=", colour="yellow"),
    "stale": StateLook(glyph="↻", ascii="~", colour="yellow"),
    "missing": StateLook(glyph="◌", ascii="o", colour="yellow"),
    "crashed": StateLook(glyph="!", ascii="!", colour="red"),
    "lost": StateLook(glyph="?", ascii="?", colour="yellow"),
    "failed": StateLook(glyph="✗", ascii="x", colour="red"),
    "invalid": StateLook(glyph="✗", ascii="x", colour="red"),
    "variant": StateLook(glyph="✓", ascii="+", colour="green"),
    "not applicable": StateLook(glyph="-", ascii="-", colour="dim"),
}


_TO_ASCII: Final = str.maketrans(
    {"→": "->", "±": "+-", "…": "..", "·": ".", "├": "|", "└": "\\", "│": "|", "─": "-", "━": "#"}
    | {look.glyph: look.ascii for look in STATE_GLYPHS.values()}
)


def signs(ascii: bool) -> Signs:
    """Return the signs of the character set."""
    return ASCII if ascii else UNICODE


def to_ascii(text: str) -> str:
    """Return `text` with expdb's own signs in ASCII; other characters stay."""
    return text.translate(_TO_ASCII)


def use_ascii(stream: TextIO, env: Mapping[str, str]) -> bool:
    """Tell whether `stream` gets ASCII signs: asked for, no terminal, a poor one, or not UTF-8."""
    if env.get("EXPDB_ASCII", "") not in ("", "0"):
        return True
    if env.get("TERM", "") in ("dumb", "linux") or not stream.isatty():
        return True
    encoding = (stream.encoding or "").lower().replace("-", "").replace("_", "")
    return encoding != "utf8"
