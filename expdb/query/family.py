"""Which runs of a history hang on which: seeds folded, circles of damaged parents cut.

Invariant: every run given stands in exactly one group, whatever the parents say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from expdb.query.results import RunRow

FoldKey = Callable[[RunRow], Hashable | None]
"""Equal for runs of one parent that differ in the seed alone; None for a run that stands alone."""


@dataclass(slots=True, kw_only=True)
class Group:
    """Runs that are drawn as one, and where."""

    rows: list[RunRow]
    """By seed."""
    parent: int | None
    """The place of the parent's group."""
    depth: int
    is_cycle: bool = False
    children: list[int] = field(default_factory=list)


def with_ancestors(chosen: Iterable[str], parents: Mapping[str, str | None]) -> list[str]:
    """Return the runs chosen and all above them that the store has."""
    found: dict[str, None] = {}
    for run in chosen:
        at: str | None = run
        while at is not None and at in parents and at not in found:
            found[at] = None
            at = parents[at]
    return list(found)


def grouped(rows: Sequence[RunRow], fold_key: FoldKey) -> list[Group]:
    """Return the groups in the order in which they are drawn: depth first, the oldest first."""
    by_id = {row.id: row for row in rows}
    below: dict[str, list[RunRow]] = {run: [] for run in by_id}
    roots: list[RunRow] = []
    for row in rows:
        if row.parent in by_id:
            below[row.parent].append(row)
        else:
            roots.append(row)
    cut = _cuts(by_id, roots, below)
    groups: list[Group] = []
    top = _folded([*roots, *(by_id[run] for run in cut)], fold_key)
    stack: list[tuple[list[RunRow], int | None]] = [(made, None) for made in reversed(top)]
    while stack:
        members, parent = stack.pop()
        at = len(groups)
        depth = 0 if parent is None else groups[parent].depth + 1
        is_cycle = any(row.id in cut for row in members)
        groups.append(Group(rows=members, parent=parent, depth=depth, is_cycle=is_cycle))
        if parent is not None:
            groups[parent].children.append(at)
        children = [row for member in members for row in below[member.id] if row.id not in cut]
        stack += [(made, at) for made in reversed(_folded(children, fold_key))]
    return groups


def _cuts(
    by_id: Mapping[str, RunRow], roots: Iterable[RunRow], below: Mapping[str, Sequence[RunRow]]
) -> set[str]:
    """Return the oldest run of each circle: nothing else leads to the runs below it."""
    reached: set[str] = set()
    _reach((row.id for row in roots), below, reached)
    cut: set[str] = set()
    for run in by_id:
        if run in reached:
            continue
        path: dict[str, int] = {}
        at: str | None = run
        while at is not None and at not in path:
            path[at] = len(path)
            at = by_id[at].parent
        circle = list(path)[path[at] :] if at is not None else []
        oldest = min(circle, key=lambda one: _age(by_id[one]))
        cut.add(oldest)
        _reach([oldest], below, reached)
    return cut


def _reach(runs: Iterable[str], below: Mapping[str, Sequence[RunRow]], reached: set[str]) -> None:
    stack = list(runs)
    while stack:
        run = stack.pop()
        if run not in reached:
            reached.add(run)
            stack += [row.id for row in below[run]]


def _age(row: RunRow) -> tuple[int, str]:
    return row.created_at_ms, row.id


def _folded(rows: Collection[RunRow], fold_key: FoldKey) -> list[list[RunRow]]:
    """Return the groups of some siblings: those of one name together, the oldest first.

    A seed stands in a group once; of several runs of one seed the newest folds with the others.
    """
    made: dict[Hashable, list[RunRow]] = {}
    seen: Counter[Hashable] = Counter()
    for row in sorted(rows, key=_age, reverse=True):
        key = fold_key(row)
        place: Hashable = row.id
        if key is not None:
            place = key, seen[key, row.seed]
            seen[key, row.seed] += 1
        made.setdefault(place, []).append(row)
    first: dict[str, tuple[int, str]] = {}
    for row in sorted(rows, key=_age):
        first.setdefault(row.name, _age(row))
    groups = [sorted(group, key=lambda row: (row.seed or 0, _age(row))) for group in made.values()]
    return sorted(groups, key=lambda group: (first[group[0].name], min(map(_age, group))))
