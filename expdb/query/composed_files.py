"""Config files as text: their package, their defaults list, and the line of each key.

Invariant: YAML is scanned, never constructed; a file that is no YAML gives an error that names its
line, never a traceback.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from expdb.digest import canonical, flatten

HEADER = re.compile(r"\s*#\s*@")
PACKAGE = re.compile(r"\s*#\s*@package\s+(\S+)\s*")
MAX_KEYS = 100_000
"""More than any config has: aliases of aliases would multiply without end."""


class Unreadable(ValueError):
    """A file is not what a config can be; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """What the text of a config file says about itself."""

    package: str | None
    defaults: tuple[tuple[str, str], ...]
    """(key, value) of each entry: `("", "baseline")`, `("override /schedule", "cosine")`."""
    lines: Mapping[str, int]
    """Dotted key, as `expdb.digest` writes it, -> the line it stands on."""


def read_config_file(path: Path) -> ConfigFile:
    """Return what a config file says.

    Raises:
        Unreadable: it is no UTF-8 text, or no YAML.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from error
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise Unreadable(f"line {line} is not UTF-8 text") from error
    node = _scan(text)
    pairs = list(_pairs(node)) if node is not None else []
    return ConfigFile(
        package=_package(text),
        defaults=tuple(_defaults(dict(pairs).get("defaults"))),
        lines=_lines(node),
    )


def base_of(name: str, file: ConfigFile, group: str, known: Mapping[str, object]) -> str | None:
    """Return the experiment that another one extends through its defaults list, if any."""
    for key, value in file.defaults:
        if key and key.lstrip("/") != group:
            continue
        if value == "_self_":
            continue
        absolute = value.removeprefix(f"/{group}/")
        beside = str(PurePosixPath(name).parent / value)
        found = absolute if absolute != value else value if key else beside
        if found in known and found != name:
            return found
    return None


def _package(text: str) -> str | None:
    """Return the package that the header names, as Hydra reads headers."""
    for line in text.splitlines():
        if not line.strip():
            continue
        if not HEADER.match(line):
            return None
        if match := PACKAGE.fullmatch(line):
            return match[1]
    return None


def scalar_in(text: str, key: str) -> str | None:
    """Return the text of one scalar at the top of a YAML file; None where it has none, or null.

    Raises:
        Unreadable: it is no YAML.
    """
    for name, node in _pairs(_scan(text)):
        if name == key and getattr(node, "id", "") == "scalar" and not node.tag.endswith(":null"):
            return str(node.value)
    return None


def _scan(text: str) -> Any:
    import yaml  # type: ignore[import-untyped]

    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise Unreadable(f"{where}{error.problem}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise Unreadable(str(error).splitlines()[0] or "is no YAML") from error


def _pairs(node: Any) -> Iterator[tuple[str, Any]]:
    value = getattr(node, "value", None)
    if getattr(node, "id", "") == "mapping" and isinstance(value, list):
        for key, item in value:
            if key.id == "scalar":
                yield str(key.value), item


def _defaults(node: Any) -> Iterator[tuple[str, str]]:
    if node is None or node.id != "sequence":
        return
    for item in node.value:
        if item.id == "scalar":
            yield "", str(item.value)
        for key, value in _pairs(item):
            if value.id == "scalar":
                yield key, str(value.value)


def _lines(node: Any) -> dict[str, int]:
    if getattr(node, "id", "") != "mapping":
        return {}
    tree = _tree(node, iter(range(MAX_KEYS)))
    if not isinstance(tree, dict):
        return {}
    tree.pop("defaults", None)
    return {key: line for key, line in flatten(canonical(tree)).items() if isinstance(line, int)}


def _tree(node: Any, left: Iterator[int]) -> Any:
    """Return a mapping with the line of each leaf in its place."""
    tree = {}
    for key, value in node.value:
        if next(left, None) is None:
            raise Unreadable(f"holds more than {MAX_KEYS:,} keys")
        if key.id != "scalar":
            continue
        is_inner = value.id == "mapping" and value.value
        # A value may begin lines below its key; what is looked for is the key.
        tree[_key(key)] = _tree(value, left) if is_inner else key.start_mark.line + 1
    return tree


def _key(node: Any) -> Any:
    """Return a key with the type that YAML gives it, for the few types that configs have."""
    import yaml

    text = str(node.value)
    if node.tag == "tag:yaml.org,2002:int":
        try:
            return int(text, 0)
        except ValueError:
            return text
    if node.tag == "tag:yaml.org,2002:bool":
        return bool(yaml.SafeLoader.bool_values.get(text.lower(), False))
    return None if node.tag == "tag:yaml.org,2002:null" else text
