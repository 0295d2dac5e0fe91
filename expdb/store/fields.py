"""Typed fields of a decoded JSON object: what is there has the type that expdb writes, or is named.

Invariant: `Wrong` is the only error that a file of other types causes here, so that who reads files
catches nothing broader, and a mistake in our own code is never taken for a damaged file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

INT64 = 2**63
NONFINITE = frozenset(["NaN", "Infinity", "-Infinity"])
REQUIRED: Any = object()
Choice = TypeVar("Choice", bound=str)


class Wrong(ValueError):
    """A field is missing, or is not of the type that expdb writes; the message is its name."""


def text(data: Mapping[str, Any], name: str, default: Any = REQUIRED) -> str:
    """Return a text."""
    value = _get(data, name, default)
    if not isinstance(value, str):
        raise Wrong(name)
    return value


def whole(data: Mapping[str, Any], name: str, default: Any = REQUIRED) -> int:
    """Return a whole number of 64 bits."""
    return as_whole(_get(data, name, default), name)


def maybe_text(data: Mapping[str, Any], name: str) -> str | None:
    """Return a text, or None where it is null or absent."""
    return None if data.get(name) is None else text(data, name)


def maybe_whole(data: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number, or None where it is null or absent."""
    return None if data.get(name) is None else whole(data, name)


def flag(data: Mapping[str, Any], name: str, default: Any = REQUIRED) -> bool:
    """Return true or false."""
    value = _get(data, name, default)
    if not isinstance(value, bool):
        raise Wrong(name)
    return value


def real(data: Mapping[str, Any], name: str) -> float:
    """Return a number, the three strings of `encode_json` included."""
    return as_real(_get(data, name, REQUIRED), name)


def maybe_real(data: Mapping[str, Any], name: str) -> float | None:
    """Return a number, or None where it is null or absent."""
    return None if data.get(name) is None else real(data, name)


def mapping(data: Mapping[str, Any], name: str, default: Any = REQUIRED) -> dict[str, Any]:
    """Return an object."""
    return as_mapping(_get(data, name, default), name)


def mappings(
    data: Mapping[str, Any], name: str, default: Any = REQUIRED
) -> dict[str, dict[str, Any]]:
    """Return an object of objects."""
    return {key: as_mapping(item, name) for key, item in mapping(data, name, default).items()}


def texts(data: Mapping[str, Any], name: str, default: Any = REQUIRED) -> tuple[str, ...]:
    """Return a list of texts."""
    values = items(data, name, default)
    if not all(isinstance(item, str) for item in values):
        raise Wrong(name)
    return tuple(values)


def items(data: Mapping[str, Any], name: str, default: Any = REQUIRED) -> list[Any]:
    """Return a list."""
    value = _get(data, name, default)
    if not isinstance(value, (list, tuple)):
        raise Wrong(name)
    return list(value)


def choice(
    data: Mapping[str, Any], name: str, allowed: Iterable[Choice], default: Choice
) -> Choice:
    """Return one of the allowed texts."""
    value = data.get(name, default)
    for item in allowed:
        if item == value:
            return item
    raise Wrong(name)


def as_whole(value: Any, name: str) -> int:
    """Return a value that must be a whole number of 64 bits."""
    if not isinstance(value, int) or isinstance(value, bool) or not -INT64 <= value < INT64:
        raise Wrong(name)
    return value


def as_real(value: Any, name: str) -> float:
    """Return a value that must be a number, or one of the three strings for non-finite ones."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number and not (isinstance(value, str) and value in NONFINITE):
        raise Wrong(name)
    try:
        return float(value)
    except OverflowError:
        raise Wrong(name) from None


def as_mapping(value: Any, name: str) -> dict[str, Any]:
    """Return a value that must be an object."""
    if not isinstance(value, dict):
        raise Wrong(name)
    return value


def _get(data: Mapping[str, Any], name: str, default: Any) -> Any:
    value = data.get(name, default)
    if value is REQUIRED:
        raise Wrong(name)
    return value
