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
    """From which width of the table on it is shown."""
    gap: int = GAP
    """Cells before it."""


def chosen(columns: Sequence[Column[Row]], width: int) -> list[tuple[Column[Row], int]]:
    """Return the columns that a table of `width` cells shows, and how wide each is."""
    shown = [column for column in columns if column.since <= width]
    fixed = sum(column.gap for column in shown[1:])
    fixed += sum(column.width for column in shown if not column.fills)
    left = width - fixed
    return [(column, max(1, left) if column.fills else column.width) for column in shown]


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
