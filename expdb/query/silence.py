"""When a run that lives has been silent for unusually long.

Invariant: the time of the last step is that of its journal, by the clock that stamps the store's
files, so that two hosts agree.
"""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from pathlib import Path
from typing import Final

from expdb.errors import ExpdbError
from expdb.store import points
from expdb.store.attempts import store_now
from expdb.store.journal import JournalReader
from expdb.store.layout import RunLayout, StoreLayout

LOOK_S: Final = 5.0
SHORTEST_S: Final = 60.0
TIMES: Final = 10.0
"""Silence is ten times the usual step, and a minute at least."""
MAX_STEPS: Final = 200


class Silence:
    """Watches the journal of rank 0."""

    def __init__(self, run_dir: Path, store_root: Path, *, shortest_s: float = SHORTEST_S) -> None:
        self._layout = RunLayout(run_dir)
        self._meta = StoreLayout(store_root).meta
        self._looked_at = -LOOK_S
        self._said_s = 0.0
        self._shortest_s = shortest_s
        self.last_s = 0.0
        """When the last step was written, by the clock of the store; known once one was."""
        self.usual_s: float | None = None
        """The usual time between two steps; known once a silence was found."""

    def look(self, attempt: int) -> float | None:
        """Return for how long no step came, if that is to be said now."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_S:
            return None
        self._looked_at = now
        journal, last = self._newest(attempt)
        if journal is None:
            return None
        self.last_s = last
        silent_s = store_now(self._meta) - last
        if silent_s < self._shortest_s:
            self._said_s = 0.0
            return None
        if self.usual_s is None:
            self.usual_s = usual_step_s(journal)
        if silent_s < max(TIMES * (self.usual_s or 0.0), 2 * self._said_s):
            return None
        self._said_s = silent_s
        return silent_s

    def _newest(self, attempt: int) -> tuple[Path | None, float]:
        """Return the journal that is written to, and when it last was."""
        found = points.journals(self._layout, attempt).get(0, [])
        try:
            return (found[-1], found[-1].stat().st_mtime) if found else (None, 0.0)
        except OSError:
            return None, 0.0  # sealed at this moment


def usual_step_s(journal: Path) -> float | None:
    """Return the median time of a step over the last ones of a journal; None of fewer than two."""
    times: dict[int, int] = {}
    try:
        for values in JournalReader(journal):
            times.setdefault(values.step, values.time_ms)
    except (ExpdbError, OSError):
        return None
    taken = [
        (after - before) / 1000 / (step - last)
        for (last, before), (step, after) in pairwise(sorted(times.items())[-MAX_STEPS:])
    ]
    return max(0.0, statistics.median(taken)) if taken else None
