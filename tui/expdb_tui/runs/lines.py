"""The list of runs as a table shows it: pages are read as they come on the screen.

Invariant: a row that is not read yet shows its id; what was read stays until it is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from expdb.query.paging import PageRow, RunOrder
from expdb.text import decimals_for
from expdb_tui.columns import Column, chosen, head_of, line_of
from expdb_tui.ink import Piece
from expdb_tui.marks import Marks
from expdb_tui.runs.cells import Shown, columns, extra_of, has_objective
from expdb_tui.session import now_ms


class RunLines:
    """Runs in an order, of which some pages are read."""

    def __init__(self, order: RunOrder, marks: Marks, *, ascii: bool, id_cells: int) -> None:
        self.order = order
        self.rows: dict[str, PageRow] = {}
        self.old: set[str] = set()
        """Runs whose rows are those of an earlier look."""
        self.sparks: dict[str, str] = {}
        self.places: dict[str, int] = {}
        self.sorted_by: str | None = None
        self.hidden: frozenset[str] = frozenset()
        self.extra: tuple[str, ...] = ()
        """Names of columns that somebody asked for."""
        self._marks, self._ascii, self._id_cells = marks, ascii, id_cells
        self._index = {run: at for at, run in enumerate(order.ids)}
        self._laid: tuple[int, list[tuple[Column[PageRow], int]]] | None = None

    def __len__(self) -> int:
        return len(self.order.ids)

    def place(self, run: str | None) -> int | None:
        """Return where a run stands; None where it is not among them."""
        return self._index.get(run) if run is not None else None

    def run(self, at: int) -> str | None:
        """Return the run at a place."""
        return self.order.ids[at] if 0 <= at < len(self.order.ids) else None

    def add(self, rows: Iterable[PageRow]) -> None:
        """Take what was read."""
        found = {row.row.id: row for row in rows}
        self.rows |= found
        self.old -= found.keys()
        self.renew()

    def renew(self) -> None:
        """Lay the columns out again: ages, marks or curves are other ones."""
        self._laid = None

    def missing(self, places: Iterable[int]) -> list[str]:
        """Return the runs at these places that are not read yet, or were read at an earlier look
        and live.
        """
        runs = (run for at in places if (run := self.run(at)) is not None)
        return [run for run in runs if run not in self.rows or run in self.old]

    def shown(self, width: int) -> Shown:
        """Return what the cells of rows of a width depend on, at this moment."""
        values = (row.row.value for row in self.rows.values() if has_objective(row, self.order))
        return Shown(
            order=self.order,
            marks=self._marks,
            ascii=self._ascii,
            now_ms=now_ms(),
            decimals=decimals_for(values),
            places=self.places,
            sparks=self.sparks,
            hidden=self.hidden,
            width=width,
            extra=tuple(extra_of(name, self.rows.values()) for name in self.extra),
        )

    def _columns(self, width: int) -> list[tuple[Column[PageRow], int]]:
        if self._laid is None or self._laid[0] != width:
            self._laid = (width, chosen(columns(self.shown(width)), width))
        return self._laid[1]

    def head(self, width: int) -> Sequence[Piece]:
        """Return the heads of the columns."""
        return [(" ", ""), *head_of(self._columns(width - 2), self.sorted_by)]

    def line(self, at: int, width: int) -> Sequence[Piece]:
        """Return a run."""
        run = self.order.ids[at]
        row = self.rows.get(run)
        if row is None:
            return [("   ", ""), (run[: self._id_cells], "faint")]
        return line_of(self._columns(width - 1), row, self._marks.ellipsis)
