"""What the history shows: the lineage, the operations, and how the work tree stands; read in worker
threads only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from expdb.actions.ops import op_rows
from expdb.actions.results import OpRow
from expdb.errors import ExpdbError
from expdb.git.command import GitError
from expdb.git.status import read_edits
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.model import Run, RunAt
from expdb.query.history import history
from expdb.query.history_results import History, Node
from expdb.query.results import RunRow
from expdb_tui.history.lanes import LaneRow, lanes

MOST_RUNS = 400
"""So many of the newest runs, with their ancestors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One node of the graph: a run, or the seeds of a variant."""

    node: Node
    rows: tuple[RunRow, ...]

    @property
    def lead(self) -> RunRow:
        """The run that stands for it: HEAD's where it is one of them."""
        return next((row for row in self.rows if row.is_head), self.rows[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRead:
    """What was read."""

    history: History
    nodes: tuple[Shown, ...]
    parents: tuple[int | None, ...]
    graph: tuple[LaneRow, ...]
    ops: tuple[OpRow, ...]
    edits: int | None
    """Edited files of the work tree; None where there is none."""
    head: RunAt | None


def read_history(
    reader: Reader, *, directory: Path, worktree: WorkTree | None, head: RunAt | None, unfolds: bool
) -> HistoryRead:
    """Return the lineage of the newest runs and the operations; with `unfolds` each seed alone."""
    found = history(reader, cwd=directory, head=head, limit=MOST_RUNS)
    nodes, parents = _nodes(found, unfolds=unfolds)
    times = [max(row.created_at_ms for row in one.rows) for one in nodes]
    return HistoryRead(
        history=found,
        nodes=tuple(nodes),
        parents=tuple(parents),
        graph=tuple(lanes(parents, times)),
        ops=tuple(op_rows(reader.store, worktree)),
        edits=_edits(worktree),
        head=head,
    )


def _edits(worktree: WorkTree | None) -> int | None:
    try:
        return None if worktree is None else len(read_edits(worktree))
    except (GitError, OSError):
        return None


def _nodes(found: History, *, unfolds: bool) -> tuple[list[Shown], list[int | None]]:
    """Return the nodes and their parents; the first seed is the parent of what came from a node."""
    if not unfolds:
        return [Shown(node=node, rows=node.rows) for node in found.nodes], [
            node.parent for node in found.nodes
        ]
    places: list[int] = []
    nodes: list[Shown] = []
    for node in found.nodes:
        places.append(len(nodes))
        nodes += [Shown(node=node, rows=(row,)) for row in node.rows]
    parents = [None if one.node.parent is None else places[one.node.parent] for one in nodes]
    return nodes, parents


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is said of the node under the cursor."""

    run: Run
    node: Shown
    parent: str
    children: tuple[str, ...]


def read_facts(reader: Reader, found: HistoryRead, at: int) -> Facts | None:
    """Return what is to be said of a node; None where its run cannot be read."""
    one = found.nodes[at]
    try:
        run = reader.run(one.lead.id)
    except ExpdbError:
        return None
    above = found.parents[at]
    children = [found.nodes[n].lead.name for n, parent in enumerate(found.parents) if parent == at]
    return Facts(
        run=run,
        node=one,
        parent="" if above is None else _named(found.nodes[above].lead),
        children=tuple(dict.fromkeys(children)),
    )


def _named(row: RunRow) -> str:
    return f"{row.id[:4]} {row.name}"


def place_of(nodes: Sequence[Shown], run: str | None) -> int | None:
    """Return the node that a run is of."""
    return next((at for at, one in enumerate(nodes) if any(r.id == run for r in one.rows)), None)
