"""The line of what can be typed next: the chosen one stands out and is always in sight."""

from __future__ import annotations

from collections.abc import Sequence

from expdb.text import cells, plain
from expdb_tui.ink import Piece, width_of

GAP = 2


def suggested(words: Sequence[str], at: int, room: int, ellipsis: str) -> list[Piece]:
    """Return words in at most `room` cells; `at` is the chosen one, -1 where none is."""
    first = 0
    while first < at and sum(cells(one) + GAP for one in words[first : at + 1]) > room:
        first += 1
    out: list[Piece] = []
    for place, word in enumerate(words[first:], first):
        if width_of(out) + cells(word) + GAP > room:
            return [*out, (ellipsis, "faint")]
        out += [(plain(word), "accent+bold" if place == at else "dim"), (" " * GAP, "")]
    return out


def next_at(at: int, by: int, num: int) -> int:
    """Return which of `num` words is chosen after a step; it goes round."""
    if not num:
        return -1
    if at < 0:
        return 0 if by > 0 else num - 1
    return (at + by) % num
