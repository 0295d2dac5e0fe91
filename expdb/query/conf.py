"""The experiments that an entry has files for, and what stops each from being trained.

Invariant: nothing is written and no script is run; whatever a config file holds, it is a config or
one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.digest import Unresolved
from expdb.errors import BadInput
from expdb.monitor.rules import build_rules
from expdb.query.composed import Composer, Config, Failure
from expdb.query.composed_files import ConfigFile, Unreadable, base_of, read_config_file
from expdb.query.resolvers import register
from expdb.track.config import plain_section
from expdb.track.job import nearest
from expdb.track.settings import declared_objective, effective

BASE = "base"
GLOBAL = "_global_"
RESOLVER = re.compile(r"Unsupported interpolation type (\S+)")


@dataclass(slots=True, kw_only=True)
class Conf:
    """A composer with the files of its experiments."""

    composer: Composer
    group: str
    files: dict[str, ConfigFile | str]
    """Experiment -> its file, or why it cannot be read."""
    is_in_base: bool
    """Whether the base itself has the group in its defaults list, so that `+` cannot add it."""
    resolver_files: tuple[Path, ...] = ()
    """Where the resolvers of `expdb.resolvers` are from."""
    resolver_fault: str = ""
    """Why those cannot be had."""

    def config(self, name: str) -> Config | Failure:
        """Return an experiment as it is composed."""
        return self.composer.compose([choice(self.group, name, is_in_base=self.is_in_base)])

    def base(self, name: str) -> tuple[str, Config | Failure]:
        """Return what an experiment extends, with its config."""
        file = self.files[name]
        found = None if isinstance(file, str) else base_of(name, file, self.group, self.files)
        if found is not None:
            config = self.config(found)
            if isinstance(config, Config):
                return found, config
        return BASE, self.composer.compose()


def choice(group: str, name: str, *, is_in_base: bool) -> str:
    """Return the override that chooses an experiment; a base that has the group gets no `+`."""
    quoted = name.replace("\\", "\\\\").replace("'", "\\'")
    plus = "" if is_in_base else "+"
    is_plain = all(char.isascii() and (char.isalnum() or char in "_-/.") for char in name)
    return f"{plus}{group}={name}" if is_plain else f"{plus}{group}='{quoted}'"


def open_conf(made: Composer) -> Conf:
    """Return the experiments that an entry has files for."""
    base = made.compose()
    settings = settings_of(base) if isinstance(base, Config) else None
    group = "exp" if settings is None else str(settings["experiment_key"])
    choices = dict(base.choices) if isinstance(base, Config) else {}
    resolver_files: list[Path] = []
    resolver_fault = ""
    if settings is not None and settings["resolvers"]:
        try:
            resolver_files = register(settings["resolvers"], made.entry.folder.parent)
        except BadInput as error:
            resolver_fault = error.message
        made.forget()
    files: dict[str, ConfigFile | str] = {}
    folder = made.entry.folder / group
    for path in sorted(folder.rglob("*.y*ml")) if folder.is_dir() else ():
        name = path.relative_to(folder).as_posix().removesuffix(path.suffix)
        if path.suffix == ".yml":
            files.setdefault(name, "ends in .yml: Hydra reads .yaml only")
            continue
        try:
            files[name] = read_config_file(path)
        except Unreadable as error:
            files[name] = str(error)
    return Conf(
        composer=made,
        group=group,
        files=files,
        is_in_base=group in choices,
        resolver_files=tuple(resolver_files),
        resolver_fault=resolver_fault,
    )


def settings_of(config: Config) -> dict[str, Any] | None:
    """Return the effective settings of a config, None where they make no sense."""
    try:
        return effective(plain_section(config.composed.tree, "expdb"))
    except BadInput:
        return None


def ignored_keys(settings: Mapping[str, Any] | None) -> tuple[Sequence[str], str]:
    """Return the keys that make no other config, and the key of the seed."""
    known = settings if settings is not None else effective(None)
    return known["digest"]["ignore"], known["seed_key"]


def sound(conf: Conf, name: str) -> Config | str:
    """Return an experiment as it is composed, or in one line what keeps it from being one."""
    file = conf.files[name]
    if isinstance(file, str):
        return file
    if file.package != GLOBAL:
        return f"line 1 lacks `# @package {GLOBAL}`"
    config = conf.config(name)
    return config.message if isinstance(config, Failure) else config


def faults(conf: Conf, config: Config) -> Iterable[str]:
    """Yield what a start of training would stop at, or would silently not do."""
    if conf.resolver_fault:
        yield conf.resolver_fault
    tree = config.composed.tree
    if isinstance(tree, dict) and conf.group in tree:
        yield f"leaves a subtree `{conf.group}` in the config: its keys belong at the top"
    try:
        settings = effective(plain_section(tree, "expdb"))
        build_rules(settings["monitor"])
        declared_objective(plain_section(tree, "objective"))
    except BadInput as error:
        hint = f"; {error.hints[0]}" if error.hints else ""
        yield f"{error.message}{hint}"
    yield from _unknown_resolvers(config)
    yield from _sweep(config)


def _unknown_resolvers(config: Config) -> Iterable[str]:
    """Yield the first key that needs a resolver which nobody declares."""
    for key, value in leaves_of(config.composed.tree):
        if isinstance(value, Unresolved) and (match := RESOLVER.match(value.reason)):
            place = f"expdb.resolvers.{match[1]}: MODULE:FUNCTION"
            yield f"{key} needs the resolver {match[1]}: declare {place}"
            return


def leaves_of(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the value of everything in a config that is no mapping or list."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves_of(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(tree, list):
        for value in tree:
            yield from leaves_of(value, prefix)
    else:
        yield prefix, tree


def _sweep(config: Config) -> Iterable[str]:
    """Yield the keys of `hydra.sweeper.params` that Hydra would refuse in a sweep."""
    flat = config.composed.flat
    groups = {group.partition("@")[0] for group, _ in config.choices}
    for text in map(str, config.sweep):
        key = text.lstrip("+~")
        is_there = key in groups or any(one == key or one.startswith(f"{key}.") for one in flat)
        if text.startswith("+") and not text.startswith("++") and is_there:
            yield f"hydra.sweeper.params: {key} is in the config already: write it without `+`"
        elif not text.startswith(("+", "~", "hydra.")) and not is_there:
            near = nearest(key, flat)
            guess = f": a typo of {near}?" if near else f": write `+{key}`"
            yield f"hydra.sweeper.params: {key} is not in the config{guess}"
