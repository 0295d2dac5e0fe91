"""Log text, by a pattern: of each line that it takes, the step and the named numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from expdb.errors import BadInput
from expdb.importers.found import Found, Skips, Source, Step, named, whole
from expdb.importers.lines import lines
from expdb.importers.patterns import (
    BUILT_IN,
    MAX_SEARCHED,
    Pattern,
    best_of,
    by_name,
    by_regex,
)
from expdb.text import plain

SAMPLE: Final = 500
NO_MATCH: Final = "a line that the pattern does not read"
NO_VALUE: Final = "a line with a step and no metric"


def read(source: Source) -> Found:
    """Return what a log holds.

    Raises:
        BadInput: no pattern reads it, or the named one is none.
    """
    name = source.reading.pattern
    if source.reading.regex:
        name, pattern = "regex", by_regex(source.reading.regex)
    else:
        name = name or _guess(source)
        pattern = by_name(name)
    skips = Skips(plain(source.path.name))
    return Found(steps=_steps(source, pattern, skips), skips=skips, pattern=name)


def _guess(source: Source) -> str:
    texts = (text for _, text in lines(source.path, Skips()))
    # The log of a training begins with its set-up, and the source that some print is long.
    for _ in range(20):
        sample = list(islice(texts, SAMPLE))
        name = best_of(iter(sample))
        if name:
            return name
        if len(sample) < SAMPLE:
            break
    raise BadInput(
        f"no known pattern reads {plain(source.path.name)}",
        hint=f"patterns: {' '.join(BUILT_IN)}; your own: --regex",
    )


def _steps(source: Source, pattern: Pattern, skips: Skips) -> Iterator[tuple[str, Step]]:
    for line, text in lines(source.path, skips):
        if not text.strip():
            continue
        found = pattern(text[:MAX_SEARCHED].rstrip("\r"))
        if found is None:
            skips.add(NO_MATCH, line)
            continue
        step = whole(found.step)
        if step is None:
            skips.add("a step that is no whole number", line)
            continue
        values = named(iter(found.pairs), skips, line, loose=True)
        if values:
            yield "", Step(step, values)
        else:
            skips.add(NO_VALUE, line)
