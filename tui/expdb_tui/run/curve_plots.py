"""The curves of one run as plots: what is read of each, and how it is drawn.

Invariant: `read_curves` runs in a worker thread; the rest is pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from expdb.index.reader import Reader
from expdb.model import Event as RunEvent
from expdb.text import cut_middle, metric, plain, size
from expdb_tui.ink import Piece
from expdb_tui.marks import Marks
from expdb_tui.plotting.axis import x_text
from expdb_tui.plotting.plot import Event, Line, Plot, x_range
from expdb_tui.plotting.reading import try_line, with_borders
from expdb_tui.plotting.smooth import default_window
from expdb_tui.run.facts import Facts, is_log

WEIGHTS = {"critical": ("fail", 3), "warn": ("warn", 2), "info": ("dim", 0)}
NON_FINITE = "non_finite"


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One metric of the run, and of the baseline."""

    key: str
    own: Line | None
    base: Line | None

    @property
    def lines(self) -> tuple[Line, ...]:
        """Those that are there; the run's own first."""
        return tuple(line for line in (self.own, self.base) if line is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How the curves are looked at."""

    x: str = "step"
    window: int | None = None
    """Points to smooth over; None goes by their number."""
    turned: frozenset[str] = field(default=frozenset())
    """Metrics whose axis is the other one than by their nature."""
    events: int = 1
    """0 shows none, 1 their signs, 2 a line down from each."""
    crosshair: float | None = None
    selected: str = ""
    is_zoomed: bool = False


def read_curves(
    reader: Reader, facts: Facts, keys: Sequence[str], *, x: str, columns: int, place: int
) -> dict[str, Curve]:
    """Return the curves of some metrics, of the run and of its baseline."""
    found: dict[str, Curve] = {}
    for key in keys:
        own = try_line(reader, facts.run.id, key, columns=columns, place=place, x=x)
        base = None
        if facts.baseline is not None:
            base = try_line(
                reader, facts.baseline, key, columns=columns, place=0, x=x, is_reference=True
            )
        borders = with_borders(own, facts.attempts) if own is not None else None
        found[key] = Curve(key=key, own=borders, base=base)
    return found


def events_on(
    events: Sequence[RunEvent], line: Line | None, signs: Marks, *, is_open: bool = False
) -> list[Event]:
    """Return the events of a run as a plot shows them, at the x of their steps."""
    found = []
    for event in events:
        role, weight = WEIGHTS[event.severity]
        sign = signs.nonfinite if event.rule == NON_FINITE else signs.event
        x = line.at_step(float(event.step)) if line is not None else float(event.step)
        found.append(Event(x=x, role=role, sign=sign, weight=weight, is_open=is_open))
    return found


def plot_of(curve: Curve, facts: Facts, look: Look, signs: Marks, width: int) -> Plot:
    """Return the plot of one metric."""
    own = curve.own
    usual = default_window(own.num_points if own is not None else 0)
    window = look.window if look.window is not None else usual
    low, high = x_range(curve.lines)
    if look.x == "step":
        low = low if low > facts.last_step / 2 else 0.0
        high = max(facts.last_step, high)
    events: list[Event] = []
    if look.events:
        events = events_on(facts.run.events, own, signs, is_open=look.events > 1)
    return Plot(
        key=curve.key,
        lines=curve.lines,
        is_log=is_log(curve.key, look.turned),
        title=_title(curve, facts, look, width, signs),
        extra=_extra(curve, look, window) if look.is_zoomed else (),
        window=window,
        x_low=low,
        x_high=high,
        x_label=look.x,
        events=events,
        has_borders=bool(own is not None and own.borders),
        crosshair=look.crosshair if look.is_zoomed else None,
    )


def _said(value: float, key: str) -> str:
    if key.endswith("_bytes") and math.isfinite(value):
        return size(round(value))
    return metric(value, key=key)


def _title(curve: Curve, facts: Facts, look: Look, width: int, signs: Marks) -> list[Piece]:
    series = facts.run.series.get(curve.key)
    name = cut_middle(plain(curve.key), max(8, width // 2))
    role = "accent+bold" if curve.key == look.selected else "text+bold"
    out: list[Piece] = [(name, role)]
    if series is None:
        return out
    bad = not math.isfinite(series.last)
    out.append((f" {_said(series.last, curve.key)}", "fail" if bad else "text"))
    if facts.run.last_step is not None and series.last_step < facts.run.last_step:
        out.append((f"  at {series.last_step}", "dim"))
    if is_log(curve.key, look.turned):
        out.append(("  log", "dim"))
    if series.nonfinite:
        count = f" {signs.nonfinite}{series.nonfinite:,}" if width >= 50 else ""
        out.append((f"  NaN{count}", "fail"))
    return out


def _extra(curve: Curve, look: Look, window: int) -> list[Piece]:
    out: list[Piece] = []
    if look.crosshair is not None:
        out.append((f"at {look.x} ", "dim"))
        out.append((x_text(look.crosshair, look.x), "accent+bold"))
        for line in curve.lines:
            at = line.near(look.crosshair)
            if at is not None:
                role = "faint" if line.is_reference else "text"
                said = "  baseline " if line.is_reference else "  "
                out.append((f"{said}{metric(float(line.mid[at]), key=curve.key)}", role))
        out.append(("   ", ""))
    elif curve.base is not None:
        out.append(("dotted: the baseline   ", "faint"))
    smooth = f"smooth {window:,}   " if window > 1 else ""
    return [*out, (f"{smooth}x {look.x}", "dim")]
