"""How several runs are looked at in one plot, and the plot that this makes.

Invariant: pure; a look is a value, and each key makes another one of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from expdb_tui.ink import Piece
from expdb_tui.marks import Marks
from expdb_tui.plot.overlay import Overlay
from expdb_tui.plotting.axis import is_log_by_nature
from expdb_tui.plotting.plot import Event, Line, Plot, x_range
from expdb_tui.plotting.smooth import default_window
from expdb_tui.run.curve_plots import NON_FINITE, WEIGHTS

NEAREST = 1e-4
"""The least share of the whole range that a zoom shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The look of the plot."""

    key: str | None = None
    x: str = "step"
    turned: frozenset[str] = field(default=frozenset())
    window: int | None = None
    has_bands: bool = False
    events: int = 1
    """0 shows none, 1 their signs, 2 a line down from each."""
    has_borders: bool = False
    is_clipped: bool = False
    crosshair: float | None = None
    zoom: tuple[float, float] | None = None
    cursor: int = 0
    hidden: frozenset[str] = field(default=frozenset())

    def is_log(self, key: str) -> bool:
        """Tell whether a metric is on a logarithmic axis."""
        return is_log_by_nature(key) != (key in self.turned)


def shown_lines(overlay: Overlay, view: View) -> list[Line]:
    """Return the lines that are not hidden, and the range of the rest."""
    lines = [
        entry.line
        for entry in overlay.entries
        if entry.line is not None and entry.run not in view.hidden
    ]
    return [*lines, overlay.rest] if overlay.rest is not None else lines


def whole_range(overlay: Overlay) -> tuple[float, float]:
    """Return the range of x of all that was read, up to where a live run is to go."""
    lines = [entry.line for entry in overlay.entries if entry.line is not None]
    low, high = x_range([*lines, *([overlay.rest] if overlay.rest is not None else [])])
    if overlay.x != "step":
        return 0.0, high
    return (low if low > high / 2 else 0.0), max(high, overlay.planned)


def window_of(overlay: Overlay, view: View) -> int:
    """Return how many points are smoothed over."""
    if view.window is not None:
        return view.window
    most = max((line.num_points for line in shown_lines(overlay, view)), default=0)
    return default_window(most)


def plot_of(overlay: Overlay, view: View, signs: Marks) -> Plot:
    """Return the plot."""
    low, high = view.zoom or whole_range(overlay)
    events = []
    for entry in overlay.entries if view.events else ():
        if entry.run in view.hidden or entry.line is None:
            continue
        for event in entry.events:
            sign = signs.nonfinite if event.rule == NON_FINITE else signs.event
            events.append(
                Event(
                    x=entry.line.at_step(float(event.step)), role=f"series{entry.place}",
                    sign=sign, weight=WEIGHTS[event.severity][1], is_open=view.events > 1,
                )
            )  # fmt: skip
    return Plot(
        key=overlay.key,
        lines=shown_lines(overlay, view),
        is_log=view.is_log(overlay.key),
        window=window_of(overlay, view),
        x_low=low,
        x_high=high,
        x_label=overlay.x,
        events=events,
        has_borders=view.has_borders,
        crosshair=view.crosshair,
        is_clipped=view.is_clipped,
    )


def zoomed(view: View, overlay: Overlay, at: float, by: int) -> View:
    """Return the view nearer to an x (`by` 1) or farther from it (-1)."""
    first, last = whole_range(overlay)
    low, high = view.zoom or (first, last)
    share = 0.5 if by > 0 else 2.0
    low, high = at - (at - low) * share, at + (high - at) * share
    low, high = max(first, low), min(last, high)
    if high - low >= (last - first) * 0.999:
        return replace(view, zoom=None)
    if high - low < (last - first) * NEAREST:
        return view
    return replace(view, zoom=(low, high))


def said_view(overlay: Overlay, view: View, key: str) -> list[Piece]:
    """Return what the plot shows, for the line above it."""
    window = window_of(overlay, view)
    out: list[Piece] = [(key, "text+bold"), ("   log" if view.is_log(overlay.key) else "", "dim")]
    out.append((f"   smooth {window:,}" if window > 1 else "   not smoothed", "dim"))
    out.append((f"   x {overlay.x}", "dim"))
    if view.has_bands:
        out.append(("   band over seeds", "dim"))
    out.append(("   events off" if not view.events else "", "dim"))
    out.append(("   attempts" if view.has_borders else "", "dim"))
    out.append(("   clipped to 1-99 %" if view.is_clipped else "", "accent"))
    out.append(("   zoom" if view.zoom is not None else "", "accent"))
    num_bad = sum(line.num_nonfinite for line in shown_lines(overlay, view))
    out.append((f"   NaN in {num_bad:,} points" if num_bad else "", "fail"))
    return out
