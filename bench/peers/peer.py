"""What the benchmarks ask of a tracker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

Points = tuple[Sequence[int], Sequence[float]]
"""Steps and values of one series, by step."""
Params = Mapping[str, float | int | str]


class Unsupported(Exception):
    """The tracker has no way to answer; the message says what is missing."""


class Writer(Protocol):
    """One run that is being logged."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the values of a step in the way that the tracker's documentation shows."""

    def finish(self) -> None:
        """End the run; all is stored when this returns."""


class Peer:
    """One tracker; a store is a folder that it may fill as it likes."""

    def import_writer(self, store: Path) -> None:
        """Import what logging needs."""
        raise NotImplementedError

    def import_reader(self, store: Path) -> None:
        """Import what reading needs."""
        raise NotImplementedError

    def prepare(self, store: Path) -> None:
        """Make the store, where a user does that before the first run."""

    def start(self, store: Path, run: str, params: Params) -> Writer:
        """Begin a run."""
        raise NotImplementedError

    def fill(
        self, store: Path, run: str, params: Params, rows: Sequence[Mapping[str, float]]
    ) -> None:
        """Write a whole run; a tracker with a call for many points at once may use it."""
        writer = self.start(store, run, params)
        for step, row in enumerate(rows):
            writer.log(step, row)
        writer.finish()

    def filled(self, store: Path) -> None:
        """Do what must be done after filling before all can be read."""

    def top(self, store: Path, metric: str, reading: str, num: int) -> list[tuple[str, float]]:
        """Return the runs with the lowest `last` or `min` value of a metric, lowest first."""
        raise Unsupported("no query over runs")

    def compare(
        self, store: Path, first: str, second: str, metrics: Sequence[str]
    ) -> dict[str, Any]:
        """Return `params` that differ and the last value of each of `metrics`, of both runs."""
        raise Unsupported("no comparison")

    def series(self, store: Path, metric: str, runs: Sequence[str]) -> dict[str, Points]:
        """Return one metric of several runs."""
        raise NotImplementedError

    def recovered(self, store: Path, run: str, metrics: Sequence[str]) -> tuple[int, str]:
        """Return how many points a run has, and the state it is shown in (`-`: none)."""
        found = [self.series(store, metric, [run])[run] for metric in metrics]
        return sum(len(values) for _, values in found), "-"


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the keys whose values differ, with both."""
    return {
        key: [first.get(key), second.get(key)]
        for key in sorted({*first, *second})
        if first.get(key) != second.get(key)
    }
