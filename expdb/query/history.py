"""`log --graph`: runs as trees of parents, what changed in each and what came of it.

Invariant: it ends whatever the parents say: a parent that is not in the store makes a root, and a
circle of parents is cut. Configs come from the index in one query, under the rules of the newest
run; files are counted by one git process.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from expdb.git.command import GitError
from expdb.git.tree_counts import num_changed
from expdb.git.worktree import WorkTree, find_worktree
from expdb.index.reader import Reader
from expdb.model import RunAt, RunState
from expdb.query.config_changes import config_changes, fingerprint
from expdb.query.diffs import rules_in
from expdb.query.effects import Effects
from expdb.query.family import Group, grouped, with_ancestors
from expdb.query.history_results import CodeChange, History, KeyChange, Node
from expdb.query.noise import settings_of
from expdb.query.results import RunRow
from expdb.query.runs import baseline_row, default_objective, run_rows
from expdb.query.things import counts, used_changes

FACTS: Final = """
    SELECT r.id, r.fork, r.fork_step, r.tree, r.branch, a.data, a.environment
    FROM runs r LEFT JOIN attempts a ON a.run = r.id AND a.number = r.num_attempts
    WHERE r.id IN (SELECT unnest(?))
"""
TRAINING_DATA: Final = "train"


class _Facts(NamedTuple):
    """What a row does not hold."""

    fork: RunAt | None
    tree: str | None
    branch: str | None
    data: Mapping[str, str]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """The runs of one history and all that is known of them."""

    by_id: Mapping[str, RunRow]
    facts: Mapping[str, _Facts]
    changes: Mapping[str, tuple[KeyChange, ...]]
    used: Mapping[str, tuple[str, ...]]
    """Run -> the files that its parent imported with another content, where both know theirs."""

    def parent(self, row: RunRow) -> RunRow | None:
        return self.by_id.get(row.parent) if row.parent is not None else None

    def data(self, row: RunRow) -> tuple[str, ...]:
        """Return the names of data that this run and its parent name with different digests."""
        parent = self.parent(row)
        if parent is None:
            return ()
        mine, other = self.facts[row.id].data, self.facts[parent.id].data
        return tuple(sorted(name for name in mine if other.get(name, mine[name]) != mine[name]))

    def environment(self, row: RunRow) -> tuple[str, ...]:
        """Return the names of the environment that differ and can move a number."""
        parent = self.parent(row)
        if parent is None:
            return ()
        mine, other = self.facts[row.id].environment, self.facts[parent.id].environment
        differ = (name for name in mine if other.get(name, mine[name]) != mine[name])
        return tuple(sorted(name for name in differ if counts(name)))

    def trees(self, row: RunRow) -> tuple[str, str] | None:
        """Return the trees of the parent and of the run where they differ."""
        parent = self.parent(row)
        if parent is None:
            return None
        before, after = self.facts[parent.id].tree, self.facts[row.id].tree
        return (before, after) if before and after and before != after else None

    def what_changed(self, row: RunRow) -> Hashable:
        """Return what is equal for runs that changed the same against their parents."""
        facts = self.facts[row.id]
        if self.parent(row) is None:
            return row.parent, row.digest, facts.tree
        return fingerprint(self.changes.get(row.id, ())), facts.tree, self.data(row)

    def fold_key(self, row: RunRow) -> Hashable | None:
        is_whole = row.state is RunState.FINISHED and row.seed is not None
        if not is_whole or row.value is None or not math.isfinite(row.value):
            return None
        return row.name, row.objective, self.facts[row.id].fork, self.what_changed(row)


def history(
    reader: Reader,
    *,
    cwd: Path,
    head: RunAt | None = None,
    limit: int | None = 50,
    where: str = "",
    params: Sequence[Any] = (),
) -> History:
    """Return the newest runs as trees, with their ancestors.

    Args:
        reader: the index.
        cwd: whose repository holds the code; the store's comes second.
        head: where this work tree came from.
        limit: how many of the newest runs; None for all.
        where: an SQL condition over `r` (runs); ancestors are shown whether it holds or not.
        params: the values bound in `where`.
    """
    condition = f" WHERE {where}" if where else ""
    newest = f"SELECT r.id FROM runs r{condition} ORDER BY r.created_at_ms DESC, r.id DESC"
    newest += "" if limit is None else f" LIMIT {int(limit)}"
    chosen = [row[0] for row in reader.rows(newest, params)]
    num_all = reader.rows(f"SELECT count(*) FROM runs r{condition}", params)[0][0]
    ids = with_ancestors(chosen, dict(reader.rows("SELECT id, parent FROM runs")))
    rows = run_rows(reader, where="r.id IN (SELECT unnest(?))", params=[ids], head=head)
    facts = _facts(reader, rows)
    rows = _without_chains(rows, facts)
    family = _family(reader, rows, facts)
    baseline = baseline_row(reader, head=head)
    trees = {run: facts.tree for run, facts in family.facts.items()}
    effects = Effects(reader, rows, trees, baseline)
    nodes = _nodes(grouped(rows, family.fold_key), family, effects)
    nodes = _with_file_counts(nodes, [cwd, reader.store.root.parent])
    objective = default_objective(reader, baseline)
    return History(
        nodes=nodes,
        num_shown=len(chosen),
        num_all=num_all,
        metric=objective.metric if objective is not None else None,
        noise=effects.noise(objective.metric) if objective is not None else None,
        warnings=tuple(effects.problems()),
    )


def _family(reader: Reader, rows: Sequence[RunRow], facts: Mapping[str, _Facts]) -> _Family:
    by_id = {row.id: row for row in rows}
    changes: dict[str, tuple[KeyChange, ...]] = {}
    used: dict[str, tuple[str, ...]] = {}
    if rows:
        newest = max(rows, key=lambda row: (row.created_at_ms, row.id))
        pairs = [(row.id, row.parent) for row in rows if row.parent in by_id and row.parent]
        ignore, seed_key = rules_in(settings_of(reader, newest))
        changes = config_changes(reader, pairs, ignore=ignore, seed_key=seed_key)
        used = used_changes(reader, pairs)
    return _Family(by_id=by_id, facts=facts, changes=changes, used=used)


def _facts(reader: Reader, rows: Sequence[RunRow]) -> dict[str, _Facts]:
    found = reader.rows(FACTS, [[row.id for row in rows]])
    return {
        run: _Facts(
            RunAt(run=fork, step=step) if fork else None,
            tree,
            branch,
            _digests(data),
            json.loads(environment or "{}"),
        )
        for run, fork, step, tree, branch, data, environment in found
    }


def _without_chains(rows: Sequence[RunRow], facts: Mapping[str, _Facts]) -> list[RunRow]:
    """Return the rows, each with the parent that the first seed of its config has.

    Stores hold runs whose recorded parent is another seed of their own config.
    """
    by_id = {row.id: row for row in rows}
    found = []
    for row in rows:
        seen, at = {row.id}, row.parent
        while at in by_id and at not in seen and _are_siblings(row, by_id[at], facts):
            seen.add(at)
            at = by_id[at].parent
        # In a circle of siblings nobody is the first: it is cut where others are.
        found.append(row if at in seen else replace(row, parent=at))
    return found


def _are_siblings(row: RunRow, other: RunRow, facts: Mapping[str, _Facts]) -> bool:
    """Tell whether two runs differ in the seed alone, by what the index has of them."""
    mine, its = facts[row.id], facts[other.id]
    if None in (row.seed, other.seed) or row.seed == other.seed or mine.fork is not None:
        return False
    if any(its.data.get(name, mine.data[name]) != mine.data[name] for name in mine.data):
        return False
    left = row.experiment, row.variant, row.digest, mine.tree
    return left == (other.experiment, other.variant, other.digest, its.tree)


def _digests(data: str | None) -> dict[str, str]:
    found = json.loads(data or "{}")
    return {
        name: str(about["digest"])
        for name, about in found.items()
        if isinstance(about, dict) and about.get("digest")
    }


def _nodes(groups: Sequence[Group], family: _Family, effects: Effects) -> tuple[Node, ...]:
    seen: set[Hashable] = set()
    nodes = []
    roots = [at for at, group in enumerate(groups) if group.parent is None]
    for at, group in enumerate(groups):
        siblings = roots if group.parent is None else groups[group.parent].children
        node = _node(group, family, effects, is_last=siblings[-1] == at)
        if group.parent is not None:
            mark = group.parent, node.lead.name, family.what_changed(node.lead)
            node = replace(node, is_same=mark in seen)
            seen.add(mark)
        nodes.append(node)
    return tuple(nodes)


def _node(group: Group, family: _Family, effects: Effects, *, is_last: bool) -> Node:
    rows = group.rows
    lead = rows[0]
    facts = family.facts[lead.id]
    parent = None if group.parent is None else family.parent(lead)
    values = [row.value for row in rows if row.value is not None]
    made = Node(
        rows=tuple(rows),
        parent=group.parent,
        children=tuple(group.children),
        depth=group.depth,
        is_last=is_last,
        lost_parent=lead.parent if lead.parent not in family.by_id else None,
        is_cycle=group.is_cycle,
        fork=facts.fork,
        code_at=_code_at(lead, facts.branch),
        value=sum(values) / len(values) if values else None,
    )
    if parent is None:
        return made
    data, trees = family.data(lead), family.trees(lead)
    effect = effects.of(rows, parent, same_data=set(data) <= {TRAINING_DATA})
    return replace(
        made,
        config=family.changes.get(lead.id, ()),
        code=CodeChange(before=trees[0], after=trees[1]) if trees else None,
        used=family.used.get(lead.id) if trees else (),
        data=data,
        environment=family.environment(lead),
        seed_differs=any(row.seed != parent.seed for row in rows),
        repeats_name=lead.name == parent.name,
        delta=effect.delta,
        against=effect.against,
    )


def _code_at(row: RunRow, branch: str | None) -> str:
    if row.commit is None:
        return ""
    at = row.commit[:7] + ("+" if row.dirty else "")
    if branch is None:
        return at
    return f"detached at {at}" if branch == "detached" else f"{branch} {at}"


def _with_file_counts(nodes: Sequence[Node], places: Sequence[Path]) -> tuple[Node, ...]:
    """Return the nodes with the number of files of each change of code that git can tell."""
    pairs = {(node.code.before, node.code.after) for node in nodes if node.code is not None}
    counts: dict[tuple[str, str], int] = {}
    for place in places:
        left = pairs - counts.keys()
        worktree = find_worktree(place) if left else None
        if isinstance(worktree, WorkTree):
            try:
                counts |= num_changed(worktree, sorted(left))
            except GitError:
                continue  # a change of code that cannot be counted is still a change
    return tuple(_counted(node, counts) for node in nodes)


def _counted(node: Node, counts: Mapping[tuple[str, str], int]) -> Node:
    if node.code is None:
        return node
    num_files = counts.get((node.code.before, node.code.after))
    return replace(node, code=replace(node.code, num_files=num_files))
