"""What is known around one event of a run: metrics at its step, the last good checkpoint.

Invariant: `read_around` runs in a worker thread; what no rule recorded is not made up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from expdb.index.reader import Reader
from expdb.model import Event
from expdb.query.events import last_healthy
from expdb.query.history_results import Healthy, KeyChange
from expdb.query.points import Points
from expdb_tui.plotting.plot import Line
from expdb_tui.plotting.reading import try_line
from expdb_tui.run.config import read_config
from expdb_tui.run.facts import EVAL, Facts, curve_keys

WINDOW = 60
"""Steps before and behind the event that are shown, at least."""
BEFORE = 20
"""Points before it that its value is measured against."""
FEW = 5
"""A metric with fewer points around the step shows nothing."""
MOST_MOMENTS = 24
BATCH = ("batch", "shard", "sample")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One metric at the step of an event, and before it."""

    key: str
    value: float
    before: float
    """The mean of the points before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What was read around one event."""

    event: Event
    since: int
    until: int
    lines: dict[str, Line]
    moments: tuple[Moment, ...]
    good: int | None
    """The last usable checkpoint before it."""
    against: str
    """The run that this one is measured against, in words; empty without one."""
    changes: tuple[KeyChange, ...]
    """What its config changed from that run."""
    healthy: Healthy | None = None
    """The last run of the experiment in which no rule warned, with the keys that differ."""


def read_around(reader: Reader, facts: Facts, event: Event, *, columns: int, place: int) -> Around:
    """Return the metrics around the step of an event."""
    run = facts.run
    reach = max(WINDOW, (run.last_step or 0) // 20)
    since, until = max(0, event.step - reach), event.step + reach
    keys = curve_keys(facts)
    named = [key for key in keys if key in event.message]
    keys = list(dict.fromkeys([*named, *keys]))
    lines: dict[str, Line] = {}
    for key in keys:
        if len(lines) == 4:
            break
        line = try_line(reader, run.id, key, columns=columns, place=place, since=since, until=until)
        if line is not None and (len(line.x) > FEW or key in named):
            lines[key] = line
    points = Points(reader, run.id)
    wanted = [key for key in run.series if key.startswith("data/")]
    wanted += [key for key in keys if not key.startswith(EVAL)][:MOST_MOMENTS]
    points.read(wanted)
    moments = []
    for key in wanted:
        curve = points.of(key)
        at = curve.num_upto(event.step)
        if at and (at > 1 or any(word in key for word in BATCH)):
            old = curve.values[max(0, at - 1 - BEFORE) : at - 1]
            old = old[np.isfinite(old)]
            before = float(old.mean()) if len(old) else math.nan
            moments.append(Moment(key=key, value=float(curve.values[at - 1]), before=before))
    good = max((one.step for one in run.usable if one.step < event.step), default=None)
    config = read_config(reader, facts)
    return Around(
        event=event, since=since, until=until, lines=lines, moments=tuple(moments), good=good,
        against=config.against, changes=config.changes, healthy=last_healthy(reader, run.id),
    )  # fmt: skip
