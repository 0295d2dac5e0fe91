"""`expdb doctor --conf EXP`: every key of one experiment, its value, and the line that it is from.

Invariant: the last file that says a key wins, as in Hydra; what the one before it said is `was`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from expdb import digest
from expdb.actions.conf_check import check_experiment
from expdb.errors import BadInput, NotFound
from expdb.git.worktree import Unavailable, find_worktree
from expdb.index.reader import Reader
from expdb.query.composed import Config, Failure, Layer, composer
from expdb.query.composed_files import Unreadable, read_config_file
from expdb.query.conf import Conf, ignored_keys, open_conf, settings_of
from expdb.query.declared_results import Declaration
from expdb.query.declaring import declare
from expdb.query.entry import Entry
from expdb.query.standing import Standing, standings
from expdb.text import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one file says of a key."""

    value: Any
    where: str
    """`conf/exp/exp01.yaml:5`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """One key of a composed config."""

    key: str
    value: Any
    where: str
    was: Said | None = None
    """What the file said that this one is laid over, if any did."""
    is_added: bool = False
    """Whether the base of the experiment has no such key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfDetail:
    """One experiment, key by key."""

    name: str
    num_keys: int
    digest: str
    base: str
    """The experiment that it extends, else `base`: the config without an experiment."""
    changed: tuple[str, ...]
    """Keys whose value the base has not; those that it lacks are marked in `rows`."""
    stands: tuple[Standing, ...] | None
    """How each run that it declares stands to it, as in `status`; None where there is no store."""
    rows: tuple[KeyRow, ...]
    """Those that an experiment's file says first, then all others by key."""
    remarks: tuple[str, ...] = ()


def explain(
    entry: Entry, name: str, *, directory: Path, reader: Reader | None = None
) -> ConfDetail:
    """Return where every value of an experiment is from; paths are relative to `directory`.

    Raises:
        NotFound: no experiment is called so.
        BadInput: it cannot be composed.
    """
    with composer(entry) as made:
        conf = open_conf(made)
        if name not in conf.files:
            near = get_close_matches(name, list(conf.files), n=2)
            hint = f"nearest: {', '.join(near)}" if near else "all: expdb doctor --conf"
            where = f"{entry.folder.name}/{conf.group}"
            raise NotFound(f"no experiment is called {plain(name)} in {where}", hint=hint)
        row = check_experiment(conf, name)
        config = conf.config(name)
        if row.num_keys is None or isinstance(config, Failure):
            why = row.remarks[0] if row.remarks else "it cannot be composed"
            raise BadInput(f"{plain(name)} cannot be composed: {why}", hint="expdb doctor --conf")
        said = _said(made.layers(config.overrides), entry, directory)
        base = made.compose()
        under = _said(made.layers([]), entry, directory) if isinstance(base, Config) else {}
        stands = _stands(reader, entry, conf, name)
    ignore, seed_key = ignored_keys(settings_of(config))
    canonical = config.composed.canonical
    counted = digest.counted(canonical, ignore=ignore, seed_key=seed_key)
    changed = {}
    if isinstance(base, Config):
        changed = digest.differing(base.composed.canonical, canonical)
    rows = [
        replace(_row(key, value, said, under if key in changed else {}), is_added=key in row.added)
        for key, value in config.composed.flat.items()
        if key in counted
    ]
    own = _own_files(conf, entry, directory)
    rows.sort(key=lambda one: (one.was is None, one.where.rpartition(":")[0] not in own, one.key))
    return ConfDetail(
        name=name,
        num_keys=len(counted),
        digest=digest.digest(canonical, ignore=ignore, seed_key=seed_key),
        base=row.base,
        changed=row.changed,
        stands=stands,
        rows=tuple(rows),
        remarks=row.remarks,
    )


def _said(layers: Sequence[Layer], entry: Entry, directory: Path) -> dict[str, list[Said]]:
    """Return key -> what each file says of it, the one that wins last."""
    out: dict[str, list[Said]] = {}
    for layer in layers:
        shown = f"expdb:{layer.name}.yaml"
        lines: dict[str, int] = {}
        if layer.folder is not None:
            path = layer.folder / f"{layer.name}.yaml"
            if layer.folder == entry.folder:
                shown = os.path.relpath(path, directory)
            lines = dict(_lines(path, layer.package))
        for key, value in layer.values.items():
            line = f":{lines[key]}" if key in lines else ""
            out.setdefault(key, []).append(Said(value=value, where=f"{shown}{line}"))
    return out


def _lines(path: Path, package: str) -> Iterator[tuple[str, int]]:
    try:
        found = read_config_file(path).lines
    except Unreadable:
        return
    for key, line in found.items():
        yield f"{package}.{key}" if package else key, line


def _row(key: str, value: Any, said: dict[str, list[Said]], under: dict[str, list[Said]]) -> KeyRow:
    """Return the row of a key; one that an interpolation brought in is from the key above it.

    `under` is what the base says of it, where that is another value: its group may be another.
    """
    parts = digest.PART.findall(key)
    for count in range(len(parts), 0, -1):
        above = ".".join(parts[:count])
        if above in said:
            *before, last = said[above]
            lower = (before or under.get(key) or []) if above == key else []
            was = lower[-1] if lower else None
            return KeyRow(key=key, value=value, where=last.where, was=was)
    return KeyRow(key=key, value=value, where="")


def _own_files(conf: Conf, entry: Entry, directory: Path) -> set[str]:
    folder = entry.folder / conf.group
    return {os.path.relpath(folder / f"{name}.yaml", directory) for name in conf.files}


def _stands(
    reader: Reader | None, entry: Entry, conf: Conf, name: str
) -> tuple[Standing, ...] | None:
    """Return how the runs of an experiment stand to it; None without a store."""
    if reader is None:
        return None
    found = find_worktree(entry.folder)
    worktree = None if isinstance(found, Unavailable) else found
    declared = Declaration(entry=entry, group=conf.group, experiments=(declare(conf, name),))
    return tuple(standings(reader, declared, worktree))
