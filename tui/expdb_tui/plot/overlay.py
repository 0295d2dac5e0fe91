"""The curves of several runs: single lines, or one a variant with its seeds as a band.

Invariant: `read_overlay` runs in a worker thread; nothing is drawn here.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from expdb.index.reader import Reader
from expdb.model import Event as RunEvent
from expdb.model import RunAt
from expdb.query.paging import PageRow, RunOrder, order_of, page_of
from expdb_tui.marks import MOST
from expdb_tui.plotting.plot import Line, x_range
from expdb_tui.plotting.reading import try_line, with_borders
from expdb_tui.run.facts import LAYER, in_order

MOST_READ: Final = 120
"""Runs whose curves are read, at most: of more, those with the best objective."""
MOST_EVENTS: Final = 400
MOST_SEEDS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be laid over each other."""

    runs: Mapping[str, int]
    """Run -> its place among the series; the baseline's is 0."""
    key: str | None
    """None takes the first metric."""
    x: str = "step"
    columns: int = 200
    since: int | None = None
    until: int | None = None
    has_bands: bool = False
    """Whether each run stands for all seeds of its variant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the plot."""

    run: str
    label: str
    place: int
    line: Line | None
    is_live: bool
    num_seeds: int = 1
    events: tuple[RunEvent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """What was read."""

    key: str
    keys: tuple[str, ...]
    x: str
    entries: tuple[Entry, ...]
    rest: Line | None = None
    """The range of all runs that have no line of their own."""
    num_rest: int = 0
    num_runs: int = 0
    planned: float = 0.0
    """The step to which a live run is to go."""
    order: RunOrder | None = None
    columns: int = 0
    span: tuple[int | None, int | None] = (None, None)
    """The steps that were asked for."""

    @property
    def sizes(self) -> tuple[object, ...]:
        """What changes when there is something else to draw: which lines, and their points."""
        lines = [
            (entry.run, entry.num_seeds, len(entry.events), entry.is_live, entry.line.num_points)
            for entry in self.entries
            if entry.line is not None
        ]
        return self.key, self.x, self.columns, self.span, self.num_rest, *lines


def read_overlay(
    reader: Reader, asked: Asked, order: RunOrder | None, head: RunAt | None
) -> Overlay:
    """Return the lines of the runs that are there; more than six are grouped by variant."""
    order = order or order_of(reader, head=head)
    rows = page_of(reader, order, list(asked.runs), head=head)
    keys = _keys(reader, [row.row.id for row in rows], order.metric)
    key = asked.key if asked.key in keys else (keys[0] if keys else "")
    live = [row.row.max_steps or 0 for row in rows if row.row.state.is_alive]
    base = Overlay(
        key=key, keys=tuple(keys), x=asked.x, entries=(), num_runs=len(rows),
        planned=float(max(live, default=0)), order=order,
        columns=asked.columns, span=(asked.since, asked.until),
    )  # fmt: skip
    others = [row for row in rows if asked.runs[row.row.id] != 0]
    if len(others) > MOST:
        return _grouped(reader, asked, base, rows, order)
    labels = _labels(rows, has_bands=asked.has_bands)
    seen: set[str] = set()
    borders, events = _borders(reader, rows), _events(reader, rows)
    entries = []
    for row in sorted(rows, key=lambda row: asked.runs[row.row.id] != 0):
        run = row.row.id
        if run in seen:
            continue  # a band stands for it already
        place = asked.runs[run]
        members = _seeds(reader, row) if asked.has_bands else [run]
        seen |= set(members)
        lines = _lines(reader, members, key, asked, place)
        line = banded(lines, asked.columns, place) if len(members) > 1 else next(iter(lines), None)
        if line is not None and len(members) == 1:
            line = with_borders(line, borders.get(run, ()))
        entries.append(
            Entry(
                run=run, label=labels[run], place=place, line=line,
                is_live=row.row.state.is_alive, num_seeds=len(members),
                events=events.get(run, ()),
            )
        )  # fmt: skip
    return replace(base, entries=tuple(entries))


def _lines(reader: Reader, runs: Sequence[str], key: str, asked: Asked, place: int) -> list[Line]:
    found = (
        try_line(
            reader, run, key, columns=asked.columns, place=place, x=asked.x,
            since=asked.since, until=asked.until,
        )
        for run in runs
    )  # fmt: skip
    return [line for line in found if line is not None]


def _keys(reader: Reader, runs: Sequence[str], metric: str | None) -> list[str]:
    """Return the metrics of the runs, in the order in which one looks at them."""
    sql = "SELECT DISTINCT key FROM series WHERE run IN (SELECT unnest(?))"
    keys = [str(row[0]) for row in reader.rows(sql, [list(runs)])]
    return in_order([key for key in keys if not key.startswith(LAYER)], metric or "")


def _labels(rows: Sequence[PageRow], *, has_bands: bool) -> dict[str, str]:
    """Return run -> name, with the seed where two of one name are shown."""
    names = [row.row.name for row in rows]
    found: dict[str, str] = {}
    for row in (row.row for row in rows):
        is_told = row.seed is not None and names.count(row.name) > 1 and not has_bands
        found[row.id] = f"{row.name} s{row.seed}" if is_told else row.name
    return found


def _borders(reader: Reader, rows: Sequence[PageRow]) -> dict[str, tuple[tuple[int, int], ...]]:
    sql = (
        "SELECT run, number, resumed_from FROM attempts"
        " WHERE number > 1 AND resumed_from IS NOT NULL AND run IN (SELECT unnest(?))"
        " ORDER BY number"
    )
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    for run, number, step in reader.rows(sql, [[row.row.id for row in rows]]):
        found[run] = (*found.get(run, ()), (number, step))
    return found


def _events(reader: Reader, rows: Sequence[PageRow]) -> dict[str, tuple[RunEvent, ...]]:
    sql = (
        "SELECT run, step, severity, rule, message, created_at_ms FROM events"
        " WHERE severity IN ('warn', 'critical') AND run IN (SELECT unnest(?))"
        f" ORDER BY step LIMIT {MOST_EVENTS}"
    )
    found: dict[str, tuple[RunEvent, ...]] = {}
    for run, step, severity, rule, message, at in reader.rows(sql, [[r.row.id for r in rows]]):
        event = RunEvent(step=step, severity=severity, rule=rule, message=message, created_at_ms=at)
        found[run] = (*found.get(run, ()), event)
    return found


def _seeds(reader: Reader, row: PageRow) -> list[str]:
    """Return the runs of the variant of a run, itself among them."""
    run = row.row
    sql = (
        "SELECT id FROM runs WHERE experiment = ? AND variant = ? AND digest = ?"
        " AND state NOT IN ('failed', 'crashed') ORDER BY created_at_ms DESC LIMIT ?"
    )
    found = reader.rows(sql, [run.experiment, run.variant, run.digest, MOST_SEEDS])
    return list(dict.fromkeys([run.id, *(str(one[0]) for one in found)]))


def _grouped(
    reader: Reader, asked: Asked, base: Overlay, rows: Sequence[PageRow], order: RunOrder
) -> Overlay:
    """Return one line a variant for the best six and the baseline's, and the range of the rest."""
    groups: dict[tuple[str, str, str], list[PageRow]] = {}
    for row in rows:
        key = (row.row.experiment, row.row.variant, row.row.digest)
        groups.setdefault(key, []).append(row)
    first = order.baseline
    home = (first.experiment, first.variant, first.digest) if first is not None else None
    sign = -1.0 if order.mode == "max" else 1.0

    def worth(key: tuple[str, str, str]) -> float:
        values = [row.row.value for row in groups[key] if row.row.value is not None]
        finite = [value for value in values if math.isfinite(value)]
        return sign * sum(finite) / len(finite) if finite else math.inf

    ordered = sorted((key for key in groups if key != home), key=worth)
    shown = ([home] if home in groups else []) + ordered[:MOST]
    entries = []
    for number, group in enumerate(shown):
        members = groups[group]
        place = 0 if group == home else number if home in groups else number + 1
        lines = _lines(reader, [row.row.id for row in members[:MOST_SEEDS]], base.key, asked, place)
        entries.append(
            Entry(
                run=members[0].row.id, label=members[0].row.name, place=place,
                line=banded(lines, asked.columns, place), num_seeds=len(members),
                is_live=any(row.row.state.is_alive for row in members),
            )
        )  # fmt: skip
    left = [row.row.id for key in ordered[MOST:] for row in groups[key]]
    coarse = replace(asked, columns=min(asked.columns, 120))
    range_of = banded(_lines(reader, left[:MOST_READ], base.key, coarse, 0), coarse.columns, 0)
    rest = None if range_of is None else replace(range_of, is_rest=True, is_band=False, gap_x=())
    return replace(base, entries=tuple(entries), rest=rest, num_rest=len(left))


def banded(lines: Sequence[Line], columns: int, place: int) -> Line | None:
    """Return the median of several lines, with the least and the greatest as its range."""
    if not lines:
        return None
    if len(lines) == 1:
        return lines[0]
    low, high = min(float(line.x[0]) for line in lines), max(float(line.x[-1]) for line in lines)
    most = max(len(line.x) for line in lines)
    grid = np.linspace(low, high, max(2, min(columns, most)))
    values = np.full((len(lines), len(grid)), np.nan)
    for at, line in enumerate(lines):
        if len(line.x):
            values[at] = np.interp(grid, line.x, line.mid, left=np.nan, right=np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # columns that no run has
        middle = np.nanmedian(values, axis=0)
        least, greatest = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    return Line(
        x=grid, low=least, high=greatest, mid=middle, place=place,
        num_points=max(line.num_points for line in lines), end=x_range(lines)[1],
        num_nonfinite=sum(line.num_nonfinite for line in lines),
        gap_x=tuple(x for line in lines for x in line.gap_x)[:200], is_band=True,
    )  # fmt: skip
