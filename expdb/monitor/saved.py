"""States of detectors as strict JSON has them: three texts stand for the numbers it lacks."""

from __future__ import annotations

import math
from typing import Any, Final

TEXTS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def restored(value: Any) -> Any:
    """Return a value of `store.files.plain` with its numbers as they were."""
    if isinstance(value, str):
        return TEXTS.get(value, value)
    if isinstance(value, dict):
        return {key: restored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [restored(item) for item in value]
    return value
