"""A caller's config as canonical JSON and redacted text; the caller's own object is never changed.

Values that differ from start to start by design (`now`, Hydra's run folder) become stubs, through chains of
interpolations too; what cannot be resolved is marked with the reason instead of stopping the run.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import re
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from expdb.digest import Missing, Secret, Stub, Unresolved, canonical, flatten
from expdb.errors import BadInput
from expdb.redact import (
    USER_INFO,
    Redactor,
    is_secret_key,
    is_secret_variable,
    without_user_info,
)

STUBBED = (
    "runtime.output_dir", "runtime.cwd", "run", "sweep", "job.id", "job.num", "job.override_dirname",
)  # fmt: skip
STUB = re.compile("\x00stub:([^\x00]*)\x00")
SECRET = "\x00secret\x00"


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
    if _is_omegaconf(cfg):
        resolved, raw = _resolve(cfg, secrets)
    else:
        resolved = raw = _plain(cfg)
    resolved = _redact(resolved, secrets, "", hidden=False)
    raw = _redact(raw, secrets, "", hidden=False)
    redactor = Redactor(secrets, dict(os.environ))
    resolved, raw = _replace(resolved, redactor), _replace(raw, redactor)
    return Composed(canonical(resolved), resolved, _yaml(resolved), _yaml(raw), redactor)


def _is_omegaconf(cfg: Any) -> bool:
    return type(cfg).__module__.startswith("omegaconf")


def _plain(cfg: Any) -> Any:
    if cfg is None:
        return {}
    if isinstance(cfg, Namespace):
        return dict(vars(cfg))
    if dataclasses.is_dataclass(cfg) and not isinstance(cfg, type):
        return dataclasses.asdict(cfg)
    if isinstance(cfg, Mapping):
        return cfg
    raise BadInput(
        f"the config is {type(cfg).__name__}", hint="give a DictConfig, dict, dataclass or Namespace"
    )


def _resolve(cfg: Any, secrets: set[str]) -> tuple[Any, Any]:
    from omegaconf import OmegaConf

    own = copy.deepcopy(cfg)
    OmegaConf.clear_cache(own)
    raw = OmegaConf.to_container(own, resolve=False, enum_to_str=True)
    with _stub_resolvers(secrets):
        return _resolve_node(own, raw), raw


def _resolve_node(node: Any, raw: Any) -> Any:
    from omegaconf import OmegaConf

    if isinstance(raw, dict):
        return {key: _resolve_item(node, key, item) for key, item in raw.items()}
    if isinstance(raw, list):
        return [_resolve_item(node, index, item) for index, item in enumerate(raw)]
    # An interpolation to a whole container: the node is resolved, its own raw form is one level further.
    inner = OmegaConf.to_container(node, resolve=False, enum_to_str=True)
    return _resolve_node(node, inner)


def _resolve_item(node: Any, key: Any, raw: Any) -> Any:
    from omegaconf import OmegaConf
    from omegaconf.errors import InterpolationToMissingValueError, MissingMandatoryValue

    if isinstance(raw, str) and raw == "???":
        return Missing()
    try:
        value = node[key]
    except (MissingMandatoryValue, InterpolationToMissingValueError):
        return Missing()
    except Exception as error:  # noqa: BLE001 - a resolver is the user's code and may raise anything
        return Unresolved(str(raw), str(error).split("\n")[0])
    if OmegaConf.is_config(value):
        return _resolve_node(value, raw)
    if isinstance(value, str):
        if value == SECRET:
            return Secret()
        if STUB.search(value):
            return Stub(STUB.sub(r"${\1}", value).replace(SECRET, "<redacted>"))
        return value.replace(SECRET, "<redacted>")
    return value


@contextmanager
def _stub_resolvers(secrets: set[str]) -> Iterator[None]:
    """Let the resolvers of `now`, `hydra` and `oc.env` answer with markers for the length of the block."""
    from omegaconf import OmegaConf

    # OmegaConf has no public way to read a registered resolver, so the registry itself is kept and put back.
    from omegaconf.basecontainer import BaseContainer

    kept = dict(BaseContainer._resolvers)

    def now(*arguments: str) -> str:
        return f"\x00stub:now:{':'.join(arguments)}\x00"

    def hydra(path: str) -> Any:
        from hydra.core.hydra_config import HydraConfig

        if any(path == name or path.startswith(f"{name}.") for name in STUBBED):
            return f"\x00stub:hydra:{path}\x00"
        return OmegaConf.select(HydraConfig.get(), path, throw_on_missing=True)

    def env(name: str, *default: Any) -> Any:
        value = os.environ.get(name)
        if value is None:
            if not default:
                raise KeyError(f"environment variable {name} is not set")
            return default[0]
        if is_secret_variable(name):
            secrets.add(value)
            return SECRET
        return value

    OmegaConf.register_new_resolver("now", now, replace=True)
    OmegaConf.register_new_resolver("hydra", hydra, replace=True)
    OmegaConf.register_new_resolver("oc.env", env, replace=True)
    try:
        yield
    finally:
        BaseContainer._resolvers.clear()
        BaseContainer._resolvers.update(kept)


def _redact(value: Any, secrets: set[str], name: str, *, hidden: bool) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _redact(
                item, secrets, str(key), hidden=hidden or (bool(name) and is_secret_key(name))
            )
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_redact(item, secrets, name, hidden=hidden) for item in value]
    if not isinstance(value, str) or not value:
        return value
    if (hidden or is_secret_key(name)) and value != "???" and "${" not in value:
        secrets.add(value)
        return Secret()
    for match in USER_INFO.finditer(value):
        secrets.add(match["user"])
        secrets.update(match["user"].split(":", 1)[1:])
    return without_user_info(value)


def _replace(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, Mapping):
        return {key: _replace(item, redactor) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace(item, redactor) for item in value]
    if isinstance(value, Stub):
        return Stub(redactor.text(value.text))
    if isinstance(value, Unresolved):
        return Unresolved(redactor.text(value.text), redactor.text(value.reason))
    return redactor.text(value) if type(value) is str else value


def _yaml(tree: Any) -> str:
    import yaml

    return str(yaml.safe_dump(_printable(tree), sort_keys=False, allow_unicode=True, width=100))


def _printable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, (str, int, float, bool)) or key is None else str(key): _printable(
                item
            )
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_printable(item) for item in value]
    if value is None or type(value) in (bool, int, float, str):
        return value
    return str(value)


def plain_section(tree: Any, name: str) -> Any:
    """Return one section of a composed tree as plain values, markers as text; None when it is absent."""
    section = tree.get(name) if isinstance(tree, Mapping) else None
    return None if section is None else _printable(section)
