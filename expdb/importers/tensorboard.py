"""Event files of TensorBoard: each value that is one number, under its tag.

A last record that was cut off is passed over, as a killed process leaves one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from expdb import tfevents
from expdb.errors import BadInput
from expdb.importers.found import Found, Skips, Source, Step, moment_ms, named
from expdb.importers.lines import opened
from expdb.text import plain

OTHER: Final = "a value is no single number"


def read(source: Source) -> Found:
    """Return what an event file holds; a "line" in what is passed over is a record.

    Raises:
        BadInput: it is none.
    """
    name = plain(source.path.name)
    with opened(source.path) as file:
        if not tfevents.is_first(file.read(12)):
            raise BadInput(f"{name} is no event file of TensorBoard")
    skips = Skips(name)
    return Found(steps=_steps(source, skips), skips=skips)


def _steps(source: Source, skips: Skips) -> Iterator[tuple[str, Step]]:
    at = 0
    try:
        with opened(source.path) as file:
            for at, data in enumerate(tfevents.records(file), start=1):
                step = None if data is None else _step(data, skips, at)
                if data is None:
                    skips.add("a record with another checksum", at)
                elif step is not None:
                    yield "", step
    except (tfevents.CutOff, EOFError):  # the latter of a file that gzip packed
        skips.add("a record that was cut off", at + 1)
    except tfevents.Damaged:
        skips.add("all behind a damaged length", at + 1)


def _step(data: bytes, skips: Skips, at: int) -> Step | None:
    try:
        event = tfevents.decoded(data)
    except tfevents.Damaged:
        skips.add("a record that is no event", at)
        return None
    for _ in range(event.num_others):
        skips.add(OTHER, at)
    values = named(iter(event.values.items()), skips, at)
    return Step(event.step, values, moment_ms(event.time_s)) if values else None
