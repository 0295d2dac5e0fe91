"""Configs composed as the training script composes them, in this process, without running it.

Invariant: Hydra's global state is afterwards as it was before, nothing is written, no object of a
config is built. Whatever a config file holds, the answer is a config or one line that says why
there is none.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.query.entry import Entry
from expdb.track.config import Composed, read_config
from expdb.track.job import Base, Job, added_keys

OVERRIDE = re.compile(r"Could not override '([^']*)'")
TWICE = re.compile(r"Multiple values for (\S+?)\. To override a value use '([^']*)'")
APPEND = re.compile(r"Could not append '?([^'\s]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One composed config."""

    overrides: tuple[str, ...]
    composed: Composed
    choices: tuple[tuple[str, str], ...]
    """Config group -> chosen option, Hydra's own left out."""
    sweep: Mapping[str, Any]
    """`hydra.sweeper.params`."""
    sweeper: str
    """The chosen `hydra/sweeper`; the params of another than `basic` are no list of runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a config cannot be composed, in one line."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One file of a composed config, in the order in which they are laid over each other."""

    name: str
    """`optim/adamw`."""
    package: str
    """Where its keys go: `optim`, empty for the top."""
    folder: Path | None
    """Its config folder; None where it is part of a package."""
    values: Mapping[str, Any]
    """Dotted key of the whole config -> its value here, before interpolation, without secrets."""


class Composer:
    """Composes configs of one entry; make it with `composer`."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self._known: dict[tuple[str, ...], Config | Failure] = {}
        self._raw: dict[tuple[str, ...], Base] = {}

    def compose(self, overrides: Sequence[str] = ()) -> Config | Failure:
        """Return the config that these overrides give."""
        key = tuple(overrides)
        if key not in self._known:
            self._known[key] = self._compose(key)
        return self._known[key]

    def _compose(self, overrides: tuple[str, ...]) -> Config | Failure:
        from hydra import compose
        from omegaconf import OmegaConf, open_dict

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Hydra's own hints for scripts
                cfg = compose(self.entry.name, list(overrides), return_hydra_config=True)
            hydra = cfg.hydra
            choices = {str(g): str(c) for g, c in hydra.runtime.choices.items() if c is not None}
            sweep: Any = OmegaConf.to_container(hydra.sweeper, resolve=False)
            with open_dict(cfg):
                del cfg["hydra"]
            self._raw[overrides] = choices, OmegaConf.to_container(cfg, resolve=False)
            composed = read_config(cfg)
        except Exception as error:  # noqa: BLE001 - Hydra, YAML and resolvers raise anything
            return Failure(message=one_line(error, self.entry.folder))
        return Config(
            overrides=overrides,
            composed=composed,
            choices=tuple((g, c) for g, c in choices.items() if not g.startswith("hydra/")),
            sweep=_mapping(_mapping(sweep).get("params")),
            sweeper=choices.get("hydra/sweeper", ""),
        )

    def forget(self) -> None:
        """Compose anew from here on, as there are other resolvers."""
        self._known.clear()
        self._raw.clear()

    def added(self, config: Config, keys: Sequence[str], experiment_key: str) -> dict[str, str]:
        """Return the keys that the base lacks, as a start of training names them."""
        job = Job(overrides=config.overrides, config_name=self.entry.name, choices=config.choices)
        return added_keys(job, keys, experiment_key, self._base)

    def _base(self, groups: Sequence[str]) -> Base | None:
        """Return a config of group choices, composed once however many experiments share it."""
        self.compose(groups)
        return self._raw.get(tuple(groups))

    def raw(self, overrides: Sequence[str]) -> Any:
        """Return a config that composes as it is written: before its interpolations."""
        return self._raw[tuple(overrides)][1]

    def files(self, overrides: Sequence[str]) -> list[Path]:
        """Return the files of a config that composes, those of packages left out, each once."""
        paths = (path for _, path, _ in self._loaded(overrides))
        return list(dict.fromkeys(path for path in paths if path is not None))

    def layers(self, overrides: Sequence[str]) -> list[Layer]:
        """Return the layers of a config that composes, Hydra's own left out."""
        from omegaconf import OmegaConf

        out = []
        for item, path, values in self._loaded(overrides):
            package = item.package or ""
            if package.partition(".")[0] == "hydra":
                continue
            if OmegaConf.is_config(values):
                values = OmegaConf.to_container(values, resolve=False, enum_to_str=True)
            for part in reversed(package.split(".") if package else ()):
                values = {part: values}
            flat = read_config(values).flat if isinstance(values, dict) else {}
            name = str(item.config_path)
            folder = None if path is None else Path(str(path).removesuffix(f"/{name}.yaml"))
            out.append(Layer(name=name, package=package, folder=folder, values=flat))
        return out

    def _loaded(self, overrides: Sequence[str]) -> Iterator[tuple[Any, Path | None, Any]]:
        """Yield (item of the defaults list, its file, its values); None is a file of a package."""
        from hydra.core.global_hydra import GlobalHydra
        from hydra.types import RunMode

        loader: Any = GlobalHydra.instance().config_loader()
        found = loader.compute_defaults_list(self.entry.name, list(overrides), RunMode.RUN)
        for item in found.defaults:
            loaded = None
            if item.config_path is not None:
                loaded = loader.repository.load_config(item.config_path)
            if loaded is None:
                continue
            folder = str(loaded.path)
            is_file = folder.startswith("file://")
            path = Path(folder.removeprefix("file://")) / f"{item.config_path}.yaml"
            yield item, path if is_file else None, loaded.config


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


@contextmanager
def composer(entry: Entry) -> Iterator[Composer]:
    """Compose configs of an entry for the length of the block."""
    from hydra import initialize_config_dir
    from omegaconf.basecontainer import BaseContainer

    kept = dict(BaseContainer._resolvers)
    try:
        with initialize_config_dir(str(entry.folder), version_base="1.3", job_name=entry.name):
            yield Composer(entry)
    finally:
        BaseContainer._resolvers.clear()
        BaseContainer._resolvers.update(kept)


def one_line(error: BaseException, folder: Path) -> str:
    """Return why a config cannot be composed, with the file where it is known."""
    import yaml  # type: ignore[import-untyped]
    from hydra.errors import MissingConfigException

    if isinstance(error, RecursionError):
        return "its defaults lists lead in a circle"
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        where = f"{folder.name}/{group}" if group else folder.name
        return f"{group or 'config'}={name}: no such file in {where}"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{_shown(mark.name, folder)}:{mark.line + 1}: {error.problem}"
    if isinstance(error, UnicodeDecodeError):
        return "a file of its defaults list is not UTF-8 text"
    said = str(error).strip() or str(error.__cause__ or "").strip() or type(error).__name__
    if match := OVERRIDE.search(said):
        return f"overrides {match[1]}, which the defaults list of the base does not have"
    if match := TWICE.search(said):
        return f"{match[1]} stands twice in the defaults list: write `{match[2]}`"
    if match := APPEND.search(said):
        return f"{match[1]} is in the defaults list already: write it without `+`"
    return said.splitlines()[0].strip().rstrip(".")


def _shown(name: str, folder: Path) -> str:
    """Return a file as people are told of it: from the config folder on."""
    path = Path(name)
    return f"{folder.name}/{path.relative_to(folder)}" if path.is_relative_to(folder) else path.name
