"""`expdb ls`: one line a run, newest first.

Invariant: too narrow, the code leaves, then the word of the state (the step joins its glyph), then
seed and age; then names are cut in the middle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from expdb.query.results import ABSENT, USUAL, Listing, RunRow, ShownColumn
from expdb.report.grid import Cell, Column, Grid, lay_out, right
from expdb.report.json import utc
from expdb.report.rows_out import markdown
from expdb.report.style import Style
from expdb.report.words import delta_cell, progress, with_refs
from expdb.signs import STATE_GLYPHS, Colour
from expdb.text import age, cells, config_value, decimals_for, metric, plain, size

STATE_CELLS = 10
COMMIT_CHARS = 7


def render(listing: Listing, style: Style) -> list[str]:
    """Return the table of runs; nothing for an empty store."""
    if not listing.rows:
        return []
    full = _grid(listing, style, with_word=True)
    without_code = full.without(0)
    if not style.terminal or without_code.width(style) <= style.width:
        return lay_out(full, style)
    return lay_out(_grid(listing, style, with_word=False).without(0), style)


def _grid(listing: Listing, style: Style, *, with_word: bool) -> Grid:
    columns = listing.columns or tuple(ShownColumn(name) for name in USUAL)
    if not with_word:
        columns = tuple(column for column in columns if column.name != "step" or _asked(column))
    made = [_column(column, listing, style, with_word=with_word) for column in columns]
    rows = tuple(zip(*(cells_of_column for _, cells_of_column in made), strict=True))
    marks = tuple("*" if row.is_head else " " for row in listing.rows)
    return Grid(tuple(column for column, _ in made), rows, marks)


def _asked(column: ShownColumn) -> bool:
    return column.kind != "usual"


def _column(
    column: ShownColumn, listing: Listing, style: Style, *, with_word: bool
) -> tuple[Column, list[Cell]]:
    """Return one column and its cell of each row."""
    rows, key = listing.rows, listing.metric or ""
    if _asked(column):
        return _asked_column(column, rows, style)
    match column.name:
        case "run":
            return Column(head="run"), [Cell(style.run(row.id), "dim") for row in rows]
        case "experiment":
            named = [Cell(with_refs(row, style), "bold" if row.is_head else "") for row in rows]
            return Column(head="experiment", cut="middle"), named
        case "seed":
            seeds = [Cell("" if row.seed is None else str(row.seed)) for row in rows]
            return Column(head="seed", right=True, leaves=2), seeds
        case "state":
            least = STATE_CELLS if style.terminal else 0
            states = [_state(row, style, with_word=with_word) for row in rows]
            return Column(head="state", min_cells=least), states
        case "step":
            return Column(head="step", right=True), [Cell(progress(row)) for row in rows]
        case "objective":
            values = [_value(row, listing) for row in rows]
            head = style.say(listing.metric or "objective")
            return Column(head=head, right=True), _metric_cells(values, key)
        case "delta":
            decimals = decimals_for(_value(row, listing) for row in rows)
            return Column(head="vs baseline"), delta_cells(rows, decimals, key)
        case "age":
            ages = [Cell(age(row.created_at_ms, style.now_ms), "dim") for row in rows]
            return Column(head="age", right=True, leaves=3), ages
    return Column(head="code", leaves=0), [Cell(_code(row), "dim") for row in rows]


def _metric_cells(values: Sequence[float | None], key: str) -> list[Cell]:
    decimals = decimals_for(values)
    return [Cell(metric(value, decimals, key=key, absent="")) for value in values]


def _asked_column(
    column: ShownColumn, rows: tuple[RunRow, ...], style: Style
) -> tuple[Column, list[Cell]]:
    name, head = column.name, style.say(column.name)
    found = [row.extra.get(name, ABSENT) for row in rows]
    if column.kind == "metric":
        numbers = [None if value is ABSENT else value for value in found]
        return Column(head=head, right=True), _metric_cells(numbers, name)
    ellipsis = style.signs.ellipsis
    if column.kind == "key":
        shown = ["" if v is ABSENT else config_value(v, ellipsis=ellipsis) for v in found]
        is_right = all(v is ABSENT or type(v) in (int, float) for v in found)
        return Column(head=head, right=is_right), [Cell(text) for text in shown]
    is_right = any(type(value) is int for value in found)
    fields = [Cell(_field(value, column.name)) for value in found]
    return Column(head=head, right=is_right, cut="" if is_right else "end"), fields


def _field(value: object, name: str) -> str:
    if value is ABSENT:
        return ""
    if isinstance(value, list):
        return ", ".join(plain(str(item)) for item in value)
    if name == "size" and isinstance(value, int):
        return size(value)
    return plain(str(value))[: COMMIT_CHARS if name == "commit" else None]


def delta_cells(rows: tuple[RunRow, ...], decimals: int, key: str) -> list[Cell]:
    """Return the cells of `vs baseline`, numbers aligned, each with its word."""
    parts = [delta_cell(row, decimals, key) for row in rows]
    numbers = max((cells(number) for number, _, _ in parts), default=0)
    return [
        Cell(f"{right(number, numbers)} {word}".rstrip() if number else "", colour)
        for number, word, colour in parts
    ]


def _value(row: RunRow, listing: Listing) -> float | None:
    if row.objective is None or row.objective.metric != listing.metric:
        return None
    return row.value


def _state(row: RunRow, style: Style, *, with_word: bool) -> Cell:
    state = row.state.value
    colour: Colour = STATE_GLYPHS[state].colour
    if with_word:
        return Cell(style.state(state), colour)
    at = "" if state == "finished" else progress(row)
    return Cell(f"{style.glyph(state)} {at}".rstrip(), colour)


def _code(row: RunRow) -> str:
    if row.commit is None:
        return ""
    return row.commit[:COMMIT_CHARS] + ("+" if row.dirty else "")


def only_ids(rows: tuple[RunRow, ...]) -> list[str]:
    """Return the full ids, one a line, in the order of the rows."""
    return [row.id for row in rows]


# ------------------------------------------------------------------------------ other programs


def table(listing: Listing) -> tuple[list[str], list[list[Any]]]:
    """Return heads and rows for CSV: whole ids, numbers unrounded, times in UTC."""
    columns = listing.columns or tuple(ShownColumn(name) for name in USUAL)
    heads = [head for column in columns for head in _heads(column, listing)]
    return heads, [
        [value for column in columns for value in _whole(column, row, listing)]
        for row in listing.rows
    ]


def _heads(column: ShownColumn, listing: Listing) -> list[str]:
    if _asked(column):
        return [column.name]
    own = {
        "objective": [listing.metric or "objective"],
        "delta": ["delta", "outcome", "at_step"],
        "age": ["created_at"],
        "code": ["commit", "dirty"],
    }
    return own.get(column.name, [column.name])


def _whole(column: ShownColumn, row: RunRow, listing: Listing) -> list[Any]:
    if _asked(column):
        return [row.extra.get(column.name)]
    match column.name:
        case "run":
            return [row.id]
        case "experiment":
            return [row.name]
        case "seed":
            return [row.seed]
        case "state":
            return [row.state.value]
        case "step":
            return [row.last_step]
        case "objective":
            return [_value(row, listing)]
        case "delta":
            return delta_values(row)
        case "age":
            return [utc(row.created_at_ms)]
    return [row.commit, row.dirty]


def delta_values(row: RunRow) -> list[Any]:
    """Return delta, outcome and step of a row for CSV.

    A run measured at its end has an outcome, any other the step that both were read at.
    """
    if row.delta is None:
        return [None, None, None]
    outcome = row.delta.outcome.value if row.delta.outcome else None
    return [row.delta.value, outcome, row.delta.at_step]


def to_markdown(listing: Listing, style: Style) -> list[str]:
    """Return the table as Markdown, as it is shown in a pipe of any width."""
    return grid_markdown(_grid(listing, piped(style), with_word=True))


def piped(style: Style) -> Style:
    """Return the style of tables that are no screen: words of states, no marks."""
    return style._replace(terminal=False)


def grid_markdown(grid: Grid) -> list[str]:
    """Return a grid as a Markdown table."""
    right = [at for at, column in enumerate(grid.columns) if column.right]
    rows = [[cell.text for cell in row] for row in grid.rows]
    return markdown([column.head for column in grid.columns], rows, right=right)
