"""The keys and the mouse of the plot: each makes another view of it.

Invariant: what only changes the look is drawn from what was read; the rest is read again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.binding import BindingType

from expdb_tui.keys import key
from expdb_tui.plot.overlay import Entry, Overlay
from expdb_tui.plot.view import View, whole_range, window_of, zoomed
from expdb_tui.plotting.reading import AXES
from expdb_tui.plotting.smooth import next_window
from expdb_tui.run.curves import MOVES, moved
from expdb_tui.screens.page import Page
from expdb_tui.widgets.plotview import PlotView

KEYS = (
    ("tab", "metric"), ("y", "log"), ("x", "step/tokens/time"), ("+ -", "smooth"),
    ("←→", "crosshair"), ("v", "seed band"), ("e", "events"), ("A", "attempts"), ("O", "clip"),
    ("space", "hide"), ("> <", "zoom"),
)  # fmt: skip


CROSS = {
    "left": "move.left", "right": "move.right", "shift+left": "move.far_left",
    "shift+right": "move.far_right", "home": "move.first", "end": "move.last",
}  # fmt: skip


class PlotKeys(Page):
    """What the plot answers."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("tab", "metric(1)", "plot.next_metric", priority=True),
        key("shift+tab", "metric(-1)", "plot.previous_metric", priority=True),
        key("y", "log", "plot.log"),
        key("x", "axis", "plot.axis"),
        key("plus,equals_sign", "smooth(1)", "plot.smoother"),
        key("minus", "smooth(-1)", "plot.rougher"),
        key("v", "bands", "plot.bands"),
        key("e", "events", "plot.events"),
        key("A", "borders", "plot.attempts"),
        key("O", "clip", "plot.clip"),
        key("space", "hide", "plot.hide"),
        key("up,k", "entry(-1)", "move.up"),
        key("down,j", "entry(1)", "move.down"),
        key("enter", "open", "move.open"),
        key("greater_than_sign", "zoom(1)", "plot.nearer"),
        key("less_than_sign", "zoom(-1)", "plot.farther"),
        *(key(keys, f"cross('{keys}')", name) for keys, name in CROSS.items()),
    ]
    view: View
    overlay: Overlay | None

    @property
    def entry(self) -> Entry | None:
        """The line under the cursor."""
        entries = self.overlay.entries if self.overlay is not None else ()
        return entries[min(self.view.cursor, len(entries) - 1)] if entries else None

    @property
    def run_here(self) -> str | None:
        """The run under the cursor of the legend."""
        return self.entry.run if self.entry is not None else None

    def redraw(self) -> None:
        """Draw what was read, as it is looked at now."""

    def ask(self, *, is_new: bool = False) -> None:
        """Read the curves."""

    def _look(self, change: Callable[[View], View], *, reads: bool = False) -> None:
        self.view = change(self.view)
        self.redraw()
        if reads:
            self.ask()

    def action_metric(self, by: int) -> None:
        """Show the next metric."""
        if self.overlay is not None and self.overlay.keys:
            keys = self.overlay.keys
            at = (keys.index(self.overlay.key) + by) % len(keys)
            self.view = replace(self.view, key=keys[at], crosshair=None)
            self.ask()

    def action_log(self) -> None:
        """Turn the axis of y."""
        if self.overlay is not None:
            key = self.overlay.key
            self._look(lambda view: replace(view, turned=view.turned ^ {key}))

    def action_axis(self) -> None:
        """Go to the next axis of x."""
        keys = self.overlay.keys if self.overlay is not None else ()
        known = [x for x in AXES if x != "tokens" or "train/tokens" in keys]
        at = known[(known.index(self.view.x) + 1) % len(known)] if self.view.x in known else "step"
        self.view = replace(self.view, x=at, zoom=None, crosshair=None)
        self.ask()

    def action_smooth(self, by: int) -> None:
        """Smooth over more points, or fewer."""
        if self.overlay is not None:
            window = next_window(window_of(self.overlay, self.view), by)
            self._look(lambda view: replace(view, window=window))

    def action_bands(self) -> None:
        """Show the seeds of each variant as a band, or single runs."""
        self._look(lambda view: replace(view, has_bands=not view.has_bands), reads=True)

    def action_events(self) -> None:
        """Show events, lines down from them, or none."""
        self._look(lambda view: replace(view, events=(view.events + 1) % 3))

    def action_borders(self) -> None:
        """Show where attempts begin."""
        self._look(lambda view: replace(view, has_borders=not view.has_borders))

    def action_clip(self) -> None:
        """Leave single points far outside out of the range."""
        self._look(lambda view: replace(view, is_clipped=not view.is_clipped))

    def action_entry(self, by: int) -> None:
        """Go to another run of the legend."""
        if self.overlay is not None:
            last = max(0, len(self.overlay.entries) - 1)
            at = max(0, min(last, self.view.cursor + by))
            self._look(lambda view: replace(view, cursor=at))

    def action_hide(self) -> None:
        """Hide the run under the cursor, or show it again."""
        run = self.run_here
        if run is not None:
            self._look(lambda view: replace(view, hidden=view.hidden ^ {run}))

    def action_open(self) -> None:
        """Open the run under the cursor."""
        if self.run_here is not None:
            self.main.open_run(self.run_here)

    def action_cross(self, key: str) -> None:
        """Move the crosshair over the points of the run under the cursor."""
        entry = self.entry
        if entry is not None:
            at = moved(entry.line, self.view.crosshair, MOVES[key])
            self._look(lambda view: replace(view, crosshair=at))

    def action_zoom(self, by: int) -> None:
        """Go nearer to the crosshair, or farther from it."""
        if self.overlay is not None:
            low, high = self.view.zoom or whole_range(self.overlay)
            at = self.view.crosshair if self.view.crosshair is not None else (low + high) / 2
            self._zoom_at(at, by)

    def _zoom_at(self, at: float, by: int) -> None:
        overlay = self.overlay
        if overlay is not None:
            self._look(lambda view: zoomed(view, overlay, at, by), reads=True)

    @on(PlotView.Picked)
    def picked(self, event: PlotView.Picked) -> None:
        """Put the crosshair on the point nearest to a click."""
        line = self.entry.line if self.entry is not None else None
        at = line.near(event.x) if line is not None else None
        if line is not None and at is not None:
            x = float(line.x[at])
            self._look(lambda view: replace(view, crosshair=x))

    @on(PlotView.Dragged)
    def dragged(self, event: PlotView.Dragged) -> None:
        """Show the range that was dragged over."""
        self._look(lambda view: replace(view, zoom=(event.low, event.high)), reads=True)

    @on(PlotView.Wheeled)
    def wheeled(self, event: PlotView.Wheeled) -> None:
        """Zoom at the pointer."""
        self._zoom_at(event.x, event.by)

    def action_back(self) -> None:
        """Take the crosshair away, then the zoom; then go back to the runs."""
        if self.view.crosshair is not None:
            self._look(lambda view: replace(view, crosshair=None))
        elif self.view.zoom is not None:
            self._look(lambda view: replace(view, zoom=None), reads=True)
        else:
            self.app.switch_mode("runs")
