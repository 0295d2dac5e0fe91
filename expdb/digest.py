"""The canonical JSON of a composed config and its digest; standard library only.

Canonical JSON (digest version 1), ASCII, no spaces, keys sorted:

    text, true, false, null      as JSON has them; text that looks like a number stays text
    int                          exact
    float                        a whole one below 2^53 as an int (1 = 1.0), else `repr`
    nan, inf                     {"$float": "nan"}
    list, tuple                  alike
    mapping                      text keys as they are, a leading `$` doubled; others typed:
                                 `$i1`, `$f0.5`, `$btrue`, `$n`
    missing (`???`)              {"$missing": true}; the text '???' cannot be typed in OmegaConf
    stubbed, unresolved, secret  {"$stub": text}, {"$unresolved": text}, {"$secret": true}
    bytes                        {"$bytes": hex}

Dotted keys join the names of nested mappings; a text key that would be misread there (with a dot,
empty, or like a number) stands in single quotes: `rope.'0.5'`.

Invariant: equal canonical text if and only if the configs are equal in type and value; the digest
is `v1:` + SHA-256 of the canonical text without the seed key and the ignored keys, and without
mappings that hold nothing else. Two digests are equal if and only if `differing` finds nothing.
"""

from __future__ import annotations

import enum
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import PurePath
from typing import Any

VERSION = "v1"
EXACT = 2**53
PART = re.compile(r"(?:[^.']|'(?:[^']|'')*')+")
"""One name of a dotted key, in quotes or not."""


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


class _Absent:
    def __str__(self) -> str:
        return "-"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()
"""Stands for the value of a key that one of two configs lacks."""


def canonical(tree: Any) -> str:
    """Return the canonical JSON text of a config tree (see the module's docstring)."""
    return _dump(_encode(tree))


def digest(text: str, *, ignore: Sequence[str] = (), seed_key: str = "seed") -> str:
    """Return `v1:<sha256>` of a canonical text without the seed key and the ignored keys.

    A name in `ignore` leaves out that key and all below it; `*` matches within it.
    """
    import hashlib

    tree = _without(json.loads(text), [*ignore, seed_key], "")
    return f"{VERSION}:{hashlib.sha256(_dump({} if tree is ABSENT else tree).encode()).hexdigest()}"


def flatten(text: str) -> dict[str, Any]:
    """Return dotted key -> value of a canonical text; lists and empty mappings are leaves."""
    return {key: _decode(node) for key, node in leaves(text).items()}


def leaves(text: str) -> dict[str, Any]:
    """Return dotted key -> value as canonical JSON has it (markers as mappings of one `$` key),
    sorted.
    """
    out: dict[str, Any] = {}
    tree = json.loads(text)
    if tree != {}:
        _collect(tree, "", out)
    return dict(sorted(out.items()))


def counted(text: str, *, ignore: Sequence[str] = (), seed_key: str = "seed") -> dict[str, Any]:
    """Return `flatten(text)` without the seed and the ignored keys: what the digest is about."""
    names = [*ignore, seed_key]
    return {key: value for key, value in flatten(text).items() if not ignored(key, names)}


def differing(
    old: str, new: str, *, ignore: Sequence[str] = (), seed_key: str = "seed"
) -> dict[str, tuple[Any, Any]]:
    """Return dotted key -> (old, new value) of each counted key whose type or value differs."""
    names = [*ignore, seed_key]
    before, after = leaves(old), leaves(new)
    out: dict[str, tuple[Any, Any]] = {}
    for key in sorted({*before, *after}):
        pair = before.get(key, ABSENT), after.get(key, ABSENT)
        # As JSON text: in Python 1 equals True, also inside lists, and nan equals nothing.
        differs = ABSENT in pair or _dump(pair[0]) != _dump(pair[1])
        if differs and not ignored(key, names):
            out[key] = (_decode(pair[0]), _decode(pair[1]))
    return out


def ignored(key: str, names: Sequence[str]) -> bool:
    """Tell whether a dotted key, or one above it, is named in `names`."""
    parts = PART.findall(key)
    above = [".".join(parts[: count + 1]) for count in range(len(parts))]
    return any(fnmatchcase(path, name) for name in names for path in above)


def _dump(tree: Any) -> str:
    return json.dumps(tree, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _encode(value: Any) -> Any:
    match value:
        case enum.Enum():
            return value.name
        case None | bool():
            return value
        case str():
            return str(value)
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


def _collect(node: Any, prefix: str, out: dict[str, Any]) -> None:
    if not isinstance(node, dict) or not node or _is_marker(node):
        out[prefix] = node
        return
    for key, item in node.items():
        _collect(item, _below(prefix, key), out)


def _is_marker(node: dict[str, Any]) -> bool:
    return len(node) == 1 and not isinstance(_decode(node), dict)


def _without(node: Any, names: Sequence[str], prefix: str) -> Any:
    """Return the node without what `names` say; ABSENT for a mapping of which nothing is left."""
    if not isinstance(node, dict) or not node or _is_marker(node):
        return node
    out = {}
    for key, item in node.items():
        path = _below(prefix, key)
        if not any(fnmatchcase(path, pattern) for pattern in names):
            kept = _without(item, names, path)
            if kept is not ABSENT:
                out[key] = kept
    return out or ABSENT


@lru_cache(maxsize=4096)  # the runs of a store have the same keys, again and again
def _below(prefix: str, key: str) -> str:
    name = _decode_key(key)
    if (not key.startswith("$") or key.startswith("$$")) and _misread(name):
        name = "'" + name.replace("'", "''") + "'"
    return f"{prefix}.{name}" if prefix else name


def _misread(name: str) -> bool:
    """Tell whether a text key looks like a path, or like a key of another type."""
    if not name or "." in name or "'" in name or name in ("true", "false", "null"):
        return True
    return (name[0] in "+-" or name[0].isdigit() or name in ("nan", "inf")) and _is_number(name)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
