"""One event: four plots around its step, and beside them what the store knows of it.

Invariant: `read_around` runs in a worker thread; the rest is pure. What no rule recorded (a batch,
a runbook) is not made up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from expdb.index.reader import Reader
from expdb.model import Event
from expdb.query.history_results import KeyChange
from expdb.query.points import Points
from expdb.text import ago, decimals_for, metric, percent, plain
from expdb_tui.ink import Piece, fit, titled
from expdb_tui.marks import Marks
from expdb_tui.plotting.plot import Event as Sign
from expdb_tui.plotting.plot import Line, Plot
from expdb_tui.plotting.reading import try_line
from expdb_tui.run.config import read_config, value_text
from expdb_tui.run.curve_plots import NON_FINITE, WEIGHTS
from expdb_tui.run.facts import EVAL, Facts, curve_keys, is_log
from expdb_tui.run.grid import grid_rows
from expdb_tui.run.texts import wrapped
from expdb_tui.session import now_ms

WINDOW = 60
"""Steps before and behind the event that are shown, at least."""
TALL = 36
TABLE = "At the step"
BEFORE = 20
"""Points before it that its value is measured against."""
FEW = 5
"""A metric with fewer points around the step shows nothing."""
SIDE = 46
BESIDE = 100
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
        against=config.against, changes=config.changes,
    )  # fmt: skip


def around_rows(
    around: Around, facts: Facts, width: int, height: int, signs: Marks, *, ascii: bool
) -> list[Sequence[Piece]]:
    """Return the plots, and right of them or above them what is known."""
    side = SIDE if width >= BESIDE else 0
    said = event_rows(around, facts, side or width - 2, signs, ascii=ascii)
    if not side:
        said = [
            [(" ", ""), *row] for row in said[: _table_at(said) if height < TALL else height // 2]
        ]
        return [*said, *_plots(around, width, height - len(said), signs, ascii=ascii)]
    left = _plots(around, width - side - 3, height, signs, ascii=ascii)
    blank: Sequence[Piece] = ()
    return [
        [*fit(row, width - side - 3), (f" {signs.divider} ", "rule"), *fit(right, side)]
        for row, right in zip(left, [*said, *[blank] * height], strict=False)
    ]


def _table_at(rows: Sequence[Sequence[Piece]]) -> int:
    """Return how many rows stand before the values at the step."""
    return next((at - 1 for at, row in enumerate(rows) if row and row[0][0] == TABLE), len(rows))


def _plots(
    around: Around, width: int, height: int, signs: Marks, *, ascii: bool
) -> list[Sequence[Piece]]:
    role, weight = WEIGHTS[around.event.severity]
    sign = signs.nonfinite if around.event.rule == NON_FINITE else signs.event
    plots = []
    for key, line in around.lines.items():
        plots.append(
            Plot(
                key=key,
                lines=[replace(line, num_points=max(line.num_points, 31))],
                is_log=is_log(key, frozenset()),
                title=[(plain(key), "text+bold")],
                x_low=float(around.since),
                x_high=float(min(around.until, max(around.since + 1, int(line.x[-1])))),
                crosshair=float(around.event.step),
                events=[Sign(x=float(around.event.step), role=role, sign=sign, weight=weight)],
                has_marks=False,
            )
        )
    across = 2 if len(plots) > 1 and width >= 70 else 1
    down = max(1, min(-(-len(plots) // across), height // 6))
    return grid_rows(plots, (down, across), width, height, signs, ascii=ascii)


def event_rows(
    around: Around, facts: Facts, width: int, signs: Marks, *, ascii: bool
) -> list[Sequence[Piece]]:
    """Return what is known of an event, in rows of `width` cells."""
    event, run = around.event, facts.run
    role = WEIGHTS[event.severity][0]
    arrow = "->" if ascii else "→"
    out: list[Sequence[Piece]] = [
        [(f"{plain(event.rule)} ", "text+bold"), (f"step {event.step:,}  ", "text"),
         (event.severity, f"{role}+bold"), (f"  {ago(event.created_at_ms, now_ms())}", "dim")],
    ]  # fmt: skip
    out += [[(part, "dim")] for part in wrapped(plain(event.message), width - 1)]
    batch = [one for one in around.moments if any(word in one.key for word in BATCH)]
    out += [[(f"{plain(one.key)}  ", "dim"), (f"{one.value:g}", "text")] for one in batch]
    out.append([])
    if around.good is not None:
        out.append([("last healthy checkpoint  ", "dim"), (f"step {around.good:,}", "text")])
        command = f"expdb resume {run.id[:6]}@{around.good} --skip-batches 1"
        out.append([(command, "accent")])
    else:
        out.append([("no checkpoint before it", "dim")])
    out += [[], titled([(TABLE, "text+bold"), (f"  against {BEFORE} points before", "dim")],
                       width, signs.rule)]  # fmt: skip
    moved = sorted(around.moments, key=lambda one: -_change(one))
    for one in moved:
        pct = 100 * (one.value / one.before - 1) if one.before else math.nan
        decimals = decimals_for([one.value, one.before])
        before, value = (metric(v, decimals, key=one.key) for v in (one.before, one.value))
        tail = f"{before:>9} {value:>9}{percent(pct):>10}"
        name = fit([(plain(one.key), "text")], max(6, width - len(tail)))
        is_far = _change(one) > 0.5
        out.append([*name, (tail, "text" if is_far else "dim")])
    if around.against:
        count = len(around.changes)
        said = f"  {count} key{'' if count == 1 else 's'}" if count else "  nothing"
        head: list[Piece] = [(f"Changed from the {around.against}", "text+bold"), (said, "dim")]
        out += [[], titled(head, width, signs.rule)]
        for change in around.changes:
            after = value_text(change.after)
            out.append(
                [
                    (f"{plain(change.key)}  ", "dim"),
                    (f"{value_text(change.before)} {arrow} ", "dim"),
                    (after, "text"),
                ]
            )
    return out


def _change(one: Moment) -> float:
    if not math.isfinite(one.value):
        return math.inf
    if not math.isfinite(one.before) or one.before == 0:
        return 0.0
    return abs(one.value / one.before - 1)
