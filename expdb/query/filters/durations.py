"""Times as filters take them: `2d`, `1d12h`, `2026-11-28`."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

_UNITS_MS: Final = {
    "w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000,
}  # fmt: skip
_PARTS: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*([wdhms])\s*")


def duration_ms(text: str) -> int | None:
    """Return a duration of weeks, days, hours, minutes, seconds (`2d`, `5h 30m`) in milliseconds;
    None for another text.
    """
    at, total = 0, 0.0
    text = text.strip()
    while at < len(text):
        part = _PARTS.match(text, at)
        if part is None:
            return None
        total += float(part[1]) * _UNITS_MS[part[2]]
        at = part.end()
    return round(total) if text else None


def moment_ms(text: str) -> int | None:
    """Return a date or time in ISO form, local unless it says otherwise, in UTC milliseconds; None
    for another text.
    """
    if not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) or not text.isascii():
        return None
    try:
        return round(datetime.fromisoformat(text.strip()).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None
