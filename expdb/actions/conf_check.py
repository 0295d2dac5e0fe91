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
from expdb.query.composed import Config, Failure, composer
from expdb.query.conf import (
    BASE,
    Conf,
    faults,
    ignored_keys,
    open_conf,
    settings_of,
    sound,
)
from expdb.query.entry import Entry

WARMUP = ("warmup_steps", "num_warmup_steps", "warmup", "warmup_ratio")
STEPS = ("max_steps", "total_steps", "num_steps", "num_train_steps")
LOW, HIGH = 0.01, 0.10
"""The share of the steps that warm-up usually takes."""

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
    added: tuple[str, ...] = ()
    """Those of them that the base has not at all."""
    digest: str | None = None
    """The config digest; None where it cannot be composed."""
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


def check_experiment(conf: Conf, name: str) -> ConfRow:
    """Return the row of one experiment."""
    config = sound(conf, name)
    if isinstance(config, str):
        return ConfRow(name=name, mark="problem", remarks=(config,))
    wrong = list(faults(conf, config))
    settings = settings_of(config)
    base_name, base = conf.base(name)
    ignore, seed_key = ignored_keys(settings)
    counted = digest.counted(config.composed.canonical, ignore=ignore, seed_key=seed_key)
    changed: Mapping[str, Any] = {}
    new: list[str] = []
    if isinstance(base, Config):
        changed = digest.differing(
            base.composed.canonical, config.composed.canonical, ignore=ignore, seed_key=seed_key
        )
        new = sorted(config.composed.flat.keys() - base.composed.flat.keys())
    notes = [*_added(conf, config, new), *_warmup(config.composed.flat)]
    return ConfRow(
        name=name,
        mark="problem" if wrong else "note" if notes else "ok",
        num_keys=len(counted),
        base=base_name,
        changed=tuple(key for key, pair in changed.items() if pair[1] is not ABSENT)
        + tuple(key for key, pair in changed.items() if pair[1] is ABSENT),
        added=tuple(key for key, pair in changed.items() if pair[0] is ABSENT),
        digest=digest.digest(config.composed.canonical, ignore=ignore, seed_key=seed_key),
        remarks=(*wrong, *notes),
    )


def _remarks(conf: Conf) -> Iterable[str]:
    path = f"{conf.composer.entry.folder.name}/{conf.composer.entry.name}.yaml"
    base = conf.composer.compose()
    if isinstance(base, Failure):
        yield f"{path}: {base.message}"
    if conf.is_in_base:
        yield f"{path} has {conf.group} in its defaults list, so `+{conf.group}=NAME` fails"


def _added(conf: Conf, config: Config, keys: Sequence[str]) -> list[str]:
    """Return the line on keys that the base lacks, as a start of training warns of them."""
    found = conf.composer.added(config, keys, conf.group)
    if not found:
        return []
    (key, near), *more = sorted(found.items(), key=lambda item: not item[1])
    guess = f": a typo of {near}?" if near else ": a typo?"
    return [f"ADDS {key}{guess}" + (f" and {len(more):,} more" if more else "")]


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
