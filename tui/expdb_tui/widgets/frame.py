"""The frame of every screen: the header, the line that says what is shown, and the keys.

Invariant: each is one row; what does not fit is left out whole, from the right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from textual.app import RenderResult
from textual.strip import Strip
from textual.widget import Widget

from expdb_tui.ink import Piece, between, cut, strip, width_of

if TYPE_CHECKING:
    from expdb_tui.shared import Shared

NAMES = ("Runs", "Run", "Compare", "Plot", "Matrix", "History")
FULL, SHORT = 100, 60
"""Cells from which on the header has the store's name, and the names of the screens."""


def _ends(left: Sequence[Piece], right: Sequence[Piece], width: int, ellipsis: str) -> list[Piece]:
    """Return a line with two ends; the left one is cut with the sign of the character set."""
    room = width - width_of(right) - bool(right)
    return between(cut(left, room, ellipsis) if room > 0 else left, right, width)


class Bar(Widget):
    """One row of pieces."""

    DEFAULT_CSS = "Bar { height: 1; }"
    ground = "bg"

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.left: Sequence[Piece] = ()
        self.right: Sequence[Piece] = ()

    def put(self, left: Sequence[Piece], right: Sequence[Piece] = ()) -> None:
        """Show other pieces."""
        if (left, right) != (self.left, self.right):
            self.left, self.right = left, right
            self.refresh()

    def render(self) -> RenderResult:
        """Return nothing: `render_line` draws."""
        return ""

    def pieces(self, width: int) -> Sequence[Piece]:
        """Return the row."""
        signs = cast("Shared", self.app).marks
        return _ends(self.left, self.right, width, signs.ellipsis)

    def render_line(self, y: int) -> Strip:
        """Draw the row with a cell of air at both ends."""
        app, width = cast("Shared", self.app), self.size.width
        pieces = [(" ", ""), *self.pieces(width - 2), (" ", "")]
        return strip(pieces, width, app.palette, ground=self.ground, ellipsis=app.marks.ellipsis)


class Header(Bar):
    """The screens by number, and how the store lives."""

    ground = "surface"

    def __init__(self, number: int) -> None:
        super().__init__(id="header")
        self._number = number

    def pieces(self, width: int) -> Sequence[Piece]:
        """Return the row for a width."""
        app = cast("Shared", self.app)
        name = f" {app.store_name}" if width >= FULL else ""
        left: list[Piece] = [("expdb", "text+bold"), (name, "dim"), ("  ", "")]
        for number, screen in enumerate(NAMES, 1):
            is_here = number == self._number
            word = screen
            if width < FULL and len(screen) > 6 and not is_here:
                word = screen[:4]
            if width < SHORT and not is_here:
                word = ""
            role = "accent+bold+underline" if is_here else "dim"
            left += [(f"{number} {word}".rstrip(), role), ("  ", "")]
        return between(left, app.life.pieces(is_short=width < FULL), width)


class KeyBar(Bar):
    """The keys of a screen, the most used first; or a message for a while."""

    ground = "surface"

    def __init__(self, keys: Sequence[tuple[str, str]]) -> None:
        super().__init__(id="keys")
        self.keys = keys
        self.message: Sequence[Piece] = ()

    def say(self, message: Sequence[Piece], seconds: float = 4.0) -> None:
        """Show a message in the place of the keys."""
        self.message = message
        self.refresh()
        self.set_timer(seconds, lambda: self._drop(message))

    def unsay(self, text: str) -> None:
        """Take a message away, if it is the one that stands there."""
        if "".join(part for part, _ in self.message) == text:
            self._drop(self.message)

    def _drop(self, message: Sequence[Piece]) -> None:
        if self.message is message:
            self.message = ()
            self.refresh()

    def pieces(self, width: int) -> Sequence[Piece]:
        """Return the row for a width; whole pairs only."""
        [(key, said)] = cast("Shared", self.app).keys.shown("everywhere", [("?", "help")])
        end: list[Piece] = [(key, "accent"), (f" {said}", "dim")]
        if self.message:
            signs = cast("Shared", self.app).marks
            return _ends(self.message, end, width, signs.ellipsis)
        shown: list[Piece] = []
        for key, name in self.keys:
            pair: list[Piece] = [(key, "accent"), (f" {name}  ", "dim")]
            if width_of(shown) + width_of(pair) + width_of(end) > width:
                break
            shown += pair
        return between(shown, end, width)
