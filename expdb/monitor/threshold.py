"""D8, `threshold`: a value beyond a fixed border for some steps or seconds.

A second border makes it grave. With `beside` it fires only where another value is beyond a border
of its own; with `confirm` one step is enough when that value is an outlier at the same step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from expdb.monitor.detector import FIRING, GRAVE, NOTABLE, OK, Reading, number
from expdb.monitor.window import RobustWindow

_Since = tuple[int, int, int]
"""The first step and time beyond a border, and how many looks since."""


class Threshold:
    """Watches one key; `above` or `below` are the borders, the `grave_` ones those of critical.

    It must be beyond for `for_steps` steps, `for_samples` looks in a row and `for_s` seconds. With
    `note_first` a shorter time is for the record. With `per` the value is divided by that one, with
    `of_first` by the first one of all.
    """

    def __init__(
        self,
        key: str,
        *,
        above: float = math.inf,
        below: float = -math.inf,
        grave_above: float = math.inf,
        grave_below: float = -math.inf,
        for_steps: int = 1,
        for_samples: int = 1,
        for_s: float = 0.0,
        note_first: bool = False,
        confirm: str = "",
        beside: str = "",
        beside_above: float = -math.inf,
        per: str = "",
        of_first: bool = False,
    ) -> None:
        self.keys = tuple(one for one in (key, confirm, beside, per) if one)
        self._confirm, self._beside_key, self._per = confirm, beside, per
        self._of_first = of_first
        self._above, self._below = above, below
        self._grave_above, self._grave_below = grave_above, grave_below
        self._for, self._for_ms = (for_steps, for_samples), for_s * 1000
        self._note_first = note_first
        self._beside_above = beside_above
        self._since: _Since | None = None
        self._grave: _Since | None = None
        self._beside = -math.inf
        self._first: float | None = None
        self._window = RobustWindow(size=128, k=6.0, floor=0.02, least=50)
        self._outlier_at: int | None = None

    def update(self, step: int, values: Mapping[str, float], time_ms: int = 0) -> Reading | None:
        """Return whether the value is beyond a border, and has been long enough."""
        self._look_beside(step, values)
        value = self._value(values)
        if value is None:
            return None
        if not (value > self._above or value < self._below):
            self._since = self._grave = None
            return OK
        self._since = _longer(self._since, step, time_ms)
        is_grave = value > self._grave_above or value < self._grave_below
        self._grave = _longer(self._grave, step, time_ms) if is_grave else None
        if self._beside_key and not self._beside > self._beside_above:
            return OK
        text, border = self._text(value, is_grave), self._border(value, is_grave)
        if self._grave is not None and self._is_long(self._grave, step, time_ms):
            return Reading(GRAVE, value, border, text)
        sudden = bool(self._confirm) and self._outlier_at == step
        if sudden or self._is_long(self._since, step, time_ms):
            return Reading(FIRING, value, border, text)
        return Reading(NOTABLE, value, border, f"{text}, not for long") if self._note_first else OK

    def _value(self, values: Mapping[str, float]) -> float | None:
        """Return what is compared at this step; None where it is not there, or not finite."""
        value = values.get(self.keys[0])
        if value is None or not math.isfinite(value):
            return None
        if self._per:
            whole = values.get(self._per)
            if whole is None or not math.isfinite(whole) or whole == 0:
                return None
            return value / whole
        if not self._of_first:
            return value
        if self._first is None:
            self._first = value
        return value / self._first if self._first else None

    def _is_long(self, since: _Since, step: int, time_ms: int) -> bool:
        first_step, first_ms, num = since
        steps, samples = self._for
        long = step - first_step + 1 >= steps and num >= samples
        return long and time_ms - first_ms >= self._for_ms

    def _look_beside(self, step: int, values: Mapping[str, float]) -> None:
        if self._confirm:
            found = values.get(self._confirm)
            if found is not None and math.isfinite(found) and self._window.see(found) is not None:
                self._outlier_at = step
        if self._beside_key:
            found = values.get(self._beside_key)
            if found is not None and math.isfinite(found):
                self._beside = found

    def _border(self, value: float, grave: bool) -> float:
        if value > self._above:
            return self._grave_above if grave else self._above
        return self._grave_below if grave else self._below

    def _text(self, value: float, grave: bool) -> str:
        sign = ">" if value > self._above else "<"
        key = f"{self.keys[0]} / {self._per}" if self._per else self.keys[0]
        key += " of its first" if self._of_first else ""
        said = f"{key} {number(value)} {sign} {number(self._border(value, grave))}"
        num = self._since[2] if self._since is not None else 1
        said += f", {num:,} in a row" if num > 1 else ""
        if self._beside_key:
            said += f"; {self._beside_key} {number(self._beside)}"
        return said

    def state_dict(self) -> dict[str, Any]:
        """Return since when it is beyond the border."""
        return {
            "since": None if self._since is None else list(self._since),
            "grave": None if self._grave is None else list(self._grave),
            "beside": self._beside if math.isfinite(self._beside) else None,
            "first": self._first,
            "window": self._window.state_dict(),
            "outlier_at": self._outlier_at,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._since, self._grave = (
            None if state[name] is None else tuple(state[name]) for name in ("since", "grave")
        )
        self._beside = -math.inf if state["beside"] is None else float(state["beside"])
        self._first, self._outlier_at = state["first"], state["outlier_at"]
        self._window.load_state_dict(state["window"])


def _longer(since: _Since | None, step: int, time_ms: int) -> _Since:
    return (step, time_ms, 1) if since is None else (since[0], since[1], since[2] + 1)
