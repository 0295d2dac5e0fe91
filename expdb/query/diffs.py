"""What differs between runs besides their metrics: config, code, environment, data.

Invariant: configs are compared key by key under today's rules (those of the newest run given), not
by the digests that were made under the rules of their day.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from expdb import digest
from expdb.errors import Corrupt
from expdb.git.command import GitError
from expdb.git.diff import has_object, tree_diff
from expdb.git.worktree import Unavailable, WorkTree, find_worktree
from expdb.model import Run
from expdb.query.compare_results import CodeDiff, ConfigDiff, FileDiff, NamedDiff
from expdb.query.results import ABSENT
from expdb.query.things import PACKAGE
from expdb.store.layout import StoreLayout
from expdb.store.packages import read_packages
from expdb.store.siblings import is_sibling


def rules_of(runs: Sequence[Run]) -> tuple[tuple[str, ...], str]:
    """Return (ignored keys, seed key) of the newest run."""
    return rules_in(max(runs, key=lambda run: (run.created_at_ms, run.id)).settings)


def rules_in(settings: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    """Return (ignored keys, seed key) of the effective `expdb:` section of a run."""
    section = settings.get("digest")
    ignore = section.get("ignore", ()) if isinstance(section, Mapping) else ()
    seed_key = settings.get("seed_key")
    return tuple(map(str, ignore)), seed_key if isinstance(seed_key, str) else "seed"


def are_siblings(first: Run, other: Run) -> bool:
    """Tell whether two runs differ in the seed alone: not in config, code or data."""
    ignore, seed_key = rules_of((first, other))
    mine, its = data_digests(first), data_digests(other)
    if any(its.get(name, mine[name]) != mine[name] for name in mine):
        return False
    return is_sibling(
        first,
        seed=other.seed,
        canonical=other.canonical,
        tree=other.pin.tree,
        ignore=ignore,
        seed_key=seed_key,
    )


def config_diff(runs: Sequence[Run]) -> tuple[ConfigDiff, ...]:
    """Return every counted key of the configs, sorted, with its value in each run.

    Raises:
        Corrupt: the config in a run.json is damaged.
    """
    ignore, seed_key = rules_of(runs)
    configs = [_counted(run, ignore, seed_key) for run in runs]
    differ: set[str] = set()
    for run in runs[1:]:
        old, new = runs[0].canonical, run.canonical
        differ |= digest.differing(old, new, ignore=ignore, seed_key=seed_key).keys()
    return tuple(
        ConfigDiff(
            key=key,
            values=tuple(config.get(key, ABSENT) for config in configs),
            differs=key in differ,
        )
        for key in sorted(set().union(*configs))
    )


def _counted(run: Run, ignore: Sequence[str], seed_key: str) -> dict[str, Any]:
    try:
        return digest.counted(run.canonical, ignore=ignore, seed_key=seed_key)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Corrupt(f"the config in run.json of {run.id} is damaged") from error


def environment_diff(runs: Sequence[Run], store: StoreLayout) -> tuple[NamedDiff, ...]:
    """Return every named text of the environments, sorted, then the packages that differ.

    Of installed packages only those stand here, as `package NAME`, whose version is not the same in
    all runs; where the store lacks a list of them, the digests of the lists stand for them.
    """
    maps = [run.attempt.environment if run.attempt else {} for run in runs]
    named = _named(maps)
    lists = [read_packages(store, one.get("packages")) for one in maps]
    known = [one for one in lists if one is not None]
    if len(known) < len(lists):
        return named
    apart = {diff.name for diff in named}
    packages = (
        replace(diff, name=PACKAGE + diff.name)
        for diff in _named(known)
        if len(set(diff.values)) > 1 and diff.name not in apart
    )
    return (*(diff for diff in named if diff.name != "packages"), *packages)


def data_diff(runs: Sequence[Run]) -> tuple[NamedDiff, ...]:
    """Return the digest of every named data set, sorted; None where a run names none."""
    return _named([data_digests(run) for run in runs])


def data_digests(run: Run) -> dict[str, str]:
    """Return data name -> digest, of the latest attempt."""
    data = run.attempt.data if run.attempt else {}
    return {name: str(about["digest"]) for name, about in data.items() if about.get("digest")}


def _named(maps: Sequence[Mapping[str, str]]) -> tuple[NamedDiff, ...]:
    names = sorted(set().union(*maps))
    return tuple(
        NamedDiff(name=name, values=tuple(one.get(name) for one in maps)) for name in names
    )


def code_diff(runs: Sequence[Run], *, places: Sequence[Path]) -> CodeDiff:
    """Return how the code of the runs differs from the first's.

    `places` are folders in whose repositories the trees are looked for, in that order.
    """
    if why := unpinned(runs):
        return CodeDiff(same_tree=None, note=why)
    note = next(
        (
            f"{_label(r)}: {r.pin.reasons[0]}"
            for r in runs
            if r.pin.reasons and not r.pin.reproducible
        ),
        "",
    )
    trees = [run.pin.tree for run in runs if run.pin.tree is not None]
    if len(set(trees)) == 1:
        return CodeDiff(same_tree=True, note=note)
    worktree = repository(places, trees)
    if not isinstance(worktree, WorkTree):
        missing = next((run for run in runs[1:] if run.pin.tree != trees[0]), runs[0])
        return CodeDiff(same_tree=False, note=note or not_here(worktree, runs[0], missing))
    try:
        files = _files(worktree, trees)
    except (GitError, subprocess.SubprocessError) as error:
        return CodeDiff(same_tree=False, note=str(error))
    return CodeDiff(same_tree=False, files=files, note=note)


def unpinned(runs: Sequence[Run]) -> str:
    """Return which run has no code to compare, and why; empty where all have."""
    for run in runs:
        if run.pin.tree is None:
            why = run.pin.reasons[0] if run.pin.reasons else "its code was not pinned"
            return f"{_label(run)}: {why}"
    return ""


def repository(places: Sequence[Path], trees: Sequence[str]) -> WorkTree | str:
    """Return the repository that holds all trees, or why there is none."""
    why = "their commits are not in this repository"
    reasons = []
    for place in places:
        found = find_worktree(place)
        if isinstance(found, Unavailable):
            reasons.append(found.reason)
        elif all(has_object(found, tree) for tree in set(trees)):
            return found
    return reasons[0] if len(reasons) == len(places) and reasons else why


def not_here(why: str, first: Run, other: Run) -> str:
    """Return why the code of two runs cannot be compared, with their commits."""
    if first.pin.pinned and other.pin.pinned:
        return f"{first.pin.pinned[:7]} and {other.pin.pinned[:7]}: {why}"
    return why


def _files(worktree: WorkTree, trees: Sequence[str]) -> tuple[FileDiff, ...]:
    """Return the files that differ between the first tree and any other, sorted by path."""
    found: dict[str, FileDiff] = {}
    for tree in dict.fromkeys(trees[1:]):
        if tree == trees[0]:
            continue
        for item in tree_diff(worktree, trees[0], tree):
            found.setdefault(
                item.path,
                FileDiff(
                    status=item.status,
                    path=item.path,
                    num_added=item.added,
                    num_removed=item.removed,
                ),
            )
    return tuple(found[path] for path in sorted(found))


def _label(run: Run) -> str:
    return f"{run.id[:4]} {run.name}"
