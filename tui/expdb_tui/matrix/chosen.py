"""Which rows of a matrix a filter shows: `moe stale` are those of that name with a stale run.

Invariant: every word must hold, as a part of the name or as the state of one of the cells.
"""

from __future__ import annotations

from dataclasses import replace

from expdb.query.filters.suggest import Suggestions
from expdb.query.matrix_results import Matrix, MatrixRow
from expdb_tui.matrix.cells import STATES


def filtered(matrix: Matrix, filter: str) -> Matrix:
    """Return the matrix with the rows that a filter shows."""
    words = filter.lower().split()
    if not words:
        return matrix
    rows = tuple(row for row in matrix.rows if all(_holds(row, word) for word in words))
    return replace(matrix, rows=rows)


def _holds(row: MatrixRow, word: str) -> bool:
    states = {cell.state for cell in row.cells if cell is not None}
    if row.fault:
        states.add("invalid")
    named = {state for state in STATES if state.startswith(word)}
    return word in row.name.lower() or not states.isdisjoint(named)


def suggested(matrix: Matrix, source: str, cursor: int) -> Suggestions:
    """Return what can stand at the cursor: names of experiments, and states that there are."""
    start = source.rfind(" ", 0, cursor) + 1
    end = source.find(" ", cursor) if " " in source[cursor:] else len(source)
    typed = source[start:cursor].lower()
    states = [state for state in STATES if matrix.counts.get(state)]
    words = [name.split()[0] for name in states] + [row.experiment for row in matrix.rows]
    found = tuple(dict.fromkeys(word for word in words if typed in word.lower() and word != typed))
    return Suggestions(start=start, end=end, words=found)
