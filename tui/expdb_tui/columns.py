"""The columns of a table: which ones fit a width, and a row as pieces of exactly that width.

Invariant: narrow drops columns, in the order that each says; nothing wraps. One column takes what
is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from expdb_tui.ink import Piece, fit

Row = TypeVar("Row")
GAP = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Generic[Row]):
    """One column of a table of `Row`."""

    name: str
    head: str
    width: int
    """In cells; of the column that takes what is left, the least."""
    cell: Callable[[Row], Sequence[Piece]]
    is_right: bool = False
    fills: bool = False
    since: int = 0
    """From which width of the table on it is shown; what others need goes from the last on."""
    gap: int = GAP
    """Cells before it."""
    is_own: bool = False
    """Whether somebody asked for it by name: it goes after all that go by width."""


def chosen(columns: Sequence[Column[Row]], width: int) -> list[tuple[Column[Row], int]]:
    """Return the columns that a table of `width` cells shows, and how wide each is."""
    shown = [column for column in columns if column.since <= width]
    left = width - _fixed(shown)
    least = max((column.width for column in shown if column.fills), default=0)
    droppable = sorted(
        (column for column in shown if column.since or column.is_own),
        key=lambda column: column.since,
    )
    while left < least and droppable:
        shown.remove(droppable.pop())
        left = width - _fixed(shown)
    return [(column, max(1, left) if column.fills else column.width) for column in shown]


def _fixed(shown: Sequence[Column[Row]]) -> int:
    """Return how many cells the columns take that do not take what is left."""
    gaps = sum(column.gap for column in shown[1:])
    return gaps + sum(column.width for column in shown if not column.fills)


def head_of(shown: Sequence[tuple[Column[Row], int]], sorted_by: str | None) -> list[Piece]:
    """Return the line above the rows; the column that orders them stands out."""
    out: list[Piece] = []
    for at, (column, width) in enumerate(shown):
        out.append((" " * column.gap if at else "", ""))
        role = "accent+bold" if column.name == sorted_by else "dim"
        out += fit([(column.head, role)], width, right=column.is_right)
    return out


def line_of(shown: Sequence[tuple[Column[Row], int]], row: Row, ellipsis: str) -> list[Piece]:
    """Return a row as pieces."""
    out: list[Piece] = []
    for at, (column, width) in enumerate(shown):
        out.append((" " * column.gap if at else "", ""))
        out += fit(column.cell(row), width, right=column.is_right, ellipsis=ellipsis)
    return out
