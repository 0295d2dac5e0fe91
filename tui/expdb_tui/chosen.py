"""The runs that are marked: in order, each with its place among the series until it is unmarked.

Invariant: a mark stays with its run on all screens; places are given once and freed with the mark.
"""

from __future__ import annotations

from expdb_tui.marks import MOST


class Chosen:
    """Marked runs."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, run: str) -> bool:
        return run in self._places

    @property
    def runs(self) -> tuple[str, ...]:
        """The marked runs, in the order of marking."""
        return tuple(self._places)

    def place(self, run: str) -> int | None:
        """Return the place among the series, from 1; None where it is not marked."""
        return self._places.get(run)

    def toggle(self, run: str) -> None:
        """Mark a run, or take its mark away; from the seventh on marks share places."""
        if run in self._places:
            del self._places[run]
            return
        taken = set(self._places.values())
        free = [place for place in range(1, MOST + 1) if place not in taken]
        self._places[run] = free[0] if free else len(self._places) % MOST + 1

    def clear(self) -> None:
        """Take all marks away."""
        self._places.clear()
