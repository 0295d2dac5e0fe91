"""A caller's config as canonical JSON and redacted text; the caller's own object is never changed.

What has no value (missing, unresolved, not plain data) is marked with the reason instead of
stopping the run.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import re
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from expdb.digest import Missing, Secret, Stub, Unresolved, canonical, flatten
from expdb.errors import BadInput
from expdb.notify.address import named_secrets
from expdb.redact import (
    Redactor,
    hides_below,
    is_secret_key,
    is_telling,
    secrets_of_urls,
    without_user_info,
)
from expdb.track.interpolation import resolve

MARKERS = (Missing, Stub, Unresolved, Secret)
REFERENCE = re.compile(r"\$\{(oc\.env:)?[\w.\[\]]+\}")
"""An interpolation that names where a value is, and holds none itself."""


@dataclass(frozen=True, slots=True)
class Composed:
    """A config as expdb keeps it: redacted everywhere."""

    canonical: str
    tree: Any
    """Plain containers with markers of `expdb.digest` at what has no value."""
    yaml: str
    unresolved_yaml: str
    redactor: Redactor

    @property
    def flat(self) -> dict[str, Any]:
        """Dotted key -> value."""
        return flatten(self.canonical)


def read_config(cfg: Any) -> Composed:
    """Return the kept form of a DictConfig, mapping, dataclass, Namespace or None.

    Raises:
        BadInput: `cfg` is something else.
    """
    secrets: set[str] = set()
    resolved, raw = _plain({} if cfg is None else cfg, secrets, ())
    if not isinstance(resolved, dict):
        raise BadInput(
            f"the config is {type(cfg).__name__}",
            hint="give a DictConfig, dict, dataclass or Namespace",
        )
    resolved = _redact(resolved, secrets, "", hidden=False)
    raw = _redact(raw, secrets, "", hidden=False, written=True)
    secrets |= named_secrets(plain_section(plain_section(resolved, "expdb"), "notify"), os.environ)
    redactor = Redactor(secrets, dict(os.environ))
    resolved, raw = _known(resolved, redactor), _known(raw, redactor)
    return Composed(canonical(resolved), resolved, _yaml(resolved), _yaml(raw), redactor)


def _plain(value: Any, secrets: set[str], above: tuple[int, ...]) -> tuple[Any, Any]:
    """Return (resolved, as written) of a value as plain containers, scalars and markers."""
    if type(value).__module__.startswith("omegaconf."):
        return resolve(value, secrets)
    if id(value) in above:
        return (Unresolved("...", "it contains itself"),) * 2
    inside = (*above, id(value))
    if isinstance(value, Namespace):
        value = vars(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, (type, *MARKERS)):
        names = [field.name for field in dataclasses.fields(value)]
        value = {name: getattr(value, name) for name in names if hasattr(value, name)}
    if isinstance(value, Mapping):
        pairs = {key: _plain(item, secrets, inside) for key, item in value.items()}
        return {k: p[0] for k, p in pairs.items()}, {k: p[1] for k, p in pairs.items()}
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=repr)
    if isinstance(value, (list, tuple)):
        items = [_plain(item, secrets, inside) for item in value]
        return [item[0] for item in items], [item[1] for item in items]
    return value, value


def _scalar(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.name
    if value is None or isinstance(value, (bool, int, float, str, bytes, *MARKERS)):
        return value
    if isinstance(value, PurePath):
        return str(value)
    tolist = getattr(value, "tolist", None)
    if callable(tolist) and not isinstance(value, type):  # arrays, tensors, numpy's scalars
        return tolist()
    name = getattr(value, "__qualname__", None)
    if name is not None:
        return Unresolved(f"{value.__module__}.{name}", "not plain data")
    said = repr(value)
    # An address differs from start to start; a repr without one names the value (torch.bfloat16).
    if " at 0x" in said:
        said = f"{type(value).__module__}.{type(value).__qualname__}"
    return Unresolved(said, "not plain data")


def _redact(
    value: Any, secrets: set[str], name: str, *, hidden: bool, written: bool = False
) -> Any:
    """Return the value with markers for secrets, which are collected; `written`: before
    interpolation.
    """
    if not isinstance(value, (dict, list)):
        value = _scalar(value)
    if isinstance(value, dict):
        below = hidden or hides_below(name)
        return {
            key: _redact(item, secrets, str(key), hidden=below, written=written)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_redact(item, secrets, name, hidden=hidden, written=written) for item in value]
    secret = hidden or is_secret_key(name)
    if isinstance(value, (Stub, Unresolved)):
        return Secret() if secret and not REFERENCE.fullmatch(value.text) else value
    if not isinstance(value, str) or not value:
        return value
    if secret:
        if written and (value == "???" or REFERENCE.fullmatch(value)):
            return value
        if hidden or is_telling(name, value):
            secrets.add(value)
        return Secret()
    secrets.update(secrets_of_urls(value))
    return without_user_info(value)


def _known(value: Any, redactor: Redactor) -> Any:
    """Return the value with every secret that was found anywhere replaced."""
    if isinstance(value, dict):
        return {
            redactor.known(key) if type(key) is str else key: _known(item, redactor)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_known(item, redactor) for item in value]
    if isinstance(value, Stub):
        return Stub(redactor.known(value.text))
    if isinstance(value, Unresolved):
        return Unresolved(redactor.known(value.text), redactor.known(value.reason))
    return redactor.known(value) if isinstance(value, str) else value


def yaml_text(tree: Any) -> str:
    """Return plain values as YAML, in their own order."""
    import yaml  # type: ignore[import-untyped]

    return str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=100))


def _yaml(tree: Any) -> str:
    reasons = "".join(f"# {path}: {why}\n" for path, why in _reasons(tree, "") if why)
    body = yaml_text(_printable(tree))
    return f"# No value could be found for:\n{reasons}{body}" if reasons else body


def _reasons(tree: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(tree, (dict, list)):
        pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
        for key, item in pairs:
            yield from _reasons(item, f"{path}.{key}" if path else str(key))
    elif isinstance(tree, Unresolved):
        yield path, tree.reason


def _printable(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key if key is None or isinstance(key, (str, int, float)) else str(key): _printable(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_printable(item) for item in value]
    for kind in (bool, int, float, str):  # a subclass of numpy's is written as what it is
        if isinstance(value, kind):
            return kind(value)
    return value if value is None or isinstance(value, bytes) else str(value)


def plain_section(tree: Any, name: str) -> Any:
    """Return one section of a composed tree as plain values, markers as text; None when it is
    absent.
    """
    section = tree.get(name) if isinstance(tree, dict) else None
    return None if section is None else _printable(section)
