"""Screen 4, Plot: the marked runs over each other, or the run at hand against the baseline.

Invariant: it redraws at most once a second, and only if a run got points; the zoom, the crosshair
and what is hidden stay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from expdb.index.reader import Reader
from expdb.text import plain
from expdb_tui.ink import Piece
from expdb_tui.plot.legend import LegendLook, legend_lines, legend_rows
from expdb_tui.plot.overlay import Asked, Entry, Overlay, read_overlay
from expdb_tui.plot.view import View, plot_of, said_view, whole_range, window_of, zoomed
from expdb_tui.plotting.edges import GUTTER
from expdb_tui.plotting.reading import AXES
from expdb_tui.plotting.smooth import next_window
from expdb_tui.run.curves import MOVES, moved
from expdb_tui.screens.page import Page
from expdb_tui.widgets.frame import KeyBar
from expdb_tui.widgets.lineview import LineView
from expdb_tui.widgets.plotview import PlotView

BESIDE, WIDE = 100, 160
LEGEND, LEGEND_WIDE = 40, 50
TICK_S, SHARE = 1.0, 10
KEYS = (
    ("tab", "metric"), ("y", "log"), ("x", "step/tokens/time"), ("+ -", "smooth"),
    ("←→", "crosshair"), ("v", "seed band"), ("e", "events"), ("A", "attempts"), ("O", "clip"),
    ("space", "hide"), ("> <", "zoom"),
)  # fmt: skip
FLAT = {"←→": "left/right"}


class PlotScreen(Page):
    """Curves of several runs."""

    NUMBER = 4
    KEYS = KEYS
    DEFAULT_CSS = """
    PlotScreen { overflow: hidden; }
    #plot-split { height: 1fr; }
    #plot-view { height: 1fr; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "metric(1)", show=False, priority=True),
        Binding("shift+tab", "metric(-1)", show=False, priority=True),
        Binding("y", "log", show=False),
        Binding("x", "axis", show=False),
        Binding("plus,equals_sign", "smooth(1)", show=False),
        Binding("minus", "smooth(-1)", show=False),
        Binding("v", "bands", show=False),
        Binding("e", "events", show=False),
        Binding("A", "borders", show=False),
        Binding("O", "clip", show=False),
        Binding("space", "hide", show=False),
        Binding("up,k", "entry(-1)", show=False),
        Binding("down,j", "entry(1)", show=False),
        Binding("enter", "open", show=False),
        Binding("greater_than_sign", "zoom(1)", show=False),
        Binding("less_than_sign", "zoom(-1)", show=False),
        *(Binding(key, f"cross('{key}')", show=False) for key in MOVES),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.view = View()
        self.overlay: Overlay | None = None
        self._runs: dict[str, int] = {}
        self._next_look = 0.0

    def body(self) -> ComposeResult:
        """Lay out the plot and its legend."""
        with Container(id="plot-split"):
            yield PlotView(id="plot-view")
            yield LineView(id="plot-legend")

    # ------------------------------------------------------------------------------ which runs

    @property
    def entry(self) -> Entry | None:
        """The line under the cursor."""
        entries = self.overlay.entries if self.overlay is not None else ()
        return entries[min(self.view.cursor, len(entries) - 1)] if entries else None

    @property
    def run_here(self) -> str | None:
        """The run under the cursor of the legend."""
        return self.entry.run if self.entry is not None else None

    @property
    def command(self) -> str:
        """The command that compares what is plotted."""
        return " ".join(["expdb compare", *(self.main.session.short(run) for run in self._runs)])

    def _chosen(self) -> dict[str, int]:
        """Return the marked runs, else the one at hand; and the baseline."""
        main = self.main
        runs = dict(main.chosen_places())
        if not runs and main.opened is not None:
            runs = {main.opened: 1}
        base = main.order.baseline if main.order is not None else None
        return (
            {base.id: 0, **{run: at for run, at in runs.items() if run != base.id}}
            if base
            else runs
        )

    def on_screen_resume(self) -> None:
        """Take the runs that are marked now."""
        runs = self._chosen()
        if runs != self._runs:
            self._runs, self.overlay = runs, None
            self.view = replace(self.view, zoom=None, crosshair=None, cursor=0, hidden=frozenset())
        if self.main.is_ascii:
            self.query_one(KeyBar).keys = [(FLAT.get(key, key), name) for key, name in KEYS]
        self._lay_out()
        self._ask()

    # ------------------------------------------------------------------------------ reading

    def reload(self) -> None:
        """Read the curves, from a new look at the store."""
        self._ask(is_new=True)

    def _ask(self, *, is_new: bool = False) -> None:
        if not self._runs:
            self._show_nothing()
            return
        view, order, head = self.view, self.main.order, self.main.head
        columns = max(40, 2 * (self.query_one("#plot-view").size.width - GUTTER - 1))
        since, until = view.zoom if view.zoom is not None and view.x == "step" else (None, None)
        asked = Asked(
            runs=self._runs,
            key=view.key,
            x=view.x,
            columns=columns,
            has_bands=view.has_bands,
            since=None if since is None else int(since),
            until=None if until is None else int(until) + 1,
        )
        begun = time.monotonic()
        self._next_look = begun + 60.0

        def ask(reader: Reader) -> Overlay:
            return read_overlay(reader, asked, order, head)

        def take(found: Overlay) -> None:
            self._next_look = time.monotonic() + max(TICK_S, SHARE * (time.monotonic() - begun))
            self._take(asked, found)

        self.read(ask, take, group="overlay", is_new=is_new)

    def _take(self, asked: Asked, found: Overlay) -> None:
        if asked.runs != self._runs or asked.x != self.view.x:
            return
        if not found.entries:
            self._show_nothing()
            return
        before, self.overlay = self.overlay, found
        if self.view.key is None:
            self.view = replace(self.view, key=found.key)
        if before is None or found.sizes != before.sizes:
            self.redraw()

    def tick(self) -> None:
        """Read again while a shown run trains."""
        overlay = self.overlay
        if overlay is None or time.monotonic() < self._next_look:
            return
        if any(entry.is_live for entry in overlay.entries):
            self.reload()

    # ------------------------------------------------------------------------------ showing

    def on_resize(self) -> None:
        """Lay out for the new size."""
        self._lay_out()
        self.redraw()

    def _lay_out(self) -> None:
        width = self.app.size.width
        is_beside = width >= BESIDE
        split, legend = self.query_one("#plot-split"), self.query_one("#plot-legend")
        split.styles.layout = "horizontal" if is_beside else "vertical"
        legend.styles.width = (LEGEND_WIDE if width >= WIDE else LEGEND) if is_beside else "1fr"
        legend.styles.height = "1fr" if is_beside else 2
        view = self.query_one("#plot-view")
        if is_beside:
            split.move_child(legend, after=view)
        else:
            split.move_child(legend, before=view)

    def redraw(self) -> None:
        """Draw what was read, as it is looked at now."""
        overlay, view, signs = self.overlay, self.view, self.main.marks
        if overlay is None:
            return
        self.query_one("#plot-view", PlotView).show(plot_of(overlay, view, signs))
        look = LegendLook(
            crosshair=view.crosshair, cursor=view.cursor, hidden=view.hidden,
            has_events=bool(view.events),
        )  # fmt: skip
        is_beside = self.app.size.width >= BESIDE
        self.query_one("#plot-legend", LineView).show(
            (lambda width, height: legend_rows(overlay, look, width - 1, height, signs))
            if is_beside
            else (lambda width, height: legend_lines(overlay, look, width, signs))
        )
        num = overlay.num_runs
        right: list[Piece] = [(f"{num:,} run{'' if num == 1 else 's'}", "dim")]
        self.context(said_view(overlay, view, plain(overlay.key)), right)

    def _show_nothing(self) -> None:
        self.context([("nothing to plot", "dim")])
        rows: list[Sequence[Piece]] = [
            [], [("  Nothing marked.", "text+bold")], [],
            [("  space", "accent"), (" in ", "dim"), ("1", "accent"),
             (" Runs marks a run.", "dim")],
        ]  # fmt: skip
        self.query_one("#plot-view", PlotView).show(None)
        self.query_one("#plot-legend").styles.width = "1fr"
        self.query_one("#plot-legend").styles.height = "1fr"
        self.query_one("#plot-legend", LineView).show(lambda width, height: rows)

    # ------------------------------------------------------------------------------ keys

    def _look(self, change: Callable[[View], View], *, reads: bool = False) -> None:
        self.view = change(self.view)
        self.redraw()
        if reads:
            self._ask()

    def action_metric(self, by: int) -> None:
        """Show the next metric."""
        if self.overlay is not None and self.overlay.keys:
            keys = self.overlay.keys
            at = (keys.index(self.overlay.key) + by) % len(keys)
            self.view = replace(self.view, key=keys[at], crosshair=None)
            self._ask()

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
        self._ask()

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
