"""D2, `spike`, and D3, `log_spike`: a value far above the last ones, measured robustly.

One high step is an outlier, for the record. It is a spike when several of the last steps are high,
or when a value beside it (the gradient norm) rose as well; it grows grave when it does not come
back. One-sided, because a fall of the learning rate makes the loss drop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from expdb.monitor.detector import FIRING, GRAVE, NOTABLE, OK, Reading, number
from expdb.monitor.window import RobustWindow


class Spike:
    """Watches one key; `need` of the last `of` steps above `k` spreads make a spike.

    So does one, with a value of `confirm` above `confirm_k` spreads (of its logarithm, at least
    `confirm_floor`) in the last `confirm_within` steps, or one above `sure` spreads.
    """

    def __init__(
        self,
        key: str,
        *,
        window: int = 128,
        k: float = 6.0,
        floor: float = 0.02,
        start: int = 100,
        least: int = 50,
        need: int = 2,
        of: int = 3,
        sure: float = math.inf,
        confirm: str = "",
        confirm_k: float = 6.0,
        confirm_floor: float = 0.1,
        confirm_within: int = 3,
        worse_after: int = 50,
        back: float = 2.0,
        log: bool = False,
    ) -> None:
        self.keys = (key, confirm) if confirm else (key,)
        self._k, self._start, self._need, self._of = k, start, need, of
        self._sure, self._within = sure, confirm_within
        self._worse_after, self._back, self._learned_after = worse_after, back, window
        self._window = RobustWindow(size=window, k=k, floor=floor, least=least, log=log)
        self._beside = RobustWindow(
            size=window, k=confirm_k, floor=confirm_floor, least=least, log=True
        )
        self._hits: list[int] = []
        """Steps of the last `of` looks that were high."""
        self._num_seen = 0
        self._confirmed_at: int | None = None
        self._since: int | None = None
        self._limit = math.inf
        """What it must come back to, while it is in a spike."""
        self._num_calm = 0
        self._last_z = 0.0

    def update(self, step: int, values: Mapping[str, float], time_ms: int = 0) -> Reading | None:
        """Return how the value of this step lies to those before."""
        if len(self.keys) > 1:
            beside = values.get(self.keys[1])
            if (
                beside is not None
                and math.isfinite(beside)
                and self._beside.see(beside)
                and step >= self._start
            ):
                self._confirmed_at = step
        value = values.get(self.keys[0])
        if value is None or not math.isfinite(value):
            return None
        found = self._window.see(value)
        self._num_seen += 1
        if found is None or step < self._start:
            return self._calm(step, value) if self._since is not None else OK
        self._hits = [one for one in self._hits if one > self._num_seen - self._of]
        self._hits.append(self._num_seen)
        z = self._last_z = self._window.z(value, found)
        text = f"{self.keys[0]} {number(value)}, z {z:.1f} > {self._k:g}"
        self._num_calm = 0
        if self._since is None:
            near = self._confirmed_at is not None and step - self._confirmed_at <= self._within
            if len(self._hits) < self._need and not near and z <= self._sure:
                return Reading(NOTABLE, z, self._k, f"{text}, one step")
            self._since = step
            self._limit = self._window.border(found, self._back)
        return Reading(self._level(step), z, self._k, self._worded(step, text))

    def _calm(self, step: int, value: float) -> Reading:
        """Return what a step is that is not high, in a spike: back, or not yet."""
        self._num_calm += 1
        key = self.keys[0]
        if value <= self._limit or self._num_calm >= self._learned_after:
            text = f"{key} {number(value)}: back"
            if value > self._limit:
                text = f"{key} stays near {number(value)}, not back under {number(self._limit)}"
            self._since, self._limit, self._num_calm, self._hits = None, math.inf, 0, []
            return Reading(0, value, math.nan, text)
        text = f"{key} {number(value)} > {number(self._limit)}"
        return Reading(self._level(step), self._last_z, self._k, self._worded(step, text))

    def _level(self, step: int) -> int:
        assert self._since is not None
        return GRAVE if step - self._since >= self._worse_after else FIRING

    def _worded(self, step: int, text: str) -> str:
        return text if self._level(step) == FIRING else f"{text}: not back by {step}"

    def state_dict(self) -> dict[str, Any]:
        """Return the windows, and where a spike stands."""
        return {
            "window": self._window.state_dict(),
            "beside": self._beside.state_dict(),
            "hits": list(self._hits),
            "num_seen": self._num_seen,
            "confirmed_at": self._confirmed_at,
            "since": self._since,
            "limit": self._limit if math.isfinite(self._limit) else None,
            "num_calm": self._num_calm,
            "last_z": self._last_z,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._window.load_state_dict(state["window"])
        self._beside.load_state_dict(state["beside"])
        self._hits = [int(one) for one in state["hits"]]
        self._num_seen, self._num_calm = int(state["num_seen"]), int(state["num_calm"])
        self._confirmed_at, self._since = state["confirmed_at"], state["since"]
        self._limit = math.inf if state["limit"] is None else float(state["limit"])
        self._last_z = float(state["last_z"])
