"""Runs as `log --why` sees them: what each is made of, seeds of one make together.

Invariant: a config key is equal by type and value, under the rules of the newest run. Files,
environment and data differ only where both sides name them: a file that one config imports and the
other does not is no change of code, and an older run that records less did not run elsewhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from expdb import digest
from expdb.index.reader import Reader
from expdb.model import Objective
from expdb.query.config_changes import decode
from expdb.query.results import ABSENT
from expdb.query.runs import value_sql
from expdb.query.things import counts
from expdb.query.why_results import Change

RUNS: Final = """
    SELECT r.id, r.parent, r.seed, r.state = 'finished' AND len(r.lacks) = 0, {value},
        r.experiment || r.variant, r.fork, r.fork_step, r.tree, a.environment, a.data,
        EXISTS (SELECT 1 FROM params p WHERE p.run = r.id)
    FROM runs r
    LEFT JOIN attempts a ON a.run = r.id AND a.number = r.num_attempts
    LEFT JOIN series s ON s.run = r.id AND s.key = ?
    ORDER BY r.created_at_ms, r.id
"""
PARAMS: Final = """
    SELECT run, key, kind, text FROM params WHERE key IN (
        SELECT key FROM params GROUP BY key
        HAVING count(DISTINCT (kind, text)) > 1 OR count(*) < (SELECT count(*) FROM runs)
    )
"""
"""Only keys that are not the same everywhere: a key that all runs share separates none."""
USED: Final = """
    SELECT run, path, blob FROM used_files WHERE path IN (
        SELECT path FROM used_files GROUP BY path HAVING count(DISTINCT blob) > 1
    ) ORDER BY attempt
"""
HAS_USED: Final = "SELECT DISTINCT run FROM used_files"

Text = tuple[str | None, str | None]
"""Kind and text of a config value in the index."""


@dataclass(slots=True, kw_only=True)
class Group:
    """The runs of one make: of one name, and different from each other in the seed alone."""

    config: Mapping[str, Text]
    start: str
    """The run and step whose weights it began with; empty from scratch."""
    has_config: bool
    used: Mapping[str, Hashable] | None
    """Path -> blobs, of the files that are not the same in all runs; None where unknown."""
    tree: str | None
    environment: Mapping[str, str]
    data: Mapping[str, str]
    name: str
    runs: list[str] = field(default_factory=list)
    """All of them, the oldest first."""
    found: dict[int | None, tuple[str, float]] = field(default_factory=dict)
    """Seed -> the newest finished run with a finite value and all that it requires."""

    @property
    def strict(self) -> Hashable:
        """Return what has to be equal for two groups to differ in code or surroundings alone."""
        unknown = "" if self.has_config else self.runs[0]
        return frozenset(self.config.items()), self.start, unknown

    @property
    def mean(self) -> float | None:
        """The mean over the seeds that have a value."""
        values = [value for _, value in self.found.values()]
        return math.fsum(values) / len(values) if values else None


def groups_of(
    reader: Reader, objective: Objective, *, ignore: Sequence[str], seed_key: str
) -> list[Group]:
    """Return all runs of the store as groups, the one with the oldest run first."""
    configs = _configs(reader, [*ignore, seed_key])
    used = _used(reader)
    made: dict[Hashable, Group] = {}
    sql = RUNS.format(value=value_sql(objective)[0])
    for row in reader.rows(sql, [objective.metric]):
        run, _, seed, does_count, value, name, fork, fork_step, tree, environment, data, has = row
        config = configs.get(run, {})
        start = "" if fork is None else f"{fork}@{fork_step}"
        files = used.get(run)
        unknown = "" if has else run
        code = tree if files is None else frozenset(files.items())
        key = name, frozenset(config.items()), start, unknown, code, environment, data
        if key not in made:
            made[key] = Group(
                name=name,
                config=config, start=start, has_config=has, used=files, tree=tree,
                environment=_texts(environment), data=_digests(data),
            )  # fmt: skip
        group = made[key]
        group.runs.append(run)
        if does_count and value is not None and math.isfinite(value):
            group.found[seed] = run, value
    return list(made.values())


def _configs(reader: Reader, apart: Sequence[str]) -> dict[str, dict[str, Text]]:
    counted: dict[str, bool] = {}
    found: dict[str, dict[str, Text]] = {}
    for run, key, kind, text in reader.rows(PARAMS):
        if key not in counted:
            counted[key] = not digest.ignored(key, apart)
        if counted[key]:
            found.setdefault(run, {})[key] = (kind, text)
    return found


def _used(reader: Reader) -> dict[str, dict[str, Hashable]]:
    """Return run -> path -> the blobs that its attempts used, in their order."""
    found: dict[str, dict[str, Any]] = {run: {} for (run,) in reader.rows(HAS_USED)}
    for run, path, blob in reader.rows(USED):
        blobs = found[run].get(path, ())
        if blob not in blobs:
            found[run][path] = (*blobs, blob)
    return found


def _texts(environment: str | None) -> dict[str, str]:
    found = json.loads(environment or "{}")
    return {str(k): str(v) for k, v in found.items() if counts(str(k))}


def _digests(data: str | None) -> dict[str, str]:
    found = json.loads(data or "{}")
    return {
        name: str(about["digest"])
        for name, about in found.items()
        if isinstance(about, dict) and about.get("digest")
    }


def loose_changes(old: Group, new: Group) -> list[Change]:
    """Return what differs in files, environment and data, of which the last two are one thing each.

    Of files that were imported, else of the whole tree where a side does not know what it imported.
    """
    changes: list[Change] = []
    if old.used is not None and new.used is not None:
        for path in sorted(_both(old.used, new.used)):
            before, after = _blobs(old.used[path]), _blobs(new.used[path])
            changes.append(Change(kind="file", name=path, before=before, after=after))
    elif old.tree and new.tree and old.tree != new.tree:
        changes.append(Change(kind="code", name="code", before=old.tree, after=new.tree))
    if old.environment is not new.environment:
        changes += _one("environment", old.environment, new.environment)
    return [*changes, *_one("data", old.data, new.data)]


def _blobs(blobs: Any) -> str:
    return ", ".join(blobs)


def _both(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [name for name, value in old.items() if new.get(name, value) != value]


def _one(kind: Any, old: Mapping[str, str], new: Mapping[str, str]) -> list[Change]:
    names = sorted(_both(old, new))
    if not names:
        return []
    before, after = (", ".join(one[name] for name in names) for one in (old, new))
    return [Change(kind=kind, name=", ".join(names), before=before, after=after)]


def unknown_of(old: Group, new: Group) -> tuple[str, ...]:
    """Return what of the two cannot be told to be equal."""
    found = []
    if not (old.has_config and new.has_config):
        found.append("config")
    if (old.tree is None) != (new.tree is None):
        found.append("code")
    return tuple(found)


def changes_between(old: Group, new: Group) -> tuple[Change, ...]:
    """Return everything that differs: the keys that both have, other keys, then the rest."""
    keys = sorted(
        (key for key in old.config.keys() | new.config.keys() if _differs(old, new, key)),
        key=lambda key: (key not in old.config or key not in new.config, key),
    )
    found = [config_change(old, new, key) for key in keys]
    if old.start != new.start:
        before, after = old.start or "scratch", new.start or "scratch"
        found.append(Change(kind="start", name="weights", before=before, after=after))
    return (*found, *loose_changes(old, new))


def _differs(old: Group, new: Group, key: str) -> bool:
    return old.config.get(key) != new.config.get(key)


def config_change(old: Group, new: Group, key: str) -> Change:
    """Return the change of one config key."""
    before, after = (
        ABSENT if key not in group.config else decode(*group.config[key]) for group in (old, new)
    )
    return Change(kind="config", name=key, before=before, after=after)
