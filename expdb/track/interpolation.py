"""OmegaConf configs as plain values: resolved with markers at what has no value, and as they were
written.

Values that differ from start to start by design (`now`, Hydra's run folder) become stubs, through
chains of interpolations too. Invariant: the caller's config, its caches and the registered
resolvers are afterwards as they were before.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from expdb.digest import Missing, Secret, Stub, Unresolved
from expdb.redact import MARK, is_secret_variable

STUBBED = ("runtime.output_dir", "runtime.cwd", "run", "sweep", "job.id", "job.override_dirname")
STUB = re.compile("\x00stub:([^\x00]*)\x00")
SECRET = "\x00secret\x00"


def resolve(cfg: Any, secrets: set[str]) -> tuple[Any, Any]:
    """Return (resolved, raw) containers of a config; secret values found on the way go into
    `secrets`.
    """
    from omegaconf import OmegaConf

    own = copy.deepcopy(cfg)  # a part of a config keeps the caller's root, so its cache is put back
    raw = OmegaConf.to_container(own, resolve=False, enum_to_str=True)
    root = own._get_root()
    kept = copy.deepcopy(root._metadata.resolver_cache)
    try:
        with _markers(secrets):
            root._metadata.resolver_cache.clear()
            marked = _node(own, raw, ())
            if not kept:
                return marked, raw
            # What the caller's program saw is what counts, also of a resolver that draws a name at
            # random.
            root._metadata.resolver_cache.update(copy.deepcopy(kept))
            return _with_markers_of(marked, _node(own, raw, ())), raw
    finally:
        root._metadata.resolver_cache.clear()
        root._metadata.resolver_cache.update(kept)


def _with_markers_of(marked: Any, seen: Any) -> Any:
    if isinstance(marked, dict) and isinstance(seen, dict) and marked.keys() == seen.keys():
        return {key: _with_markers_of(marked[key], seen[key]) for key in seen}
    if isinstance(marked, list) and isinstance(seen, list) and len(marked) == len(seen):
        return [_with_markers_of(*pair) for pair in zip(marked, seen, strict=True)]
    hidden = isinstance(marked, (Stub, Secret)) or (isinstance(marked, str) and MARK in marked)
    return marked if hidden else seen


def _node(node: Any, raw: Any, above: tuple[int, ...]) -> Any:
    from omegaconf import OmegaConf

    if not isinstance(raw, (dict, list)):
        # An interpolation to a whole container: what it points to has a written form of its own.
        raw = OmegaConf.to_container(node, resolve=False, enum_to_str=True)
    inside = (*above, id(node))
    if isinstance(raw, dict):
        return {key: _item(node, key, item, inside) for key, item in raw.items()}
    if isinstance(raw, list):
        return [_item(node, index, item, inside) for index, item in enumerate(raw)]
    return Missing() if raw == "???" else raw


def _item(node: Any, key: Any, raw: Any, above: tuple[int, ...]) -> Any:
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
        if id(value) in above:
            return Unresolved(str(raw), "it contains itself")
        return _node(value, raw, above)
    return _marked(value, raw) if isinstance(value, str) and "\x00" in value else value


def _marked(value: str, raw: Any) -> Any:
    if value == SECRET:
        return Secret()
    text = value.replace(SECRET, MARK)
    if STUB.search(text):
        text = STUB.sub(r"${\1}", text)
        return Secret() if "\x00" in text else Stub(text)
    if "\x00" not in text:
        return text
    # A resolver has changed the marker itself, to capitals for instance.
    return Secret() if SECRET in text.lower() else Stub(str(raw))


@contextmanager
def _markers(secrets: set[str]) -> Iterator[None]:
    """Let the resolvers of `now`, `hydra` and `oc.env` answer with markers for the length of the
    block.
    """
    from omegaconf import OmegaConf

    # OmegaConf has no public way to read a registered resolver, so the registry itself is kept and
    # put back.
    from omegaconf.basecontainer import BaseContainer

    kept = dict(BaseContainer._resolvers)

    def now(*arguments: str) -> str:
        return f"\x00stub:now:{','.join(arguments)}\x00"

    def hydra(path: str) -> Any:
        from hydra.core.hydra_config import HydraConfig

        if any(path == name or path.startswith(f"{name}.") for name in STUBBED):
            return f"\x00stub:hydra:{path}\x00"
        hydra_config: Any = HydraConfig.get()
        return OmegaConf.select(hydra_config, path, throw_on_missing=True)

    def env(name: str, *default: Any) -> Any:
        value = os.environ.get(name)
        if is_secret_variable(name):
            # Set or not, one marker: a machine without the secret composes the same config.
            secrets.update(text for text in (value, *default) if isinstance(text, str))
            return SECRET
        if value is None and not default:
            raise KeyError(f"environment variable {name} is not set")
        return default[0] if value is None else value

    OmegaConf.register_new_resolver("now", now, replace=True)
    OmegaConf.register_new_resolver("hydra", hydra, replace=True)
    OmegaConf.register_new_resolver("oc.env", env, replace=True)
    try:
        yield
    finally:
        BaseContainer._resolvers.clear()
        BaseContainer._resolvers.update(kept)
