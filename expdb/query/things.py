"""How many things changed at once between two runs (and so whether an effect has one cause).

Invariant: keys of one config group count as one thing, since a group is exchanged as a whole; a
file counts by itself, environment and data are one each. Only what both sides recorded can differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from expdb.index.reader import Reader

if TYPE_CHECKING:
    from expdb.query.compare_results import Comparison, NamedDiff

SHOWN_ONLY: Final = frozenset({"cpu", "driver", "packages"})
"""Names of the environment that are shown and do not count: the machines of one cluster differ in
them, and most packages are never imported. Those that decide numbers stand by their own names.
"""
PACKAGE: Final = "package "
"""What stands before the name of an installed package that differs."""

USED: Final = """
    WITH pairs AS (SELECT unnest(?) AS run, unnest(?) AS parent),
    newest AS (
        SELECT u.run, u.path, u.blob FROM used_files u
        JOIN runs r ON r.id = u.run AND u.attempt = r.num_attempts
    )
    SELECT p.run, a.path FROM pairs p
    JOIN newest a ON a.run = p.run
    JOIN newest b ON b.run = p.parent AND b.path = a.path
    WHERE a.blob <> b.blob ORDER BY p.run, a.path
"""
KNOWN: Final = "SELECT DISTINCT run FROM used_files WHERE run IN (SELECT unnest(?))"


def groups_in(keys: Iterable[str]) -> list[str]:
    """Return a name for each config group: its key where it has one, else `schedule (4 keys)`."""
    groups: dict[str, list[str]] = {}
    for key in keys:
        groups.setdefault(key.split(".")[0], []).append(key)
    return [
        found[0] if len(found) == 1 else f"{group} ({len(found):,} keys)"
        for group, found in groups.items()
    ]


def things_between(comparison: Comparison) -> tuple[str, ...]:
    """Return the name of each thing that differs between two runs; none of more than two."""
    if len(comparison.runs) != 2:
        return ()
    found = groups_in(diff.key for diff in comparison.config if diff.differs)
    found += _files(comparison)
    if differing(comparison.environment):
        found.append("environment")
    if any(_differs(diff) for diff in comparison.data):
        found.append("data")
    return tuple(found)


def differing(environment: Sequence[NamedDiff]) -> list[str]:
    """Return the names of an environment that differ and can move a number."""
    return [diff.name for diff in environment if counts(diff.name) and _differs(diff)]


def counts(name: str) -> bool:
    """Tell whether a name of the environment can move a number."""
    return name not in SHOWN_ONLY and not name.startswith(PACKAGE)


def _differs(diff: NamedDiff) -> bool:
    return None not in diff.values and len(set(diff.values)) > 1


def _files(comparison: Comparison) -> list[str]:
    """Return the files that both imported and that differ; else those of the trees.

    A config file changes the config, which is told by its keys.
    """
    code = comparison.code
    if code.same_tree is not False:
        return []
    old, new = (run.pin.used for run in comparison.runs)
    if old and new:
        return used_differing(old, new)
    if not code.files:
        return ["code"]
    return [file.path for file in code.files if not file.path.startswith("conf/")]


def used_differing(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return the paths that both sides imported with another content, sorted."""
    return sorted(path for path, blob in new.items() if old.get(path, blob) != blob)


def used_changes(reader: Reader, pairs: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Return run -> the files that it and its parent imported with another content.

    `pairs` are (run, parent); a run of which one side does not know its files is left out.
    """
    if not pairs:
        return {}
    runs, parents = zip(*pairs, strict=True)
    known = {row[0] for row in reader.rows(KNOWN, [[*runs, *parents]])}
    found: dict[str, Any] = {run: () for run, parent in pairs if run in known and parent in known}
    for run, path in reader.rows(USED, [list(runs), list(parents)]):
        found[run] = (*found[run], path)
    return found
