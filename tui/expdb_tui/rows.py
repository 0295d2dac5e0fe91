"""Runs as cells of the table: state, experiment, seed, step, objective, delta, age."""

from __future__ import annotations

from collections import Counter

from rich.text import Text

from expdb.query.results import Listing, RunRow
from expdb.report.style import Style
from expdb.report.words import counted, delta_cell, progress, with_refs
from expdb.signs import STATE_GLYPHS, Colour
from expdb.text import age, cut_middle, decimals_for, metric, plain

NAME_CELLS = 28
SHOWN = ("running", "paused", "failed", "crashed")
COLOURS: dict[Colour, str] = {
    "": "",
    "bold": "bold",
    "dim": "#8794a5",
    "green": "#4cc2a0",
    "red": "#f0a04b",
    "yellow": "#dcb44e",
    "cyan": "#6cb6ff",
}


def cells_of(listing: Listing, style: Style) -> list[list[Text]]:
    """Return the cells of every run, in the order of `heads`."""
    key = listing.metric or ""
    decimals = decimals_for(row.value for row in listing.rows if _has(row, key))
    names = max(NAME_CELLS, style.width - 50)
    return [_cells(row, key, decimals, names, style) for row in listing.rows]


def heads(listing: Listing) -> list[Text]:
    """Return the heads of the columns; the objective by its name."""
    metric_name = plain(listing.metric or "objective")
    dim = COLOURS["dim"]
    left = [Text(head, dim) for head in ("", "experiment")]
    numbers = [Text(head, dim, justify="right") for head in ("s", "step", metric_name)]
    return [*left, *numbers, Text("vs baseline", dim), Text("age", dim, justify="right")]


def _has(row: RunRow, key: str) -> bool:
    return row.objective is not None and row.objective.metric == key


def _cells(row: RunRow, key: str, decimals: int, names: int, style: Style) -> list[Text]:
    look = STATE_GLYPHS[row.state.value]
    number, word, colour = delta_cell(row, decimals, key)
    value = metric(row.value if _has(row, key) else None, decimals, key=key, absent="")
    name = cut_middle(with_refs(row, style), names, style.signs.ellipsis)
    return [
        Text(style.glyph(row.state.value), COLOURS[look.colour]),
        Text(name, "bold" if row.is_head else ""),
        Text("" if row.seed is None else str(row.seed), COLOURS["dim"], justify="right"),
        Text(progress(row), justify="right"),
        Text(value, justify="right"),
        Text(f"{number} {word}".strip(), COLOURS[colour]),
        Text(age(row.created_at_ms, style.now_ms), COLOURS["dim"], justify="right"),
    ]


def summary(listing: Listing) -> str:
    """Return the line above the table: how many runs, which live, which metric."""
    shown = len(listing.rows)
    states = Counter(row.state.value for row in listing.rows)
    parts = [counted(listing.num_all, "run")]
    if shown < listing.num_all:
        parts[0] = f"{shown:,} of {listing.num_all:,} runs"
    parts += [f"{states[word]} {word}" for word in SHOWN if states[word]]
    if listing.metric:
        parts.append(plain(listing.metric))
    return "   ".join(parts)
