"""A list that was read whole: a leaderboard, or runs folded over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from expdb_tui.columns import Column, chosen, head_of, line_of
from expdb_tui.ink import Piece
from expdb_tui.marks import Marks

Row = TypeVar("Row")


class FixedLines(Generic[Row]):
    """Rows with the run that each stands for."""

    def __init__(
        self,
        rows: Sequence[Row],
        runs: Sequence[str | None],
        columns: Sequence[Column[Row]],
        marks: Marks,
        *,
        sorted_by: str,
    ) -> None:
        self.rows, self.runs, self.columns = rows, runs, columns
        self._marks, self._sorted_by = marks, sorted_by
        self._index = {run: at for at, run in enumerate(runs) if run is not None}

    def __len__(self) -> int:
        return len(self.rows)

    def place(self, run: str | None) -> int | None:
        """Return where a run stands; None where it is not among them."""
        return self._index.get(run) if run is not None else None

    def run(self, at: int) -> str | None:
        """Return the run at a place."""
        return self.runs[at] if 0 <= at < len(self.runs) else None

    def head(self, width: int) -> Sequence[Piece]:
        """Return the heads of the columns."""
        return [(" ", ""), *head_of(chosen(self.columns, width - 2), self._sorted_by)]

    def line(self, at: int, width: int) -> Sequence[Piece]:
        """Return a row."""
        return line_of(chosen(self.columns, width - 1), self.rows[at], self._marks.ellipsis)
