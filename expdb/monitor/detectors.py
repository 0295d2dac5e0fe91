"""The detectors by the names that rules use, and what each of them can be told.

Invariant: a detector's parameters are the keyword arguments of its class; the type of a default is
the type of the parameter.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from expdb.errors import BadInput
from expdb.monitor.detector import Detector
from expdb.monitor.divergence import Divergence
from expdb.monitor.flat import Flat
from expdb.monitor.halvings import Halvings
from expdb.monitor.init import Init
from expdb.monitor.jump import Jump
from expdb.monitor.leak import Leak
from expdb.monitor.level_shift import LevelShift
from expdb.monitor.log_spike import LogSpike
from expdb.monitor.mean_ratio import MeanRatio
from expdb.monitor.misaligned import Misaligned
from expdb.monitor.no_gain import NoGain
from expdb.monitor.non_finite import NonFinite
from expdb.monitor.overfit import Overfit
from expdb.monitor.plateau import Plateau
from expdb.monitor.spike import Spike
from expdb.monitor.stall import Stall
from expdb.monitor.threshold import Threshold

DETECTORS: Final[Mapping[str, Callable[..., Detector]]] = {
    "non_finite": NonFinite,
    "spike": Spike,
    "log_spike": LogSpike,
    "divergence": Divergence,
    "level_shift": LevelShift,
    "plateau": Plateau,
    "overfit": Overfit,
    "no_gain": NoGain,
    "threshold": Threshold,
    "stall": Stall,
    "flat": Flat,
    "halvings": Halvings,
    "jump": Jump,
    "mean_ratio": MeanRatio,
    "init": Init,
    "leak": Leak,
    "misaligned": Misaligned,
}
MAY_BE_ZERO: Final = frozenset(["start", "skip", "confirm_within", "worse_after"])
LARGEST: Final = 1_000_000_000
"""Of a whole number: a window of more values is a slip."""


@cache
def parameters(detector: str) -> Mapping[str, Any]:
    """Return the parameters of a detector with their defaults."""
    found = inspect.signature(DETECTORS[detector]).parameters.values()
    return {one.name: one.default for one in found if one.kind is one.KEYWORD_ONLY}


def checked(detector: str, name: str, value: Any, where: str) -> Any:
    """Return a parameter's value as its detector takes it.

    Raises:
        BadInput: it is of another type, or out of range.
    """
    default = parameters(detector)[name]
    match default:
        case bool():
            if isinstance(value, bool):
                return value
            kind = "true or false"
        case str():
            if isinstance(value, str):
                return value
            kind = "a text"
        case int():
            least = 0 if name in MAY_BE_ZERO else 1
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            if is_whole and least <= value <= LARGEST:
                return value
            kind = f"a whole number of at least {least}"
        case _:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if is_number and not math.isnan(value):
                return float(value)
            kind = "a number"
    raise BadInput(f"{where} is {value!r:.60}, not {kind}")
