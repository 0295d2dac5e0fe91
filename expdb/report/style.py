"""How one stream is drawn: colour, signs, width, and the moment that ages are counted from.

Invariant: a value without behaviour of its own but painting; the command line fills it, renderers
only read it. Without colour every line reads the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TextIO

from expdb.signs import STATE_GLYPHS, Colour, Signs, signs, to_ascii, use_ascii
from expdb.text import plain

MAX_WIDTH: Final = 120
PIPE_WIDTH: Final = 100
_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Style(NamedTuple):
    """How one stream is drawn."""

    color: bool = False
    ascii: bool = True
    width: int = 100
    terminal: bool = False
    """Whether a person looks: pipes get no glyphs of states, and `-` in empty cells."""
    now_ms: int = 0
    """The moment that ages are counted from, in UTC epoch milliseconds."""
    id_cells: int = 4
    """How many characters of an id tell every run of the store apart."""

    @property
    def signs(self) -> Signs:
        """The signs of the character set."""
        return signs(self.ascii)

    def paint(self, text: str, *colours: Colour) -> str:
        """Return `text` in the colours, or as it is without colour."""
        codes = [_CODES[colour] for colour in colours if colour]
        if not (self.color and codes and text):
            return text
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m"

    def say(self, text: str) -> str:
        """Return a line made elsewhere as safe text in this character set."""
        safe = plain(text)
        return to_ascii(safe) if self.ascii else safe

    def run(self, run: str) -> str:
        """Return an id as short as the store allows."""
        return run[: self.id_cells]

    def glyph(self, state: str) -> str:
        """Return the glyph of a state; none in a pipe."""
        if not self.terminal:
            return ""
        look = STATE_GLYPHS[state]
        return look.ascii if self.ascii else look.glyph

    def state(self, state: str) -> str:
        """Return a state as glyph and word."""
        return f"{self.glyph(state)} {state}".lstrip()


def style_of(stream: TextIO, env: Mapping[str, str], now_ms: int) -> Style:
    """Return how a stream is drawn, by what it is and what the environment asks for."""
    terminal = stream.isatty()
    color = terminal and env.get("TERM", "") != "dumb"
    if env.get("FORCE_COLOR", "") not in ("", "0"):
        color = True
    if env.get("NO_COLOR", ""):
        color = False
    width = PIPE_WIDTH
    if terminal:
        import shutil

        width = min(shutil.get_terminal_size().columns, MAX_WIDTH)
    return Style(
        color=color,
        ascii=use_ascii(stream, env),
        width=width,
        terminal=terminal,
        now_ms=now_ms,
    )


def next_line(label: str, command: str, style: Style) -> str:
    """Return a line that says what to do next: `compare:   expdb compare k3f9 t1h6`."""
    return f"{label + ':':<11}{style.say(command)}"
