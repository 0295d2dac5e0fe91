"""Rows of the long form: one point a row, with key, step and value.

Invariant: the points of one (run, attempt, rank) keep their order; neighbours of one step are not
joined, since each is a record of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from expdb.importers.found import Skips, Step, moment_ms, named, require_apart, whole

KEYS: Final = ("key", "metric", "name")
NEEDED: Final = ("key", "step", "value")
MAX_ATTEMPT: Final = 1_000_000
MAX_RANK: Final = 2_000_000_000


def is_long(head: Sequence[str]) -> bool:
    """Tell whether a table with this head is of the long form."""
    return set(NEEDED) <= set(_columns(head))


def _columns(head: Sequence[str]) -> list[str]:
    names = [name.strip().lower() for name in head]
    key = next((name for name in KEYS if name in names), "key")
    return ["key" if name == key else name for name in names]


def steps(
    head: Sequence[str], rows: Iterable[tuple[int, Sequence[Any]]], skips: Skips
) -> Iterator[tuple[str, Step]]:
    """Yield (name of the run, point) of each row.

    Raises:
        BadInput: two columns have one name.
    """
    columns = _columns(head)
    require_apart(columns, skips)
    at = {name: columns.index(name) for name in columns}

    def cell(row: Sequence[Any], name: str) -> Any:
        index = at.get(name)
        return row[index] if index is not None and index < len(row) else None

    for line, row in rows:
        step = whole(cell(row, "step"))
        attempt, rank = cell(row, "attempt"), cell(row, "rank")
        number_of_attempt = 1 if attempt in (None, "") else whole(attempt)
        number_of_rank = 0 if rank in (None, "") else whole(rank)
        if step is None:
            skips.add("a step that is no whole number", line)
        elif not (number_of_attempt and 0 < number_of_attempt <= MAX_ATTEMPT):
            skips.add("an attempt that is none", line)
        elif number_of_rank is None or not 0 <= number_of_rank <= MAX_RANK:
            skips.add("a rank that is none", line)
        else:
            key = cell(row, "key")
            values = named(iter([(str(key or ""), cell(row, "value"))]), skips, line)
            if values:
                time_ms = moment_of(cell(row, "time"))
                found = Step(step, values, time_ms, number_of_attempt, number_of_rank)
                yield str(cell(row, "run") or ""), found


def moment_of(value: Any) -> int | None:
    """Return a time of our own exports: whole milliseconds, else a moment in another form."""
    found = whole(value)
    return found if found is not None and not 1e9 <= found < 1e11 else moment_ms(value)
