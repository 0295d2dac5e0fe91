"""The title of the terminal's window: how the store lives, seen also from another window.

Invariant: what is said is plain text, as names of runs come from anybody; at the end the title is
the one that was there before, where the terminal keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from expdb.text import cut_end, plain

SAVE: Final = "\x1b[22;2t"
BACK: Final = "\x1b]2;\x07\x1b[23;2t"
WIDEST: Final = 80
WITHOUT: Final = ("linux", "dumb", "vt", "ansi", "cons")
"""Beginnings of the names of terminals that have no title, and would show what is sent for it."""


def has_title(env: Mapping[str, str]) -> bool:
    """Tell whether a terminal has a title, by its own words."""
    term = env.get("TERM", "")
    return bool(term) and not term.startswith(WITHOUT)


class Window:
    """The title of one terminal."""

    def __init__(self, write: Callable[[str], None] | None) -> None:
        self._write = write
        self.title = ""
        """What was said last."""

    def say(self, title: str) -> None:
        """Show a title."""
        title = cut_end(plain(title), WIDEST)
        if title == self.title:
            return
        first = SAVE if not self.title else ""
        self.title = title
        if self._write is not None:
            self._write(f"{first}\x1b]2;{title}\x07")

    def reset(self, write: Callable[[str], object]) -> None:
        """Give the title back, by another way: the app has ended."""
        if self.title and self._write is not None:
            write(BACK)
        self.title = ""
