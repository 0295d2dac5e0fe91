"""One alert of one rule about one metric: opened once, however often the rule fires.

    closed --fires--> open --worse--> open --fine for `clear` looks--> closed

Invariant: 500 firings in a row are one line that opens and one that ends it. Within `cooldown`
steps of its end an alert does not open again unless it is worse than it was; what fires there is
counted in the next line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from expdb.monitor.detector import FINE, FIRING, NOTABLE, Reading
from expdb.monitor.finding import State


class Line(NamedTuple):
    """What an alert says at a step."""

    state: State
    level: int
    opened: int
    num: int


class Alert:
    """Where one alert stands."""

    def __init__(self, *, clear: int, cooldown: int, cap: int) -> None:
        self._clear, self._cooldown, self._cap = clear, cooldown, cap
        self._level = FINE
        """The worst level since it opened; FINE while it is closed."""
        self._opened = 0
        self._is_said = False
        """Whether it was said that it is open: not so one that opened again too soon."""
        self._num_fine = 0
        self._num = 0
        self._quiet_until: int | None = None
        self._last_level = FINE
        """The worst level before it was closed."""
        self._noted_until: int | None = None
        self._num_said = 0

    def update(self, step: int, reading: Reading) -> Line | None:
        """Take what a detector made of a step; return what is to be said of it."""
        level = reading.level
        if level >= FIRING:
            self._num += 1
            self._num_fine = 0
            return self._fires(step, level)
        if self._level != FINE and level == FINE:
            self._num_fine += 1
            return self._ends(step) if self._num_fine >= self._clear else None
        if level == NOTABLE and self._level == FINE:
            return self._notes(step)
        return None

    def _fires(self, step: int, level: int) -> Line | None:
        if self._level == FINE:
            quiet = self._quiet_until is not None and step < self._quiet_until
            self._level, self._opened = level, step
            self._is_said = not quiet or level > self._last_level
            return self._line("open", level) if self._is_said else None
        if level <= self._level:
            return None
        self._level = level
        if self._is_said:
            return self._line("worse", level)
        if level <= self._last_level:
            return None
        self._is_said = True
        return self._line("open", level)

    def _ends(self, step: int) -> Line | None:
        line = self._line("over", FINE) if self._is_said else None
        if self._is_said:
            self._last_level, self._quiet_until = self._level, step + self._cooldown
        self._level, self._num_fine, self._is_said = FINE, 0, False
        return line

    def _notes(self, step: int) -> Line | None:
        if self._noted_until is not None and step < self._noted_until:
            return None
        self._noted_until = step + self._cooldown
        self._opened = step
        return self._line("", NOTABLE)

    def _line(self, state: State, level: int) -> Line | None:
        """Return a line, up to the cap; one that ends what was said always comes."""
        self._num_said += 1
        if self._num_said > self._cap and state in ("", "open"):
            self._is_said = False
            return None
        line = Line(state, level, self._opened, self._num)
        self._num = 0
        return line

    def state_dict(self) -> dict[str, Any]:
        """Return where it stands; empty for one that was never anything but fine."""
        if not self._num_said and self._level == FINE and not self._num:
            return {}
        return {
            name: getattr(self, f"_{name}")
            for name in (
                "level", "opened", "is_said", "num_fine", "num", "quiet_until", "last_level",
                "noted_until", "num_said",
            )
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        for name, value in state.items():
            setattr(self, f"_{name}", value)
