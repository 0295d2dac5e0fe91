"""Lines of exact width from pieces of text, each with a role.

A piece is (text, role); a role is a name of the palette, with `+` and words for more: `text+bold`,
`accent+underline`, `dim+strike`, `bg:accent` for a ground. A line is drawn on a ground, and what is
on the cursor's row has its faint pieces dim.

Invariant: every text has been made plain before it comes here; control characters do not reach a
terminal from here all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from expdb.text import plain
from expdb_tui.palette import ALL, Depth, Ground, Palette

Piece = tuple[str, str]


def width_of(pieces: Iterable[Piece]) -> int:
    """Return how many cells pieces take."""
    return sum(cell_len(text) for text, _ in pieces)


def cut(pieces: Sequence[Piece], width: int, ellipsis: str = "…") -> list[Piece]:
    """Return pieces that fit into `width` cells; what is cut ends with the sign for it."""
    if width <= 0:
        return []
    if width_of(pieces) <= width:
        return list(pieces)
    out: list[Piece] = []
    left = width - 1
    for text, role in pieces:
        size = cell_len(text)
        if size > left:
            out.append((set_cell_size(text, left).rstrip() + ellipsis, role))
            break
        out.append((text, role))
        left -= size
    return out


def fit(
    pieces: Sequence[Piece], width: int, *, right: bool = False, ellipsis: str = "…"
) -> list[Piece]:
    """Return pieces of exactly `width` cells: cut, or filled at the other side."""
    found = cut(pieces, width, ellipsis)
    room = max(0, width - width_of(found))
    if not room:
        return found
    return [(" " * room, ""), *found] if right else [*found, (" " * room, "")]


@lru_cache(maxsize=4096)
def _style(palette_key: tuple[Ground, Depth], role: str, ground: str, is_cursor: bool) -> Style:
    palette = ALL[palette_key]
    name, *words = role.split("+")
    on = ground
    for word in words:
        if word.startswith("on-"):
            on = word[3:]
    if is_cursor and name == "faint":
        name = "dim"
    colour = palette.roles.get(name or "text", name)
    if palette.depth == "16":
        reverse = "reverse" in words or on in ("sel", "accent")
        return Style(
            bold="bold" in words or name == "accent", reverse=reverse,
            underline="underline" in words, strike="strike" in words,
        )  # fmt: skip
    back = palette.roles.get(on, on) or palette.bg
    return Style(
        color=colour or palette.text, bgcolor=back, bold="bold" in words,
        underline="underline" in words, strike="strike" in words, italic=False,
    )  # fmt: skip


def style(
    palette: Palette, role: str = "", *, ground: str = "bg", is_cursor: bool = False
) -> Style:
    """Return how a role is drawn on a ground."""
    return _style((palette.ground, palette.depth), role, ground, is_cursor)


def strip(
    pieces: Sequence[Piece],
    width: int,
    palette: Palette,
    *,
    ground: str = "bg",
    is_cursor: bool = False,
    ellipsis: str = "…",
) -> Strip:
    """Return one row of exactly `width` cells."""
    found = fit([(plain(text), role) for text, role in pieces], width, ellipsis=ellipsis)
    segments = [
        Segment(text, style(palette, role, ground=ground, is_cursor=is_cursor))
        for text, role in found
    ]
    return Strip(segments, width)


def between(left: Sequence[Piece], right: Sequence[Piece], width: int) -> list[Piece]:
    """Return a line with two ends; the left one gives way."""
    room = width - width_of(right)
    if room < 1:
        return fit(left, width)
    return [*fit(left, room - 1), (" ", ""), *right] if right else fit(left, width)


def titled(
    title: Sequence[Piece], width: int, line: str, tail: Sequence[Piece] = ()
) -> list[Piece]:
    """Return a title with a thin rule to the right of it."""
    room = width - width_of(title) - width_of(tail) - 1 - bool(tail)
    if room < 1:
        return fit(title, width)
    end = [(" ", ""), *tail] if tail else []
    return [*title, (" ", ""), (line * room, "rule"), *end]
