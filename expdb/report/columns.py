"""The grid of a comparison: labels at the left, one column a run, deltas beside their values.

Invariant: one width for every section, so that all numbers of a run stand in one column; a section
head and a file path may run over empty columns. The first run has no delta.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from expdb.report.grid import Cell, left, right
from expdb.report.style import Style
from expdb.text import cells

LABEL_CELLS: Final = 20
HEAD_AT: Final = 13
DELTA_CELLS: Final = 6
PERCENT_CELLS: Final = 8
GAP: Final = "  "
BLANK: Final = Cell()


@dataclass(frozen=True, slots=True)
class SectionRow:
    """The head of a section: `code         same     main 4be1f02, clean`."""

    label: str
    head: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class ValueRow:
    """One named value in each run, and where it is a metric the deltas against the first."""

    label: str
    values: tuple[Cell, ...]
    deltas: tuple[Cell, ...] = ()
    """One for each run after the first; empty where a delta makes no sense."""
    percent: str = ""
    outcome: Cell = BLANK
    strong: bool = False


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file that differs, its lines added and removed, and a remark."""

    label: str
    added: str
    removed: str
    note: str = ""


AnyRow = SectionRow | ValueRow | FileRow


@dataclass(frozen=True, slots=True)
class Widths:
    """The cells of each column; `deltas[i]` stands right of `values[i + 1]`."""

    label: int
    values: tuple[int, ...]
    delta: int
    with_delta: bool
    with_percent: bool
    outcome: int

    @property
    def total(self) -> int:
        """The width of the widest line."""
        width = self.label + sum(len(GAP) + value for value in self.values)
        if self.with_delta:
            width += (len(self.values) - 1) * (len(GAP) + self.delta)
        if self.with_percent:
            width += len(GAP) + PERCENT_CELLS
        return width + (len(GAP) + self.outcome if self.outcome else 0)


def measure(rows: list[AnyRow], heads: list[str], *, with_percent: bool) -> Widths:
    """Return the widths that hold every row under these heads."""
    value_rows = [row for row in rows if isinstance(row, ValueRow)]
    two = len(heads) == 2
    delta = max([DELTA_CELLS, *(cells(cell.text) for row in value_rows for cell in row.deltas)])
    with_delta = any(row.deltas for row in value_rows)
    values = []
    for at, head in enumerate(heads):
        widest = max([cells(row.values[at].text) for row in value_rows], default=0)
        grouped = at > 0 and with_delta and not two
        room = cells(head) - (delta + len(GAP) if grouped else 0)
        values.append(max(widest, room))
    return Widths(
        label=max([LABEL_CELLS, *(cells(row.label) for row in value_rows)]),
        values=tuple(values),
        delta=delta,
        with_delta=with_delta,
        with_percent=with_percent and two and any(row.percent for row in value_rows),
        outcome=max([cells(row.outcome.text) for row in value_rows], default=0) if two else 0,
    )


def lay_out(rows: list[AnyRow], heads: list[str], widths: Widths, style: Style) -> list[str]:
    """Return the lines of the grid, heads first."""
    lines = [_head_line(heads, widths, style)]
    for row in rows:
        if isinstance(row, SectionRow):
            lines.append(_section_line(row, widths, style))
        elif isinstance(row, ValueRow):
            lines.append(_value_line(row, widths, style))
        else:
            lines.append(_file_line(row, widths))
    return [line.rstrip() for line in lines]


def _head_line(heads: list[str], widths: Widths, style: Style) -> str:
    two = len(heads) == 2
    parts = [" " * widths.label]
    for at, (head, width) in enumerate(zip(heads, widths.values, strict=True)):
        grouped = at > 0 and widths.with_delta and not two
        room = width + (widths.delta + len(GAP) if grouped else 0)
        parts.append(right(head, room))
    if two and widths.with_delta:
        parts.append(right("delta", widths.delta))
    return style.paint(GAP.join(parts).rstrip(), "dim")


def _section_line(row: SectionRow, widths: Widths, style: Style) -> str:
    line = style.paint(row.label, "dim") + " " * (HEAD_AT - cells(row.label)) + row.head
    if not row.text:
        return line
    at = max(widths.label + len(GAP), HEAD_AT + cells(row.head) + len(GAP))
    return line + " " * (at - HEAD_AT - cells(row.head)) + row.text


def _value_line(row: ValueRow, widths: Widths, style: Style) -> str:
    parts = [left(row.label, widths.label)]
    for at, (cell, width) in enumerate(zip(row.values, widths.values, strict=True)):
        strong = "bold" if row.strong else ""
        parts.append(_right_cell(cell, width, style, strong=bool(strong)))
        if at and row.deltas:
            parts.append(_right_cell(row.deltas[at - 1], widths.delta, style))
        elif at and widths.with_delta and len(widths.values) > 2:
            parts.append(" " * widths.delta)
    if row.deltas and len(row.values) == 2:
        if widths.with_percent:
            parts.append(right(row.percent or _empty(style), PERCENT_CELLS))
        if widths.outcome:
            outcome = row.outcome
            parts.append(style.paint(outcome.text, outcome.colour) or _empty(style))
    return GAP.join(parts)


def _empty(style: Style) -> str:
    return "" if style.terminal else "-"


def _right_cell(cell: Cell, width: int, style: Style, *, strong: bool = False) -> str:
    pad = " " * (width - cells(cell.text))
    return pad + style.paint(cell.text, cell.colour, "bold" if strong else "")


def _file_line(row: FileRow, widths: Widths) -> str:
    end = widths.label + sum(len(GAP) + value for value in widths.values[:2])
    line = left(row.label, end - cells(row.added) - len(GAP)) + GAP + row.added
    line += GAP + right(row.removed, widths.delta)
    return f"{line}{GAP}{row.note}" if row.note else line
