"""The rules that are compared: those of monitoring guides and of other projects, and expdb's.

Each takes (step, loss, norm) and tells whether it is in alarm at that step.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from expdb.monitor.detector import FIRING
from expdb.monitor.engine import Monitor
from expdb.monitor.jump import Jump
from expdb.monitor.mean_ratio import MeanRatio
from expdb.monitor.rules import BUILT_IN, build_rules
from expdb.monitor.spike import Spike

Rule = Callable[[int, float, float], bool]
KEYS: Final = ("train/loss", "train/grad_norm")


def _detector(made: Any) -> Rule:
    def look(step: int, loss: float, norm: float) -> bool:
        reading = made.update(step, {made.keys[0]: loss})
        return reading is not None and reading.level >= FIRING

    return look


def mean_of_20() -> Rule:
    """Off the mean of the last 20 by 10 %."""
    last: deque[float] = deque(maxlen=20)

    def look(step: int, loss: float, norm: float) -> bool:
        mean = sum(last) / len(last) if last else loss
        last.append(loss)
        return abs(loss - mean) / abs(mean) > 0.1

    return look


def norm_over_10() -> Rule:
    """A gradient norm above 10."""
    return lambda step, loss, norm: norm > 10


def twice_the_mean() -> Rule:
    """At least twice the mean of the run, five steps in a row."""
    state = {"sum": 0.0, "num": 0.0, "row": 0.0}

    def look(step: int, loss: float, norm: float) -> bool:
        mean = state["sum"] / state["num"] if state["num"] else math.inf
        state["row"] = state["row"] + 1 if loss >= 2 * mean else 0
        state["sum"], state["num"] = state["sum"] + loss, state["num"] + 1
        return state["row"] >= 5

    return look


def six_sigma() -> Rule:
    """Six standard deviations above the mean of the last 128, of the loss or of the norm."""
    windows: tuple[deque[float], deque[float]] = (deque(maxlen=128), deque(maxlen=128))

    def look(step: int, loss: float, norm: float) -> bool:
        found = False
        for window, value in zip(windows, (loss, norm), strict=True):
            if len(window) == 128:
                mean = sum(window) / 128
                variance = sum([(one - mean) ** 2 for one in window]) / 128
                found |= value > mean + 6 * math.sqrt(variance)
            window.append(value)
        return found

    return look


def single_robust() -> Rule:
    """One step above six robust deviations."""
    return _detector(Spike("x", need=1))


def rules(*names: str, first_only: bool = True) -> Rule:
    """The built-in rules of these names: in alarm at a step at which one warns anew."""
    section = {name: name in names for name in BUILT_IN}
    monitor = Monitor(build_rules(section))

    def look(step: int, loss: float, norm: float) -> bool:
        found = monitor.update(step, KEYS, (loss, norm), step)
        return any(one.state == "open" and one.severity != "info" for one in found)

    return look


RIVALS: Final[Mapping[str, Callable[[], Rule]]] = {
    "mean of all, 10 %": lambda: _detector(MeanRatio("x")),
    "mean of 20, 10 %": mean_of_20,
    "+50 % in one step": lambda: _detector(Jump("x")),
    "norm > 10": norm_over_10,
    "twice the mean, 5 in a row": twice_the_mean,
    "6 sigma of 128": six_sigma,
    "robust z > 6, one step": single_robust,
    "D1+D2 (D3 confirms)": lambda: rules("non_finite", "loss_spike"),
    "D3": lambda: rules("grad_spike"),
    "D4": lambda: rules("divergence"),
    "D1+D2+D4": lambda: rules("non_finite", "loss_spike", "divergence"),
}
OURS: Final = "D1+D2+D4"
