"""Columns of Arrow as Python values."""

from __future__ import annotations

from typing import Any


def listed(column: Any) -> list[Any]:
    """Return the values of a column; as text where Python has no date or time for one of them."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        values = listed(column.dictionary)
        return [None if at is None else values[at] for at in column.indices.to_pylist()]
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):  # nanoseconds, `infinity`, the year 290000
        return list(column.cast(pa.string()).to_pylist())
