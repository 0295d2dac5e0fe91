"""Series for detectors, and what they make of them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from expdb.monitor.detector import FIRING, Reading
from expdb.monitor.detectors import DETECTORS
from expdb.monitor.engine import Monitor
from expdb.monitor.finding import Finding
from expdb.monitor.rules import build_rules


def readings(
    detector: str, values: Iterable[float], *, first: int = 0, key: str = "x", **params: Any
) -> list[tuple[int, Reading]]:
    """Return (step, reading) of each step at which a detector of one key said something."""
    made = DETECTORS[detector](key, **params)
    found = ((step, made.update(step, {key: value})) for step, value in enumerate(values, first))
    return [(step, reading) for step, reading in found if reading is not None]


def levels(detector: str, values: Iterable[float], **params: Any) -> list[int]:
    return [reading.level for _, reading in readings(detector, values, **params)]


def fired(detector: str, values: Iterable[float], **params: Any) -> list[int]:
    found = readings(detector, values, **params)
    return [step for step, reading in found if reading.level >= FIRING]


def noisy(level: float, num: int, sd: float = 0.03, *, seed: int = 0) -> list[float]:
    draw = random.Random(seed)
    return [draw.gauss(level, sd) for _ in range(num)]


def rows_of(
    loss: Sequence[float],
    norm: Sequence[float] | None = None,
    *,
    first: int = 0,
    rate: float = 3e-4,
) -> list[dict[str, float]]:
    """Return what a loop logs, step after step."""
    norms = norm or [0.25 * math.exp(one) for one in noisy(0.0, len(loss), 0.05, seed=1)]
    return [
        {"train/loss": one, "train/grad_norm": two, "train/lr": rate}
        for one, two in zip(loss, norms, strict=True)
    ]


def found_in(
    rows: Sequence[Mapping[str, float]],
    section: Any = None,
    *,
    first: int = 0,
    monitor: Monitor | None = None,
    step_ms: int = 1000,
) -> list[Finding]:
    """Return what the rules of a section say of rows, one a step."""
    monitor = monitor or Monitor(build_rules(section))
    found: list[Finding] = []
    for step, row in enumerate(rows, first):
        found += monitor.update(step, tuple(row), tuple(row.values()), step * step_ms)
    return found


def only(**section: Any) -> dict[str, Any]:
    """Return a section that switches all built-in rules off but those given."""
    from expdb.monitor.rules import BUILT_IN

    return {name: False for name in BUILT_IN} | section


def told(found: Iterable[Finding]) -> list[tuple[int, str, str, str]]:
    return [(one.step, one.severity, one.rule, one.state) for one in found]
