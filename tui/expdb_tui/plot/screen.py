"""Screen 4, Plot: the marked runs over each other, or the run at hand against the baseline.

Invariant: it redraws at most once a second, and only if a run got points; the zoom, the crosshair
and what is hidden stay.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from textual.app import ComposeResult
from textual.containers import Container

from expdb.index.reader import Reader
from expdb.text import plain
from expdb_tui.ink import Piece
from expdb_tui.memory import Said, Wrong, take, take_words
from expdb_tui.plot.keys import KEYS, PlotKeys
from expdb_tui.plot.legend import LegendLook, legend_lines, legend_rows
from expdb_tui.plot.overlay import Asked, Overlay, read_overlay
from expdb_tui.plot.view import View, plot_of, said_view
from expdb_tui.plotting.edges import GUTTER
from expdb_tui.plotting.reading import AXES
from expdb_tui.widgets.frame import KeyBar
from expdb_tui.widgets.lineview import LineView
from expdb_tui.widgets.plotview import PlotView

BESIDE, WIDE = 100, 160
LEGEND, LEGEND_WIDE = 40, 50
TICK_S, SHARE = 1.0, 10
FLAT = {"←→": "left/right"}


class PlotScreen(PlotKeys):
    """Curves of several runs."""

    NUMBER, SCOPE = 4, "plot"
    KEYS = KEYS
    DEFAULT_CSS = """
    PlotScreen { overflow: hidden; }
    #plot-split { height: 1fr; }
    #plot-view { height: 1fr; width: 1fr; }
    """

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

    def remember(self) -> Said:
        """Return the metric, the axes, and how much it is smoothed."""
        view = self.view
        return {
            "metric": view.key or "", "x": view.x, "turned": sorted(view.turned),
            "smooth": view.window or 0, "bands": view.has_bands, "events": view.events,
            "attempts": view.has_borders, "clip": view.is_clipped,
        }  # fmt: skip

    def recall(self, said: Said) -> None:
        """Look as it was looked last."""
        x, events = take(said, "x", str, "step"), take(said, "events", int, 1)
        if x not in AXES or events not in range(3):
            raise Wrong("x")
        self.view = View(
            key=take(said, "metric", str, "") or None, x=x,
            turned=frozenset(take_words(said, "turned")),
            window=max(0, take(said, "smooth", int, 0)) or None,
            has_bands=take(said, "bands", bool, False), events=events,
            has_borders=take(said, "attempts", bool, False),
            is_clipped=take(said, "clip", bool, False),
        )  # fmt: skip

    # ------------------------------------------------------------------------------ which runs

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
        self._say_keys()
        self._lay_out()
        self.ask()

    def _say_keys(self) -> None:
        names = self.main.keys.shown(self.SCOPE, KEYS)
        if self.main.is_ascii:
            names = [(FLAT.get(key, key), name) for key, name in names]
        bar = self.query_one(KeyBar)
        bar.keys = names
        bar.refresh()

    def relook(self) -> None:
        """Draw again with other signs or colours."""
        super().relook()
        self._say_keys()
        self.redraw()

    # ------------------------------------------------------------------------------ reading

    def reload(self) -> None:
        """Read the curves, from a new look at the store."""
        self.ask(is_new=True)

    def ask(self, *, is_new: bool = False) -> None:
        """Read the curves, from the last look unless told."""
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

        def question(reader: Reader) -> Overlay:
            return read_overlay(reader, asked, order, head)

        def take(found: Overlay) -> None:
            self._next_look = time.monotonic() + max(TICK_S, SHARE * (time.monotonic() - begun))
            self._take(asked, found)

        self.read(question, take, group="overlay", is_new=is_new)

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
