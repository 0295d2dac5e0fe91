"""The tab of layers: a heat map of one statistic over all modules and steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from expdb.index.reader import Reader
from expdb.query.points import Points
from expdb.text import cut_middle, metric, plain
from expdb_tui.ink import Piece, between
from expdb_tui.plotting.draw import draw
from expdb_tui.plotting.heat import Grid, Heat, Series, heat_rows, shades_of, short_module
from expdb_tui.plotting.plot import Line, Plot
from expdb_tui.run.curve_plots import NON_FINITE, WEIGHTS, events_on
from expdb_tui.run.facts import LAYER, Facts
from expdb_tui.run.tab import Tab
from expdb_tui.widgets.lineview import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """One statistic of all modules."""

    stat: str
    series: tuple[Series, ...]


class LayersTab(Tab):
    """Layer x step."""

    NAME, SHORT = "Layers", "Layers"
    KEYS: ClassVar[Sequence[tuple[str, str]]] = (
        ("[ ]", "tab"), ("↑↓", "module"), ("←→", "step"), ("m", "statistic"), ("y", "log"),
        ("z", "z-score"), ("enter", "curve of this module"),
    )  # fmt: skip
    TEACHES = (
        "No layer was logged.", 'run.log({f"layer/{name}/grad_norm": norm}, step=step)',
    )  # fmt: skip

    def forget(self) -> None:
        """Begin with the first statistic."""
        self._layers: Layers | None = None
        self._grid: Grid | None = None
        self._stat, self._cursor = "", 0
        self._column: int | None = None
        self._is_log, self._is_z, self._is_open = True, False, False

    def has(self, facts: Facts) -> bool:
        """Tell whether a layer was logged."""
        return bool(facts.keys(LAYER))

    def open(self) -> None:
        """Show the map."""
        stats = stats_of(self.facts)
        if self._stat not in stats:
            self._stat = stats[0]
        self.screen.show_view(self._rows)
        self.refresh()

    def refresh(self) -> None:
        """Read the statistic of all modules."""
        facts, stat = self.facts, self._stat

        def take(found: Layers) -> None:
            if found.stat == self._stat:
                self._layers = found
                self.screen.show_view(self._rows)

        self.read(lambda reader: read_layers(reader, facts, stat), take)

    def _rows(self, width: int, height: int) -> Rows:
        layers, main = self._layers, self.screen.main
        if layers is None or not layers.series:
            return []
        if self._is_open:
            return self._curve(layers.series[self._cursor], width, height)
        palette = main.palette
        shades = shades_of(palette.depth, palette.heat)
        heat = Heat(
            series=layers.series, is_log=self._is_log, is_z=self._is_z, cursor=self._cursor,
            column=self._column,
            events=[
                (event.step, main.marks.nonfinite if event.rule == NON_FINITE else main.marks.event,
                 WEIGHTS[event.severity][0])
                for event in self.facts.run.events
            ],
        )  # fmt: skip
        rows, grid = heat_rows(heat, width - 1, height - 1, main.marks, shades, ascii=main.is_ascii)
        self._grid = grid
        return [self._head(layers, grid, width), *[[(" ", ""), *row] for row in rows]]

    def _head(self, layers: Layers, grid: Grid, width: int) -> Sequence[Piece]:
        steps = max(1, round(grid.width))
        said = f"one column = {steps:,} step{'' if steps == 1 else 's'}"
        scale = "z-score" if self._is_z else "log scale" if self._is_log else "straight scale"
        left: list[Piece] = [
            (" ", ""),
            (f"layer/*/{plain(layers.stat)}", "text+bold"),
            (f"  {scale}, {said}", "dim"),
        ]
        right: list[Piece] = [(f"{len(layers.series)} modules", "dim"), (" ", "")]
        here = layers.series[self._cursor]
        if self._column is not None:
            column = min(self._column, grid.values.shape[1] - 1)
            value = float(grid.values[self._cursor, column])
            text = "NaN" if grid.is_bad[self._cursor, column] else metric(value)
            name = cut_middle(plain(here.name), 24)
            step = int(grid.edges[column])
            right = [(f"{name} ", "dim"), (text, "text+bold"), (f" at step {step} ", "dim")]
        return between(left, right, width)

    def _curve(self, series: Series, width: int, height: int) -> Rows:
        """Return the curve of the module under the cursor."""
        main, key = self.screen.main, self._stat
        steps = series.steps.astype(np.float64)
        values = np.where(np.isfinite(series.values), series.values, np.nan)
        bad = steps[~np.isfinite(series.values)]
        line = Line(
            x=steps, low=values, high=values, mid=values, place=self.screen.place,
            num_points=len(steps), gap_x=tuple(bad[:200].tolist()),
        )  # fmt: skip
        plot = Plot(
            key=key, lines=[line], is_log=self._is_log,
            title=[(plain(series.name), "text+bold"), (f"  {plain(key)}", "dim")],
            x_high=self.facts.last_step,
            events=events_on(self.facts.run.events, None, main.marks),
        )  # fmt: skip
        return draw(plot, width, height, main.marks, ascii=main.is_ascii)

    def act(self, key: str) -> bool:
        """Move, and choose what is shown."""
        layers = self._layers
        if layers is None:
            return False
        last = len(layers.series) - 1
        moves = {"up": -1, "down": 1, "pageup": -10, "pagedown": 10}
        if key in moves:
            self._cursor = max(0, min(last, self._cursor + moves[key]))
        elif key in ("left", "right", "shift+left", "shift+right", "home", "end"):
            self._move(key)
        elif key == "m":
            stats = stats_of(self.facts)
            self._stat = stats[(stats.index(self._stat) + 1) % len(stats)]
            self.refresh()
            return True
        elif key == "y":
            self._is_log = not self._is_log
        elif key == "z":
            self._is_z = not self._is_z
        elif key == "enter":
            self._is_open = not self._is_open
        else:
            return False
        self.screen.show_view(self._rows)
        return True

    def _move(self, key: str) -> None:
        last = self._grid.values.shape[1] - 1 if self._grid is not None else 0
        at = last if self._column is None else self._column
        by = {"left": -1, "right": 1, "shift+left": -10, "shift+right": 10}.get(key, 0)
        self._column = 0 if key == "home" else last if key == "end" else max(0, min(last, at + by))

    def back(self) -> bool:
        """Leave the curve, then the step."""
        if self._is_open:
            self._is_open = False
        elif self._column is not None:
            self._column = None
        else:
            return False
        self.screen.show_view(self._rows)
        return True


def parted(key: str) -> tuple[str, str]:
    """Return module and statistic of `layer/<module>/<statistic>`."""
    module, _, stat = key[len(LAYER) :].rpartition("/")
    return (module, stat) if module else (stat, "value")


def stats_of(facts: Facts) -> list[str]:
    """Return the statistics that were logged; grad_norm first."""
    found = {parted(key)[1] for key in facts.keys(LAYER)}
    return sorted(found, key=lambda stat: (stat != "grad_norm", stat))


def read_layers(reader: Reader, facts: Facts, stat: str) -> Layers:
    """Return one statistic of all modules, in the order in which they were logged."""
    points = Points(reader, facts.run.id)
    # The order of the summaries is that of the first log call: from the input to the output.
    keys = [key for key in facts.run.series if key.startswith(LAYER) and parted(key)[1] == stat]
    points.read(keys)
    series = []
    for key in _by_depth(keys):
        curve = points.of(key)
        if len(curve.steps):
            name = short_module(parted(key)[0])
            series.append(Series(name=name, steps=curve.steps, values=curve.values))
    return Layers(stat=stat, series=tuple(series))


def _by_depth(keys: Sequence[str]) -> list[str]:
    """Return keys from the input to the output, where their names tell: a summary is by name."""

    def place(key: str) -> tuple[int, list[tuple[int, int | str]]]:
        words = parted(key)[0].split(".")
        first = words[0]
        rank = 0 if "emb" in first else 2 if first in ("norm", "head", "lm_head", "ln_f") else 1
        return rank, [(0, int(word)) if word.isdecimal() else (1, word) for word in words]

    return sorted(keys, key=place)
