"""What a run declares that it must reach: the section `gates` of its settings.

Invariant: a gate has a mark that is finite, or two of which the lower is not above the upper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from expdb.errors import BadInput

Reading = Literal["last", "best", "mean_last_3", "min", "max"]
READINGS: Final[tuple[str, ...]] = get_args(Reading)
KEYS: Final = ("min", "max", "reading")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The marks that one metric must keep to; a value at its mark keeps to it."""

    metric: str
    low: float | None = None
    """The least value that passes; None where there is no lower mark."""
    high: float | None = None
    """The greatest value that passes; None where there is no upper mark."""
    reading: Reading = "last"
    """Which value counts; `best` is the one that lies farthest on the side that passes."""

    @property
    def mode(self) -> Literal["min", "max"]:
        """The direction that passes."""
        return "max" if self.high is None else "min"


def gates_of(section: Any, name: str = "gates") -> tuple[Gate, ...]:
    """Return the gates of a `gates` section, in its order: {"val/loss": {"max": 1.9}}.

    Args:
        section: metric -> {min, max, reading}, with one mark or both.
        name: what errors call the section.

    Raises:
        BadInput: it is no such mapping; the message names the key.
    """
    if not isinstance(section, Mapping):
        raise BadInput(
            f"{name} is {section!r}, not a mapping", hint=f"{name}: {{val/loss: {{max: 1.9}}}}"
        )
    return tuple(_gate(metric, marks, f"{name}.{metric}") for metric, marks in section.items())


def kept_gates(settings: Mapping[str, Any]) -> tuple[Gate, ...]:
    """Return the gates that a run kept; none where what it kept are none."""
    try:
        return gates_of(settings.get("gates") or {})
    except BadInput:
        return ()


def _gate(metric: Any, marks: Any, name: str) -> Gate:
    if not isinstance(metric, str) or not metric:
        raise BadInput(f"{name} is not the name of a metric", hint="gates: {val/loss: {max: 1.9}}")
    if not isinstance(marks, Mapping):
        raise BadInput(f"{name} is {marks!r}, not a mapping", hint=f"{name}: {{max: 1.9}}")
    for key in marks:
        if key not in KEYS:
            raise BadInput(f"{name} has no key {key!r}", hint=f"its keys are: {' '.join(KEYS)}")
    low, high = _mark(marks.get("min"), f"{name}.min"), _mark(marks.get("max"), f"{name}.max")
    reading = marks.get("reading", "last")
    if reading not in READINGS:
        raise BadInput(f"{name}.reading is {reading!r}", hint=f"it is one of: {' '.join(READINGS)}")
    if low is None and high is None:
        raise BadInput(f"{name} has no mark", hint=f"{name}: {{max: 1.9}} or {{min: 0.4}}")
    if low is not None and high is not None:
        if low > high:
            raise BadInput(f"{name}.min is {low!r}, above {name}.max, which is {high!r}")
        if reading == "best":
            raise BadInput(
                f"{name} has both min and max, so none of its values is the best",
                hint=f"{name}.reading: last",
            )
    return Gate(metric=metric, low=low, high=high, reading=reading)


def _mark(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            mark = float(value)
        except OverflowError:
            mark = math.inf
        if math.isfinite(mark):
            return mark
    raise BadInput(f"{name} is {value!r}, not a finite number")
