"""JSON lines: one object a step with its metrics, one object a point, or our own export.

Nested objects are metrics with names joined by `/`. A last line that was cut off is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from expdb.errors import BadInput
from expdb.importers import exported, long_rows
from expdb.importers.found import (
    RUN_NAMES,
    STEP_NAMES,
    TIME_NAMES,
    Found,
    RunFacts,
    Skips,
    Source,
    Step,
    moment_ms,
    named,
    whole,
)
from expdb.importers.json_ import parsed
from expdb.importers.lines import lines
from expdb.text import plain

NO_JSON = "a line that is no JSON"


def read(source: Source) -> Found:
    """Return what a file of JSON lines holds."""
    skips = Skips(plain(source.path.name))
    facts: dict[str, RunFacts] = {}
    return Found(steps=_steps(source, skips, facts), skips=skips, facts=facts)


def _steps(source: Source, skips: Skips, facts: dict[str, RunFacts]) -> Iterator[tuple[str, Step]]:
    for line, text in lines(source.path, skips):
        if not text.strip():
            continue
        try:
            data = parsed(text, f"{skips.name} line {line}")
        except (ValueError, RecursionError):
            skips.add(NO_JSON, line)
            continue
        if not isinstance(data, dict):
            skips.add("a line that is no JSON object", line)
        elif exported.is_record(data):
            where = f"{plain(source.path.name)} line {line}"
            record = exported.facts_of(data, skips, line, where=where)
            exported.remember(facts, record, skips.name)
        elif long_rows.is_long(list(data)):
            yield from long_rows.steps(list(data), [(line, list(data.values()))], skips)
        else:
            yield from object_steps(data, source.reading.step, skips, line)


def object_steps(
    data: Mapping[str, Any], step_name: str, skips: Skips, line: int
) -> Iterator[tuple[str, Step]]:
    """Yield the step that one object holds."""
    lower = {name.lower(): name for name in reversed(list(data))}
    names = (step_name.lower(),) if step_name else STEP_NAMES
    at = next((lower[name] for name in names if name in lower), None)
    step = None if at is None else whole(data[at])
    if step is None:
        skips.add("an object without a step" if at is None else "a step that is no whole number",
                  line)  # fmt: skip
        return
    run = next((name for name in RUN_NAMES if isinstance(data.get(name), str)), None)
    time_at, time_ms = _moment(data, lower)
    pairs = (
        pair
        for name, value in data.items()
        if name not in (at, run, time_at)
        for pair in _flat(name, value)
    )
    values = named(pairs, skips, line)
    if values:
        yield "" if run is None else data[run], Step(step, values, time_ms)


def _moment(data: Mapping[str, Any], lower: Mapping[str, str]) -> tuple[str, int | None]:
    for name in TIME_NAMES:
        if name in lower:
            found = moment_ms(data[lower[name]])
            if found is not None:
                return lower[name], found
    return "", None


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield name -> value of what is below an object; of anything else itself."""
    stack = [(name, value)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, dict):
            stack.extend((f"{path}/{key}", below) for key, below in reversed(item.items()))
        else:
            yield path, item


def read_document(source: Source) -> Found:
    """Return what a document of `expdb export --json` holds.

    Raises:
        BadInput: it is none.
    """
    from expdb.importers.document import load

    data, skips = load(source.path), Skips(plain(source.path.name))
    runs = data.get("runs")
    if not isinstance(runs, list) or not all(
        isinstance(run, dict) and exported.is_record(run) for run in runs
    ):
        raise BadInput(f"{plain(source.path.name)} is no export of runs")
    facts = exported.facts_of_all(runs, skips)

    def steps() -> Iterator[tuple[str, Step]]:
        for run in runs:
            points = run.get("points") or ()
            for at, point in enumerate(points, start=1):
                if isinstance(point, dict):
                    row = {**point, "run": run["id"]}
                    yield from long_rows.steps(list(row), [(at, list(row.values()))], skips)

    return Found(steps=steps(), skips=skips, facts=facts)
