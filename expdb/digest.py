"""The canonical JSON of a composed config and its digest; standard library only.

Canonical JSON (digest version 1), ASCII, no spaces, keys sorted:

    text, true, false, null      as JSON has them; text that looks like a number stays text
    int                          exact
    float                        a whole one below 2^53 as an int (1 = 1.0), else `repr`; nan, inf: {"$float": "nan"}
    list, tuple                  alike
    mapping                      text keys as they are, a leading `$` doubled; other keys typed: `$i1`, `$f0.5`, `$btrue`, `$n`
    missing (`???`)              {"$missing": true}; the text '???' cannot be typed in OmegaConf
    stubbed, unresolved, secret  {"$stub": text}, {"$unresolved": text}, {"$secret": true}; bytes {"$bytes": hex}

Invariant: equal canonical text if and only if the configs are equal in type and value; the digest is
`v1:` + SHA-256 of the canonical text without the seed key and the ignored keys.
"""

from __future__ import annotations

import enum
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any

VERSION = "v1"
EXACT = 2**53


@dataclass(frozen=True, slots=True)
class Missing:
    """A mandatory value that nobody gave."""

    def __str__(self) -> str:
        return "???"


@dataclass(frozen=True, slots=True)
class Stub:
    """A value that differs from start to start by design: a time, an output folder."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Unresolved:
    """An interpolation that cannot be resolved, and why."""

    text: str
    reason: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Secret:
    """A redacted value."""

    def __str__(self) -> str:
        return "<redacted>"


Marker = Missing | Stub | Unresolved | Secret


def canonical(tree: Any) -> str:
    """Return the canonical JSON text of a config tree (see the module's docstring)."""
    return json.dumps(_encode(tree), sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(text: str, *, ignore: Sequence[str] = (), seed_key: str = "seed") -> str:
    """Return `v1:<sha256>` of a canonical text without the seed key and the ignored keys.

    A name in `ignore` leaves out that key and all below it; `*` matches within it.
    """
    tree = _without(json.loads(text), [*ignore, seed_key], "")
    body = json.dumps(tree, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"{VERSION}:{hashlib.sha256(body.encode()).hexdigest()}"


def flatten(text: str) -> dict[str, Any]:
    """Return dotted key -> value of a canonical text, sorted; lists and empty mappings are leaves."""
    out: dict[str, Any] = {}
    _flatten(json.loads(text), "", out)
    return dict(sorted(out.items()))


def counted(text: str, *, ignore: Sequence[str] = (), seed_key: str = "seed") -> dict[str, Any]:
    """Return `flatten(text)` without the seed and the ignored keys: what the digest is about."""
    names = [*ignore, seed_key]
    return {key: value for key, value in flatten(text).items() if not ignored(key, names)}


def ignored(key: str, names: Sequence[str]) -> bool:
    """Tell whether a dotted key, or one above it, is named in `names`."""
    parts = key.split(".")
    above = [".".join(parts[: count + 1]) for count in range(len(parts))]
    return any(fnmatchcase(path, name) for name in names for path in above)


def _encode(value: Any) -> Any:
    match value:
        case None | bool() | str():
            return str(value) if type(value) is not str and isinstance(value, str) else value
        case enum.Enum():
            return value.name
        case int():
            return int(value)
        case float():
            return _encode_float(float(value))
        case Missing():
            return {"$missing": True}
        case Secret():
            return {"$secret": True}
        case Stub():
            return {"$stub": value.text}
        case Unresolved():
            return {"$unresolved": value.text}
        case bytes():
            return {"$bytes": value.hex()}
        case PurePath():
            return str(value)
        case Mapping():
            return {_encode_key(key): _encode(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
            return [_encode(item) for item in items]
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "ndim", 0) == 0:  # a numpy or torch scalar
        return _encode(item())
    return {"$unresolved": f"{type(value).__module__}.{type(value).__qualname__}"}


def _encode_float(value: float) -> Any:
    if not math.isfinite(value):
        return {"$float": repr(value)}
    if value.is_integer() and abs(value) < EXACT:
        return int(value)
    return value


def _encode_key(key: Any) -> str:
    match key:
        case enum.Enum():
            return _encode_key(key.name)
        case str():
            return f"${key}" if key.startswith("$") else str(key)
        case bool():
            return f"$b{str(key).lower()}"
        case int():
            return f"$i{key}"
        case None:
            return "$n"
    return f"$f{key!r}"


def _decode_key(key: str) -> str:
    if not key.startswith("$"):
        return key
    if key.startswith("$$"):
        return key[1:]
    return "null" if key == "$n" else key[2:]


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (key, item), *_ = value.items()
        match key:
            case "$missing":
                return Missing()
            case "$secret":
                return Secret()
            case "$stub":
                return Stub(item)
            case "$unresolved":
                return Unresolved(item)
            case "$float":
                return float(item)
            case "$bytes":
                return bytes.fromhex(item)
    return {_decode_key(key): _decode(item) for key, item in value.items()}


def _flatten(node: Any, prefix: str, out: dict[str, Any]) -> None:
    value = _decode(node)
    if not isinstance(value, dict) or not value:
        out[prefix] = value
        return
    for key, item in node.items():
        name = _decode_key(key)
        _flatten(item, f"{prefix}.{name}" if prefix else name, out)


def _without(node: Any, names: Sequence[str], prefix: str) -> Any:
    if not isinstance(node, dict):
        return node
    out = {}
    for key, item in node.items():
        name = _decode_key(key)
        path = f"{prefix}.{name}" if prefix else name
        if not any(fnmatchcase(path, pattern) for pattern in names):
            out[key] = _without(item, names, path)
    return out
