"""A screen as a grid of characters and of roles, to be compared with a kept one.

Each row of the screen is one line of text and one of roles: runs of cells with the ink (a role of
the palette, or `#` for a colour between those) and, where it is not the usual one, the ground.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len

from expdb_tui.app import ExpdbApp
from expdb_tui.palette import Palette

USUAL = "text"


@dataclass(frozen=True, slots=True)
class Cell:
    """One character: how wide it is, its colours and its style."""

    char: str
    ink: str
    ground: str
    words: str


def cells_of(app: ExpdbApp) -> list[list[Cell]]:
    """Return the characters of the screen by rows; a wide one stands once."""
    width, height = app.size
    rows = []
    for strip in app.screen._compositor.render_strips()[:height]:
        row = []
        for text, style, control in strip.crop(0, width):
            if control or style is None:
                continue
            ink = style.color.name if style.color is not None else ""
            ground = style.bgcolor.name if style.bgcolor is not None else ""
            words = "".join(
                word[0] for word in ("bold", "underline", "reverse") if getattr(style, word)
            )
            words += "s" if style.strike else ""
            row += [Cell(char, ink, ground, words) for char in text]
        rows.append(row)
    return rows


def text_of(row: list[Cell]) -> str:
    """Return the text of a row without spaces at its end."""
    return "".join(cell.char for cell in row).rstrip()


def roles_by_colour(palette: Palette) -> dict[str, str]:
    """Return the first role of each colour."""
    found: dict[str, str] = {}
    for role, colour in palette.roles.items():
        found.setdefault(colour, role)
    return found


def said(rows: list[list[Cell]], palette: Palette) -> str:
    """Return the grid as a text: each row, and its roles below it."""
    roles = roles_by_colour(palette)
    out = []
    for row in rows:
        out.append("|" + text_of(row))
        out.append(" " + " ".join(_runs(row, roles)))
    return "\n".join(out) + "\n"


def _runs(row: list[Cell], roles: dict[str, str]) -> Iterator[str]:
    def look(cell: Cell) -> str:
        ink = "" if cell.char == " " else roles.get(cell.ink, "#")
        ground = roles.get(cell.ground, "#")
        on = "" if ground == "bg" else f"@{ground}"
        return ink + on + (f"+{cell.words}" if cell.words and cell.char != " " else "")

    runs = [(key, len(list(group))) for key, group in groupby(row, key=look)]
    if runs and runs[-1][0] == "":
        runs.pop()
    for key, count in runs:
        yield f"{count}{key}"


def width_of(row: list[Cell]) -> int:
    """Return how many cells of the terminal a row takes."""
    return sum(cell_len(cell.char) for cell in row)
