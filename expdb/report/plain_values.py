"""Columns of Arrow as values that JSON has: times as ISO text, bytes as hex, durations in seconds.

What Python has no value for is text too: 24:00:00, infinity, the year 290000, nanoseconds.
"""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final

DAY_S: Final = 86_400
UNITS: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
LARGEST: Final = {32: 2**31 - 1, 64: 2**63 - 1}
"""A date or time of so many bits is infinite there."""
ERA_DAYS: Final = 146_097
"""Days of 400 years, after which the calendar begins anew."""
EPOCH: Final = date(1970, 1, 1).toordinal()


def plain_values(column: Any) -> list[Any]:
    """Return the values of a column; non-finite floats stay what they are."""
    import pyarrow as pa

    kind = column.type
    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return list(column.to_pylist())
    if types.is_dictionary(kind):
        values = plain_values(column.dictionary)
        return [None if at is None else values[at] for at in column.indices.to_pylist()]
    if types.is_date(kind) or types.is_timestamp(kind) or types.is_time(kind):
        return _times(column)
    if types.is_union(kind):
        inner = [plain_values(column.field(at)) for at in range(kind.num_fields)]
        return [inner[code][at] for at, code in enumerate(column.type_codes.to_pylist())]
    if types.is_struct(kind):
        return _mappings(column)
    if types.is_map(kind):
        keys, items = plain_values(column.keys), plain_values(column.items)
        return _parted(column, [list(pair) for pair in zip(keys, items, strict=True)])
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _lists(column)
    return [_plain(value) for value in column.to_pylist()]


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Decimal():
            return _number(value)
        case bytes():
            return value.hex()
        case timedelta():
            return value.total_seconds()
    return str(value)


def _number(value: Decimal) -> int | float | str:
    """Return a decimal as a number where that is the same one, else as text."""
    if value == value.to_integral_value():
        return int(value)
    made = float(value)
    return made if Decimal(repr(made)) == value else str(value)


def _mappings(column: Any) -> list[Any]:
    names = [column.type.field(at).name for at in range(column.type.num_fields)]
    inner = [plain_values(column.field(at)) for at in range(len(names))]
    rows = zip(*inner, strict=True) if inner else ((),) * len(column)
    return [
        dict(zip(names, row, strict=True)) if is_there else None
        for is_there, row in zip(column.is_valid().to_pylist(), rows, strict=True)
    ]


def _lists(column: Any) -> list[Any]:
    import pyarrow as pa

    if pa.types.is_fixed_size_list(column.type):
        size = column.type.list_size
        # `flatten` leaves out what stands below a null.
        left = iter(plain_values(column.flatten()))
        return [
            [next(left) for _ in range(size)] if is_there else None
            for is_there in column.is_valid().to_pylist()
        ]
    return _parted(column, plain_values(column.values))


def _parted(column: Any, values: list[Any]) -> list[Any]:
    """Return the lists of a column whose values, of all rows together, are given."""
    offsets = column.offsets.to_pylist()
    return [
        values[offsets[at] : offsets[at + 1]] if is_there else None
        for at, is_there in enumerate(column.is_valid().to_pylist())
    ]


def _times(column: Any) -> list[str | None]:
    """Return dates, times of day and moments as ISO text; moments with a zone in UTC."""
    import pyarrow as pa

    kind, types = column.type, pa.types
    bits = kind.bit_width
    whole = column.cast(pa.int32() if bits == 32 else pa.int64()).to_pylist()
    if types.is_date(kind):
        per_day = 1 if bits == 32 else DAY_S * 1000
        return [_of_day(value, per_day, LARGEST[bits]) for value in whole]
    unit = UNITS[kind.unit]
    if types.is_time(kind):
        return [None if value is None else _clock(value, unit) for value in whole]
    zone = "+00:00" if kind.tz else ""
    return [_moment(value, unit, zone) for value in whole]


def _of_day(value: int | None, per_day: int, infinite: int) -> str | None:
    if value is None:
        return None
    return _infinity(value, infinite) or _day(value // per_day)


def _moment(value: int | None, unit: int, zone: str) -> str | None:
    if value is None:
        return None
    days, rest = divmod(value, DAY_S * unit)
    return _infinity(value, LARGEST[64]) or f"{_day(days)}T{_clock(rest, unit)}{zone}"


def _infinity(value: int, infinite: int) -> str:
    if abs(value) != infinite:
        return ""
    return "infinity" if value > 0 else "-infinity"


def _day(days: int) -> str:
    """Return a day, counted from 1970, by the calendar of today in all times."""
    eras, days = divmod(days + EPOCH - 1, ERA_DAYS)
    found = date.fromordinal(days + 1)
    year = found.year + 400 * eras
    text = f"{year if year > 0 else 1 - year:04}-{found.month:02}-{found.day:02}"
    return text if year > 0 else f"{text} (BC)"


def _clock(value: int, unit: int) -> str:
    seconds, rest = divmod(value, unit)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if not rest:
        return text
    nanos = rest * (1_000_000_000 // unit)
    micros, nanos = divmod(nanos, 1000)
    return f"{text}.{micros:06}{nanos:03}" if nanos else f"{text}.{micros:06}"
