"""The tabs of plots: the curves of a run, and the metrics of its machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from expdb_tui.memory import Said, Wrong, take, take_words
from expdb_tui.plotting.edges import GUTTER
from expdb_tui.plotting.plot import Line
from expdb_tui.plotting.reading import AXES
from expdb_tui.plotting.smooth import default_window, next_window
from expdb_tui.run.curve_plots import Curve, Look, plot_of, read_curves
from expdb_tui.run.facts import Facts, curve_keys, system_keys
from expdb_tui.run.grid import grid_rows, moved_top, shape_of
from expdb_tui.run.place import TabPlace
from expdb_tui.run.tab import Tab
from expdb_tui.widgets.lineview import Rows

CHANGES = ("y", "x", "+", "-", "e")
MOVES = {
    "left": -1, "right": 1, "shift+left": -10, "shift+right": 10, "home": -(10**6), "end": 10**6,
}  # fmt: skip


class CurvesTab(Tab):
    """Small multiples of all metrics; enter makes one of them large."""

    NAME, SHORT = "Curves", "Curves"
    KEYS: ClassVar[Sequence[tuple[str, str]]] = (
        ("[ ]", "tab"), ("enter", "zoom"), ("↑↓", "metric"), ("y", "log"), ("x", "axis"),
        ("+ -", "smooth"), ("e", "events"), ("4", "plot"), ("d", "compare"), ("C", "control"),
    )  # fmt: skip
    TEACHES = (
        "No metric yet.", 'run.log({"train/loss": loss}, step=step)',
    )  # fmt: skip
    MOST = 3

    def __init__(self, screen: TabPlace) -> None:
        super().__init__(screen)
        self._look = Look()

    def remember(self) -> Said:
        """Return how curves are looked at, whatever the run."""
        look = self._look
        return {
            "smooth": look.window or 0, "turned": sorted(look.turned), "events": look.events,
        }  # fmt: skip

    def recall(self, said: Said) -> None:
        """Look at them as last."""
        events = take(said, "events", int, 1)
        if events not in range(3):
            raise Wrong("events")
        window = max(0, take(said, "smooth", int, 0)) or None
        turned = frozenset(take_words(said, "turned"))
        self._look = Look(window=window, turned=turned, events=events)

    def forget(self) -> None:
        """Begin at the first metric; how it is looked at stays."""
        look = self._look
        self._look = Look(window=look.window, turned=look.turned, events=look.events)
        self._cursor, self._top = 0, 0
        self._curves: dict[str, Curve] = {}

    def keys(self, facts: Facts) -> list[str]:
        """Return the metrics."""
        return curve_keys(facts)

    def has(self, facts: Facts) -> bool:
        """Tell whether there is a metric."""
        return bool(self.keys(facts))

    @property
    def _shape(self) -> tuple[int, int]:
        width, height = self.screen.view_size
        if self._look.is_zoomed:
            return 1, 1
        down, across = shape_of(width, height, most=self.MOST)
        num = len(self.keys(self.facts))
        # Few plots are large ones.
        return (1, 1) if num == 1 else (min(down, -(-num // across)), min(across, num))

    def _visible(self) -> list[str]:
        keys = self.keys(self.facts)
        self._cursor = max(0, min(len(keys) - 1, self._cursor))
        if self._look.is_zoomed:
            return keys[self._cursor : self._cursor + 1]
        down, across = self._shape
        self._top = moved_top(self._cursor, self._top, down * across, across)
        return keys[self._top : self._top + down * across]

    def open(self) -> None:
        """Show the plots that fit."""
        self.screen.show_view(self._rows)
        self.refresh()

    def refresh(self) -> None:
        """Read the curves that are in sight."""
        facts, keys, x = self.facts, self._visible(), self._look.x
        columns = max(40, 2 * (self.screen.view_size[0] // self._shape[1] - GUTTER))
        place = self.screen.place

        def take(found: dict[str, Curve]) -> None:
            if x == self._look.x:
                self._curves |= found
                self.screen.show_view(self._rows)

        self.read(
            lambda reader: read_curves(reader, facts, keys, x=x, columns=columns, place=place),
            take,
        )

    def resized(self) -> None:
        """Lay the plots out again."""
        self.open()

    def _rows(self, width: int, height: int) -> Rows:
        signs, keys = self.screen.main.marks, self._visible()
        shape = self._shape
        known = self.keys(self.facts)
        look = replace(self._look, selected=known[self._cursor] if known else "")
        blank = Curve(key="", own=None, base=None)
        plots = [
            plot_of(self._curves.get(key, replace(blank, key=key)), self.facts, look, signs,
                    width // shape[1])
            for key in keys
        ]  # fmt: skip
        return grid_rows(plots, shape, width, height, signs, ascii=self.screen.main.is_ascii)

    def act(self, key: str) -> bool:
        """Move over the metrics, and change how they are looked at."""
        if key in ("up", "down", "pageup", "pagedown"):
            down, across = self._shape
            by = {"up": -1, "down": 1, "pageup": -down * across, "pagedown": down * across}[key]
            self._cursor += by
            self._look = replace(self._look, crosshair=None)
        elif key in MOVES and (self._look.is_zoomed or key in ("home", "end")):
            self._move(key)
        elif key in ("left", "right"):
            self._cursor += MOVES[key]
        elif key == "enter":
            self._look = replace(self._look, is_zoomed=not self._look.is_zoomed, crosshair=None)
        elif key not in CHANGES or not self._change(key):
            return False
        self.open()
        return True

    def _move(self, key: str) -> None:
        keys = self.keys(self.facts)
        if not self._look.is_zoomed:
            self._cursor = 0 if key == "home" else len(keys) - 1
            return
        curve = self._curves.get(keys[self._cursor])
        line = curve.own or curve.base if curve is not None else None
        self._look = replace(self._look, crosshair=moved(line, self._look.crosshair, MOVES[key]))

    def _change(self, key: str) -> bool:
        look = self._look
        selected = self._visible()[self._cursor - self._top if not look.is_zoomed else 0]
        if key == "y":
            self._look = replace(look, turned=look.turned ^ {selected})
        elif key == "x":
            at = AXES[(AXES.index(look.x) + 1) % len(AXES)]
            if at == "tokens" and "train/tokens" not in self.facts.run.series:
                at = "time"
            self._look, self._curves = replace(look, x=at, crosshair=None), {}
        elif key in ("+", "-"):
            curve = self._curves.get(selected)
            num = curve.own.num_points if curve is not None and curve.own is not None else 0
            window = look.window if look.window is not None else default_window(num)
            window = next_window(window, 1 if key == "+" else -1)
            self._look = replace(look, window=window)
            self.screen.say(f"smoothed over {window:,} points" if window > 1 else "not smoothed")
        elif key == "e":
            self._look = replace(look, events=(look.events + 1) % 3)
        else:
            return False
        return True

    def back(self) -> bool:
        """Take the crosshair away, then make the plot small."""
        if self._look.crosshair is not None:
            self._look = replace(self._look, crosshair=None)
        elif self._look.is_zoomed:
            self._look = replace(self._look, is_zoomed=False)
        else:
            return False
        self.open()
        return True


class SystemTab(CurvesTab):
    """What the machine did."""

    NAME, SHORT = "System", "Sys"
    TEACHES = (
        "Nothing of the machine was logged.", 'run.log({"sys/gpu_util_pct": util}, step=step)',
    )  # fmt: skip
    MOST = 2

    def keys(self, facts: Facts) -> list[str]:
        """Return the metrics of the machine."""
        return system_keys(facts)


def moved(line: Line | None, at: float | None, by: int) -> float | None:
    """Return where a crosshair goes that snaps to the points of a line; None without any."""
    if line is None:
        return None
    good = np.flatnonzero(np.isfinite(line.mid))
    if not len(good):
        return None
    if at is None:
        place = len(good) - 1 if by >= -10 else 0
    else:
        place = int(np.argmin(np.abs(line.x[good] - at))) + by
    return float(line.x[good[max(0, min(len(good) - 1, place))]])
