"""`expdb ls`: one line a run, newest first.

Invariant: too narrow, the code leaves, then the word of the state (the step joins its glyph), then
seed and age; then names are cut in the middle.
"""

from __future__ import annotations

from expdb.query.results import Listing, RunRow
from expdb.report.grid import Cell, Column, Grid, lay_out, right
from expdb.report.style import Style
from expdb.report.words import delta_cell, progress, with_refs
from expdb.signs import STATE_GLYPHS, Colour
from expdb.text import age, cells, decimals_for, metric

STATE_CELLS = 10


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
    columns = [
        Column(head="run"),
        Column(head="experiment", cut="middle"),
        Column(head="seed", right=True, leaves=2),
        Column(head="state", min_cells=STATE_CELLS if style.terminal else 0),
        *([Column(head="step", right=True)] if with_word else []),
        Column(head=style.say(listing.metric or "objective"), right=True),
        Column(head="vs baseline"),
        Column(head="age", right=True, leaves=3),
        Column(head="code", leaves=0),
    ]
    decimals = decimals_for(_value(row, listing) for row in listing.rows)
    deltas = delta_cells(listing.rows, decimals, listing.metric or "")
    rows = []
    for row, delta in zip(listing.rows, deltas, strict=True):
        cells_of_row = [
            Cell(style.run(row.id), "dim"),
            Cell(with_refs(row, style), "bold" if row.is_head else ""),
            Cell("" if row.seed is None else str(row.seed)),
            _state(row, style, with_word=with_word),
            *([Cell(progress(row))] if with_word else []),
            Cell(metric(_value(row, listing), decimals, key=listing.metric or "", absent="")),
            delta,
            Cell(age(row.created_at_ms, style.now_ms), "dim"),
            Cell(_code(row), "dim"),
        ]
        rows.append(tuple(cells_of_row))
    marks = tuple("*" if row.is_head else " " for row in listing.rows)
    return Grid(tuple(columns), tuple(rows), marks)


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
    return row.commit[:7] + ("+" if row.dirty else "")


def only_ids(rows: tuple[RunRow, ...]) -> list[str]:
    """Return the full ids, one a line, in the order of the rows."""
    return [row.id for row in rows]
