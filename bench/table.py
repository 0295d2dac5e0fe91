"""Tables of text with a column each for what was measured; also what docs/performance.md holds."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with aligned columns."""
    rows = [[" ".join(cell.split()) for cell in row] for row in rows]
    widths = [max(len(line[at]) for line in [head, *rows]) for at in range(len(head))]
    lines = [_line(head, widths), _line(["-" * width for width in widths], widths)]
    return "\n".join([*lines, *(_line(row, widths) for row in rows)])


def number(value: float | None, digits: int = 1) -> str:
    """Return a number, or `-` where there is none."""
    return "-" if value is None else f"{value:,.{digits}f}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return (
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        + " |"
    )
