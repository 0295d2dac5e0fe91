"""Configs composed as the training script composes them, in this process, without running it.

Invariant: Hydra's global state is afterwards as it was before, nothing is written, no object of a
config is built. Whatever a config file holds, the answer is a config or one line that says why
there is none.
"""

from __future__ import annotations

import copy
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

    def __init__(self, entry: Entry, repository: Repository) -> None:
        self.entry = entry
        self._repository = repository
        self._files: dict[tuple[str, ...], tuple[Path, ...]] = {}
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

        self._repository.asked.clear()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Hydra's own hints for scripts
                cfg = compose(self.entry.name, list(overrides), return_hydra_config=True)
            hydra = cfg.hydra
            choices = {str(g): str(c) for g, c in hydra.runtime.choices.items() if c is not None}
            sweep: Any = OmegaConf.to_container(hydra.sweeper, resolve=False)
            with open_dict(cfg):
                del cfg["hydra"]
            self._files[overrides] = tuple(self._repository.files())
            self._raw[overrides] = choices, OmegaConf.to_container(cfg, resolve=False)
            composed = read_config(cfg)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - resolvers do anything
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

    def files(self, overrides: Sequence[str]) -> tuple[Path, ...]:
        """Return the files of a config that composes, those of packages left out, each once."""
        return self._files[tuple(overrides)]

    def layers(self, overrides: Sequence[str]) -> list[Layer]:
        """Return the layers of a config that composes, Hydra's own left out."""
        from hydra.core.global_hydra import GlobalHydra
        from hydra.types import RunMode
        from omegaconf import OmegaConf

        loader: Any = GlobalHydra.instance().config_loader()
        found = loader.compute_defaults_list(self.entry.name, list(overrides), RunMode.RUN)
        out = []
        for item in found.defaults:
            package = item.package or ""
            if item.config_path is None or package.partition(".")[0] == "hydra":
                continue
            loaded = loader.repository.load_config(item.config_path)
            if loaded is None:
                continue
            values: Any = loaded.config
            if OmegaConf.is_config(values):
                values = OmegaConf.to_container(values, resolve=False, enum_to_str=True)
            for part in reversed(package.split(".") if package else ()):
                values = {part: values}
            flat = read_config(values).flat if isinstance(values, dict) else {}
            folder = _folder(loaded)
            out.append(Layer(name=item.config_path, package=package, folder=folder, values=flat))
        return out


class Repository:
    """Hydra's source of config files, which reads each but once and tells which were asked for."""

    def __init__(self, delegate: Any) -> None:
        self._delegate = delegate
        self._known: dict[str, Any] = {}
        self.asked: dict[str, Any] = {}
        """Config path -> what was found there, since it was last cleared."""

    def __deepcopy__(self, memo: Any) -> Repository:
        return self  # Hydra composes with a copy; what was read is the same

    def __getattr__(self, name: str) -> Any:
        return getattr(self._delegate, name)

    def initialize_sources(self, config_search_path: Any) -> None:
        """Look in other places from here on."""
        self._known.clear()
        self._delegate.initialize_sources(config_search_path)

    def load_config(self, config_path: str) -> Any:
        """Return what a config file holds, None where there is none; its own copy each time."""
        if config_path not in self._known:
            self._known[config_path] = self._delegate.load_config(config_path=config_path)
        found = self.asked[config_path] = self._known[config_path]
        return copy.deepcopy(found)

    def files(self) -> Iterator[Path]:
        """Yield the files that were asked for, those of packages left out."""
        for name, found in self.asked.items():
            folder = None if found is None else _folder(found)
            if folder is not None:
                yield folder / f"{name.removesuffix('.yaml')}.yaml"


def _folder(loaded: Any) -> Path | None:
    """Return the config folder that a file is from; None where it is part of a package."""
    path = str(loaded.path)
    return Path(path.removeprefix("file://")) if path.startswith("file://") else None


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


@contextmanager
def composer(entry: Entry) -> Iterator[Composer]:
    """Compose configs of an entry for the length of the block."""
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf.basecontainer import BaseContainer

    kept = dict(BaseContainer._resolvers)
    try:
        with initialize_config_dir(str(entry.folder), version_base="1.3", job_name=entry.name):
            loader: Any = GlobalHydra.instance().config_loader()
            loader.repository = Repository(loader.repository)
            yield Composer(entry, loader.repository)
    finally:
        BaseContainer._resolvers.clear()
        BaseContainer._resolvers.update(kept)


def one_line(error: BaseException, folder: Path) -> str:
    """Return why a config cannot be composed, with the file where it is known."""
    import yaml  # type: ignore[import-untyped]
    from hydra.errors import MissingConfigException

    if isinstance(error, SystemExit):
        return "a resolver leaves by sys.exit"
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
