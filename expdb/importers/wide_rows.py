"""Rows of the wide form: one row a step, one column a metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from expdb.importers.found import (
    RUN_NAMES,
    TIME_NAMES,
    Skips,
    Source,
    Step,
    moment_ms,
    named,
    require_apart,
    step_column,
    whole,
)


def steps(
    source: Source,
    head: Sequence[str],
    rows: Iterable[tuple[int, Sequence[Any]]],
    skips: Skips,
) -> Iterator[tuple[str, Step]]:
    """Return the steps of a table.

    Raises:
        BadInput: no column holds the step, or two have one name.
    """
    require_apart(head, skips)
    column = step_column(head, source.reading.step, source.path)
    return _steps(list(head), head.index(column), rows, skips)


def _steps(
    head: list[str], step_at: int, rows: Iterable[tuple[int, Sequence[Any]]], skips: Skips
) -> Iterator[tuple[str, Step]]:
    times = [at for at, name in enumerate(head) if name.lower() in TIME_NAMES]
    run_at = next((at for at, name in enumerate(head) if name.lower() in RUN_NAMES), -1)
    for line, row in rows:
        step = whole(row[step_at]) if step_at < len(row) else None
        if step is None:
            skips.add("a step that is no whole number", line)
            continue
        time_ms, time_at = _moment(row, times)
        pairs = (
            (head[at], value)
            for at, value in enumerate(row[: len(head)])
            if at not in (step_at, time_at, run_at)
        )
        values = named(pairs, skips, line)
        if values:
            run = row[run_at] if 0 <= run_at < len(row) else ""
            yield str(run or ""), Step(step, values, time_ms)


def _moment(row: Sequence[Any], times: list[int]) -> tuple[int | None, int]:
    """Return the moment that a row names and its column; a `time` in seconds a step is a metric."""
    for at in times:
        found = moment_ms(row[at]) if at < len(row) else None
        if found is not None:
            return found, at
    return None, -1
