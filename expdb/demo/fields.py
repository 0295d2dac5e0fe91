"""Reads one section of a config into its frozen dataclass.

Invariant: the dataclass is the only list of keys. A key that it lacks, a missing value and a
value of the wrong type are `BadInput` naming `section.key`; nothing is ignored in silence.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from expdb.errors import BadInput

T = TypeVar("T")

MISSING = "???"
"""How a config spells a value that the user has to give."""
WANTED: Mapping[Any, str] = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple[int, ...]: "a list of whole numbers",
    tuple[float, ...]: "a list of numbers",
    dict[str, float]: "a mapping of names to numbers",
}


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint naming the known word closest to `word`, or all of them when none is close."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"nearest: `{close[0]}`" if close else f"known: {', '.join(names)}"


def read_kind(section: str, config: Mapping[str, Any], kinds: Mapping[str, type[T]]) -> T:
    """Return the config dataclass that `config["kind"]` names, filled from `config`.

    Raises: BadInput for a missing or unknown kind, and for what `read_fields` refuses.
    """
    kind = config.get("kind")
    if not isinstance(kind, str):
        raise BadInput(f"`{section}.kind` is missing", hint=f"known: {', '.join(sorted(kinds))}")
    if kind not in kinds:
        raise BadInput(f"unknown `{section}.kind` `{kind}`", hint=nearest(kind, kinds))
    return read_fields(section, config, kinds[kind])


def read_fields(section: str, config: Mapping[str, Any], into: type[T]) -> T:
    """Return `into(**config)` with every key and type checked; ints are accepted as floats.

    Raises: BadInput for an unknown key, a missing value, or a value of the wrong type.
    """
    hints = get_type_hints(into)
    required = {
        field.name
        for field in dataclasses.fields(into)  # type: ignore[arg-type]
        if field.default is field.default_factory is dataclasses.MISSING
    }
    given = {str(key) for key in config}
    for key in sorted(given - set(hints)):
        raise BadInput(f"unknown key `{section}.{key}`", hint=nearest(key, hints))
    # `get` returns None for an OmegaConf value that is still `???`, where indexing raises.
    values = {key: config.get(key) for key in given}
    absent = {key for key, value in values.items() if isinstance(value, str) and value == MISSING}
    absent |= {key for key in required if values.get(key) is None}
    for key in sorted(absent):
        raise BadInput(f"`{section}.{key}` has no value", hint=f"give {section}.{key}=VALUE")
    return into(**{key: _typed(f"{section}.{key}", values[key], hints[key]) for key in given})


def _typed(name: str, value: Any, hint: Any) -> Any:
    """Return `value` as its hint says: a scalar, `X | None`, `tuple[X, ...]` or `dict[str, X]`."""
    inner = get_args(hint)
    if type(None) in inner:
        return None if value is None else _typed(name, value, inner[0])
    if get_origin(hint) is tuple and isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_typed(f"{name}[{i}]", item, inner[0]) for i, item in enumerate(value))
    if get_origin(hint) is dict and isinstance(value, Mapping):
        return {str(key): _typed(f"{name}.{key}", value[key], inner[1]) for key in value}
    if hint in (str, bool) and isinstance(value, hint):
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise BadInput(f"`{name}` must be {WANTED[hint]}, not {value!r}")
