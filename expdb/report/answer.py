"""`expdb sql`: an answer as a table, as rows for other programs, as a Parquet file.

Invariant: a table shows numbers with at most nine digits and names as visible text; every other
form has each value whole.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from expdb.report.grid import Cell, Column, Grid, lay_out, narrowed
from expdb.report.json import document, finite
from expdb.report.plain_values import plain_values
from expdb.report.style import Style
from expdb.text import cut_end, nonfinite, plain

if TYPE_CHECKING:
    import pyarrow as pa

KEPT_COLUMNS: Final = 3
"""So many columns stay in a table that is too wide."""
TEXT_CELLS: Final = 40
"""Longer texts are cut in a table, before columns leave it."""
IDS: Final = frozenset(["id", "run", "parent", "fork"])


def render(answer: pa.Table, style: Style) -> list[str]:
    """Return the table of an answer."""
    return lay_out(_grid(answer, style), style)


def num_left_out(answer: pa.Table, style: Style) -> int:
    """Return how many columns of the answer do not fit in the table."""
    grid = _grid(answer, style)
    return len(grid.columns) - len(narrowed(grid, style).columns)


def _grid(answer: pa.Table, style: Style) -> Grid:
    names = list(answer.column_names)
    rows = [[_shown(value, style) for value in row] for row in values(answer)]
    columns = tuple(
        Column(
            head=style.say(name),
            right=_is_number(answer.schema.field(at).type),
            leaves=len(names) - at if at >= KEPT_COLUMNS else None,
            cut="" if name in IDS or _is_number(answer.schema.field(at).type) else "end",
        )
        for at, name in enumerate(names)
    )
    return Grid(columns, tuple(tuple(Cell(text) for text in row) for row in rows))


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _shown(value: Any, style: Style) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.9g}" if math.isfinite(value) else nonfinite(value)
    return cut_end(style.say(text_of(value)), TEXT_CELLS, style.signs.ellipsis)


def text_of(value: Any) -> str:
    """Return a value whole, as text: lists and mappings as JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(finite(value))
    if isinstance(value, list | Mapping):
        return json.dumps(finite(value), ensure_ascii=False)
    return str(value)


def values(answer: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of an answer; every value is one that JSON has, but for non-finite numbers."""
    for batch in answer.to_batches(max_chunksize=10_000):
        yield from zip(*(plain_values(column) for column in batch.columns), strict=True)


def json_of(answer: pa.Table) -> dict[str, Any]:
    """Return `--json`: columns and rows, each row an array in their order."""
    names = list(answer.column_names)
    return document(columns=names, rows=[list(row) for row in values(answer)])


def objects(answer: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield each row as a mapping; a column whose name is there already gets a number behind it."""
    names = unique(answer.column_names)
    for row in values(answer):
        yield dict(zip(names, row, strict=True))


def unique(names: Sequence[str]) -> list[str]:
    """Return names of columns, each once: `a`, `a_1`."""
    out: list[str] = []
    for name in names:
        made, number = name, 0
        while made in out:
            number += 1
            made = f"{name}_{number}"
        out.append(made)
    return out


def markdown_cells(answer: pa.Table) -> list[list[str]]:
    """Return the rows as texts."""
    return [["" if v is None else plain(text_of(v)) for v in row] for row in values(answer)]


def numbers(answer: pa.Table) -> list[int]:
    """Return which columns hold numbers."""
    return [at for at, field in enumerate(answer.schema) if _is_number(field.type)]
