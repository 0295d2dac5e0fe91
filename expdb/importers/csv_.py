"""CSV: wide (one column a metric) or long (key, step, value); our own exports are long.

A long table may have run, time, attempt and rank. Beside our own `name.csv` stands
`name.runs.jsonl`, which says what the runs are.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Final

from expdb.errors import BadInput
from expdb.importers import long_rows, wide_rows
from expdb.importers.exported import read_records
from expdb.importers.found import Found, Skips, Source
from expdb.importers.lines import MAX_LINE, lines
from expdb.text import plain

SEPARATORS: Final = ",;\t"


def read(source: Source) -> Found:
    """Return what a CSV file holds.

    Raises:
        BadInput: it has no head, or no column with the step.
    """
    skips = Skips(plain(source.path.name))
    rows = _rows(source, skips)
    try:
        _, head = next(rows)
    except StopIteration:
        raise BadInput(f"{plain(source.path.name)} is empty") from None
    if long_rows.is_long(head):
        beside = source.path.with_suffix(".runs.jsonl")
        facts = read_records(beside, skips) if beside.is_file() else {}
        return Found(steps=long_rows.steps(head, rows, skips), skips=skips, facts=facts)
    steps = wide_rows.steps(source, head, rows, skips)
    return Found(steps=steps, skips=skips)


def _rows(source: Source, skips: Skips) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, cells); a cell may hold line ends."""
    csv.field_size_limit(MAX_LINE)
    last = 0

    def numbered() -> Iterator[str]:
        nonlocal last
        for at, text in lines(source.path, skips):
            last = at
            yield text + "\n"

    texts = numbered()
    first = next(texts, "")
    separator = max(SEPARATORS, key=first.count)

    def again() -> Iterator[str]:
        yield first
        yield from texts

    reader = csv.reader(again(), delimiter=separator, strict=False)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            skips.add("a line that is no CSV", last)
            continue
        if row:
            yield last, row
