"""How numbers, sizes, times and names look as text; the bottom layer, standard library only.

Invariant: pure functions of their arguments; nothing here reads the clock, the environment or a
terminal. Widths are terminal cells, not characters.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Final, Literal

from expdb.signs import ASCII as ASCII
from expdb.signs import STATE_GLYPHS as STATE_GLYPHS
from expdb.signs import UNICODE as UNICODE
from expdb.signs import Signs as Signs
from expdb.signs import StateLook as StateLook
from expdb.signs import signs as signs
from expdb.signs import to_ascii as to_ascii
from expdb.signs import use_ascii as use_ascii

MAX_DECIMALS: Final = 6
CONFIG_CELLS: Final = 24
SMALLEST: Final = 0.001
LARGEST: Final = 1e6
DAY_S: Final = 86_400
YAML_WORDS: Final = frozenset(
    ["", "~", "-", "null", "true", "false", "yes", "no", "on", "off", ".nan", ".inf", "-.inf"]
)
"""Texts that YAML would read as something else, so they stand in quotes."""

# --------------------------------------------------------------------------------------- names


def plain(text: str) -> str:
    r"""Return a name as visible text: control and format characters as `\x1b`, `\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(char) for char in text)


def _visible(char: str) -> str:
    if unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cells(text: str) -> int:
    """Return how many terminal cells `text` takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_char_cells(char) for char in text)


def _char_cells(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def _head(text: str, width: int) -> str:
    used = 0
    for at, char in enumerate(text):
        used += _char_cells(char)
        if used > width:
            return text[:at]
    return text


def _tail(text: str, width: int) -> str:
    used = 0
    for at in range(len(text) - 1, -1, -1):
        used += _char_cells(text[at])
        if used > width:
            return text[at + 1 :]
    return text


def cut_middle(text: str, width: int, ellipsis: str = "…") -> str:
    """Return `text` in at most `width` cells, cut in the middle: the ends of names differ."""
    if cells(text) <= width:
        return text
    room = width - cells(ellipsis)
    if room < 2:
        return _head(text, max(width, 0))
    return _head(text, (room + 1) // 2) + ellipsis + _tail(text, room // 2)


def cut_end(text: str, width: int, ellipsis: str = "…") -> str:
    """Return `text` in at most `width` cells, cut at its end: reasons say the main thing first."""
    if cells(text) <= width:
        return text
    room = width - cells(ellipsis)
    if room < 1:
        return _head(text, max(width, 0))
    return _head(text, room).rstrip() + ellipsis


def first_of(names: Sequence[str]) -> str:
    """Return the first of some names, and how many there are behind it: `val/ppl and 2 more`."""
    more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
    return plain(names[0]) + more


def short_id(run: str, length: int = 4) -> str:
    """Return the first characters of an id."""
    return run[:length]


def id_length(ids: Iterable[str], shortest: int = 4) -> int:
    """Return how many characters make every id unique, at least `shortest`."""
    near = sorted(set(ids))
    alike, length = list(pairwise(near)), shortest
    while alike := [(one, other) for one, other in alike if one[:length] == other[:length]]:
        length += 1
    return length


# ------------------------------------------------------------------------------------- numbers


def kind_of(key: str) -> Literal["metric", "rate", "count", "lr"]:
    """Return how values of a metric are written, by the unit in its name."""
    last = key.rsplit("/", 1)[-1]
    if last == "lr" or last.endswith("_lr") or last.startswith("lr_"):
        return "lr"
    if last.endswith("_per_s"):
        return "rate"
    if last.endswith(("_tokens", "_bytes", "_count")) or last in ("tokens", "bytes"):
        return "count"
    return "metric"


def decimals_for(values: Iterable[float | None]) -> int:
    """Return the decimals for all values of one metric: those of its largest finite one.

    Four digits in all (`5.587`, `0.460`, `41.20`), three significant ones below 0.1.
    """
    largest = max(
        (abs(value) for value in values if value is not None and math.isfinite(value)), default=0.0
    )
    if largest == 0:
        return 3
    exponent = math.floor(math.log10(largest))
    decimals = 3 - exponent if exponent >= 0 else 2 - exponent
    return min(max(decimals, 0), MAX_DECIMALS)


def metric(
    value: float | None, decimals: int | None = None, *, key: str = "", absent: str = "-"
) -> str:
    """Return a value: `1.848`, `18,420`, `3.2e-05`, `NaN`; `absent` where there is none."""
    if value is None:
        return absent
    if not math.isfinite(value):
        return nonfinite(value)
    kind = kind_of(key)
    if kind == "lr":
        return learning_rate(value)
    if kind == "rate":
        return rate(value)
    if kind == "count":
        return count(round(value))
    size = abs(value)
    if size >= LARGEST or 0 < size < SMALLEST:
        return f"{value:.1e}"
    return f"{value:,.{decimals_for([value]) if decimals is None else decimals}f}"


def nonfinite(value: float) -> str:
    """Return `NaN`, `Inf` or `-Inf`."""
    if math.isnan(value):
        return "NaN"
    return "Inf" if value > 0 else "-Inf"


def signed(delta: float | None, decimals: int = 3, *, key: str = "", absent: str = "-") -> str:
    """Return a delta with its sign in the metric's decimals: `+0.180`; a zero one has no sign."""
    if delta is None:
        return absent
    if not math.isfinite(delta):
        return nonfinite(delta)
    kind = kind_of(key)
    if kind == "lr":
        return "0" if delta == 0 else f"{delta:+.4g}"
    if kind in ("rate", "count"):
        text = rate(abs(delta)) if kind == "rate" else count(round(abs(delta)))
        return text if text.strip("0,") == "" else ("+" if delta > 0 else "-") + text
    if abs(delta) >= LARGEST or (decimals >= MAX_DECIMALS and 0 < abs(delta) < SMALLEST):
        return f"{delta:+.1e}"
    text = f"{abs(delta):,.{decimals}f}"
    if text.strip("0.,") == "":
        return text
    return ("+" if delta > 0 else "-") + text


def band(half_width: float | None, decimals: int = 3, *, pm: str = "±", key: str = "") -> str:
    """Return a 95 % half-width: `±0.022`; empty where none is known."""
    if half_width is None:
        return ""
    if 0 < half_width < 0.5 * 10**-decimals:
        return f"{pm}{half_width:.1e}"
    return pm + metric(half_width, decimals, key=key)


def percent(value: float | None, absent: str = "") -> str:
    """Return a change in percent with its sign: `+9.7 %`; `value` is in percent.

    From 1,000 on it is whole, from 10,000 on it has two digits, so that it fits its column.
    """
    if value is None or not math.isfinite(value):
        return absent
    large = abs(value)
    text = f"{large:.1e}" if large >= 9_999.5 else f"{large:,.{1 if large < 999.95 else 0}f}"
    if text == "0.0":
        return "0.0 %"
    text = text.replace("e+0", "e").replace("e+", "e")
    return f"{'+' if value > 0 else '-'}{text} %"


def learning_rate(value: float) -> str:
    """Return a learning rate with four significant digits."""
    return f"{value:.4g}"


def count(value: int) -> str:
    """Return a whole number with commas."""
    return f"{value:,}"


def rate(value: float) -> str:
    """Return a rate: whole below 100,000, else three digits and k, M, G."""
    return f"{value:,.0f}" if abs(value) < 99_999.5 else short_rate(value)


def short_rate(value: float) -> str:
    """Return a rate as three digits and a unit: `18.3k`."""
    return _three_digits(value, ("", "k", "M", "G", "T"))


def _three_digits(value: float, units: tuple[str, ...]) -> str:
    at = 0
    while at < len(units) - 1 and abs(value) >= 999.5:
        value /= 1000
        at += 1
    if at == 0:
        return f"{value:.0f}"
    size = abs(value)
    return f"{value:.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}{units[at]}"


def size(num_bytes: int) -> str:
    """Return a size in decimal units with two digits: `4.6 MB`, `141 MB`, `0 B`."""
    value = float(num_bytes)
    units = ("B", "kB", "MB", "GB", "TB", "PB")
    at = 0
    while at < len(units) - 1 and abs(value) >= 999.5:
        value /= 1000
        at += 1
    return f"{value:.{1 if at and abs(value) < 9.95 else 0}f} {units[at]}"


def config_value(value: Any, width: int | None = CONFIG_CELLS, ellipsis: str = "…") -> str:
    """Return a config value as YAML would write it, never rounded, cut above `width` cells."""
    text = plain(_yaml(value, nested=False))
    return text if width is None else cut_middle(text, width, ellipsis)


def _yaml(value: Any, *, nested: bool) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else _yaml_nonfinite(value)
    if isinstance(value, str):
        return _yaml_text(value, nested=nested)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_yaml(item, nested=True) for item in value) + "]"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key}: {_yaml(item, nested=True)}" for key, item in value.items())
        return "{" + inside + "}"
    return str(value)


def _yaml_nonfinite(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    return ".inf" if value > 0 else "-.inf"


def _yaml_text(text: str, *, nested: bool) -> str:
    unclear = text.lower() in YAML_WORDS or text != text.strip() or _is_number(text)
    if unclear or (nested and set(text) & set(",[]{}:")):
        return "'" + text.replace("'", "''") + "'"
    return text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# --------------------------------------------------------------------------------------- times


def duration(seconds: float) -> str:
    """Return a duration: `0.08s`, `0.4s`, `35s`, `4m12s`, `2h05m`, `3d04h`."""
    if seconds < 9.95:
        return f"{seconds:.{2 if 0 < seconds < 0.095 else 1}f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < DAY_S:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // DAY_S}d{whole % DAY_S // 3600:02d}h"


def age(then_ms: int, now_ms: int) -> str:
    """Return an age for a column: `20s 41m 5h 2d 6w`, from a year on the date."""
    seconds = max(0, now_ms - then_ms) // 1000
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m"
    if seconds < DAY_S:
        return f"{seconds // 3600}h"
    if seconds < 14 * DAY_S:
        return f"{seconds // DAY_S}d"
    if seconds < 365 * DAY_S:
        return f"{seconds // (7 * DAY_S)}w"
    return date(then_ms)


def ago(then_ms: int, now_ms: int) -> str:
    """Return an age for a sentence: `20 s ago`, `3 min ago`, `2 d ago`, `on 2025-11-28`."""
    seconds = max(0, now_ms - then_ms) // 1000
    if seconds < 60:
        return f"{seconds} s ago"
    if seconds < 3600:
        return f"{seconds // 60} min ago"
    if seconds < DAY_S:
        return f"{seconds // 3600} h ago"
    if seconds < 365 * DAY_S:
        return f"{seconds // DAY_S} d ago"
    return f"on {date(then_ms)}"


def date(then_ms: int) -> str:
    """Return the local date: `2026-11-28`."""
    return datetime.fromtimestamp(then_ms / 1000).strftime("%Y-%m-%d")


def eta(seconds: float | None) -> str:
    """Return the time left as a clock: `0:14`, `1:04:00`, `--:--` while it is not known."""
    if seconds is None or not math.isfinite(seconds):
        return "--:--"
    whole = max(0, round(seconds))
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
