"""`expdb doctor --conf`: every declared experiment, composed as training composes it.

Invariant: nothing is written and no script is run; whatever a config file holds, it has a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from expdb import digest
from expdb.actions.doctor_machine import Mark
from expdb.digest import ABSENT
from expdb.errors import BadInput
from expdb.monitor.rules import build_rules
from expdb.query.composed import Composer, Config, Failure, composer
from expdb.query.composed_files import ConfigFile, Unreadable, base_of, read_config_file
from expdb.query.entry import Entry
from expdb.track.config import plain_section
from expdb.track.job import nearest
from expdb.track.settings import declared_objective, effective

BASE = "base"
GLOBAL = "_global_"
WARMUP = ("warmup_steps", "num_warmup_steps", "warmup", "warmup_ratio")
STEPS = ("max_steps", "total_steps", "num_steps", "num_train_steps")
LOW, HIGH = 0.01, 0.10
"""The share of the steps that warm-up usually takes."""
DECISIONS = ("action", "runbook", "decision")

Tick = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfRow:
    """One declared experiment."""

    name: str
    mark: Mark
    """`problem`: to fix; `note`: to look at."""
    num_keys: int | None = None
    """The keys that the digest is about; None where it cannot be composed."""
    base: str = BASE
    """The experiment that it extends, else `base`: the config without an experiment."""
    changed: tuple[str, ...] = ()
    """Keys whose value the base has not."""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfReport:
    """The experiments of one entry."""

    entry: Entry
    group: str
    """The config group of experiments: `exp`."""
    rows: tuple[ConfRow, ...]
    remarks: tuple[str, ...] = ()
    """What is to fix in the config that all of them stand on."""

    @property
    def num_to_fix(self) -> int:
        """How many rows and remarks are to fix."""
        return len(self.remarks) + sum(row.mark == "problem" for row in self.rows)

    @property
    def num_to_see(self) -> int:
        """How many rows are to look at."""
        return sum(row.mark == "note" for row in self.rows)


@dataclass(slots=True, kw_only=True)
class Conf:
    """A composer with the files of its experiments."""

    composer: Composer
    group: str
    files: dict[str, ConfigFile | str]
    """Experiment -> its file, or why it cannot be read."""
    is_in_base: bool
    """Whether the base itself has the group in its defaults list, so that `+` cannot add it."""

    def config(self, name: str) -> Config | Failure:
        """Return an experiment as it is composed."""
        quoted = name.replace("\\", "\\\\").replace("'", "\\'")
        plus = "" if self.is_in_base else "+"
        is_plain = all(char.isalnum() or char in "_-/." for char in name)
        return self.composer.compose(
            [f"{plus}{self.group}={name}" if is_plain else f"{plus}{self.group}='{quoted}'"]
        )

    def base(self, name: str) -> tuple[str, Config | Failure]:
        """Return what an experiment extends, with its config."""
        file = self.files[name]
        found = None if isinstance(file, str) else base_of(name, file, self.group, self.files)
        if found is not None:
            config = self.config(found)
            if isinstance(config, Config):
                return found, config
        return BASE, self.composer.compose()


def check_conf(entry: Entry, *, tick: Tick = lambda done, total: None) -> ConfReport:
    """Compose every experiment of an entry and return what is to be said about each."""
    with composer(entry) as made:
        conf = open_conf(made)
        rows = []
        for done, name in enumerate(conf.files):
            tick(done, len(conf.files))
            rows.append(check_experiment(conf, name))
        tick(len(conf.files), len(conf.files))
        remarks = tuple(_remarks(conf))
    return ConfReport(entry=entry, group=conf.group, rows=tuple(rows), remarks=remarks)


def open_conf(made: Composer) -> Conf:
    """Return the experiments that an entry has files for."""
    base = made.compose()
    settings = settings_of(base) if isinstance(base, Config) else None
    group = "exp" if settings is None else str(settings["experiment_key"])
    choices = dict(base.choices) if isinstance(base, Config) else {}
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
    return Conf(composer=made, group=group, files=files, is_in_base=group in choices)


def check_experiment(conf: Conf, name: str) -> ConfRow:
    """Return the row of one experiment."""
    file = conf.files[name]
    if isinstance(file, str):
        return ConfRow(name=name, mark="problem", remarks=(file,))
    if file.package != GLOBAL:
        lacks = f"line 1 lacks `# @package {GLOBAL}`"
        return ConfRow(name=name, mark="problem", remarks=(lacks,))
    config = conf.config(name)
    if isinstance(config, Failure):
        return ConfRow(name=name, mark="problem", remarks=(config.message,))
    wrong = list(_wrong(conf, config))
    settings = settings_of(config)
    base_name, base = conf.base(name)
    ignore, seed_key = ignored_keys(settings)
    counted = digest.counted(config.composed.canonical, ignore=ignore, seed_key=seed_key)
    changed: Mapping[str, Any] = {}
    added: list[str] = []
    if isinstance(base, Config):
        changed = digest.differing(
            base.composed.canonical, config.composed.canonical, ignore=ignore, seed_key=seed_key
        )
        new = sorted(config.composed.flat.keys() - base.composed.flat.keys())
        added = _added(conf, config, new)
    notes = [*added, *_rules(config), *_warmup(config.composed.flat)]
    return ConfRow(
        name=name,
        mark="problem" if wrong else "note" if notes else "ok",
        num_keys=len(counted),
        base=base_name,
        changed=tuple(key for key, pair in changed.items() if pair[1] is not ABSENT)
        + tuple(key for key, pair in changed.items() if pair[1] is ABSENT),
        remarks=(*wrong, *notes),
    )


def _remarks(conf: Conf) -> Iterable[str]:
    path = f"{conf.composer.entry.folder.name}/{conf.composer.entry.name}.yaml"
    base = conf.composer.compose()
    if isinstance(base, Failure):
        yield f"{path}: {base.message}"
    if conf.is_in_base:
        yield f"{path} has {conf.group} in its defaults list, so `+{conf.group}=NAME` fails"


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


def _wrong(conf: Conf, config: Config) -> Iterable[str]:
    """Yield what a start of training would stop at, or would silently not do."""
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
    yield from _sweep(config)


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


def _added(conf: Conf, config: Config, keys: Sequence[str]) -> list[str]:
    """Return the line on keys that the base lacks, as a start of training warns of them."""
    found = conf.composer.added(config, keys, conf.group)
    if not found:
        return []
    (key, near), *more = sorted(found.items(), key=lambda item: not item[1])
    guess = f": a typo of {near}?" if near else ": a typo?"
    return [f"ADDS {key}{guess}" + (f" and {len(more):,} more" if more else "")]


def _rules(config: Config) -> Iterable[str]:
    """Yield the rules that say how bad something is and not what to do about it."""
    section = plain_section(config.composed.tree, "expdb")
    rules = section.get("monitor") if isinstance(section, dict) else None
    for name, rule in rules.items() if isinstance(rules, dict) else ():
        if isinstance(rule, dict) and "severity" in rule and not any(map(rule.get, DECISIONS)):
            yield f"the rule expdb.monitor.{name} has a severity and no {DECISIONS[0]}"


def _warmup(flat: Mapping[str, Any]) -> Iterable[str]:
    """Yield a warm-up that is unusually short or long; none at all is a choice."""
    warmup, steps = _number(flat, WARMUP), _number(flat, STEPS)
    if warmup is None or warmup <= 0:
        return
    share = warmup if warmup < 1 else warmup / steps if steps else None
    if share is not None and not LOW <= share <= HIGH:
        yield f"warm-up is {share * 100:.3g} % of the steps; 1 to 10 % is usual"


def _number(flat: Mapping[str, Any], names: Sequence[str]) -> float | None:
    for name in names:
        for key, value in flat.items():
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if is_number and key.rpartition(".")[2] == name:
                return float(value)
    return None
