"""`expdb rm`: runs into the trash of the store, by renames; the op of this and of the way back.

    before  {"trash": [runs of this op that were in the trash]}
    after   the same afterwards: one of the two lists is empty

Invariant: nothing is deleted. All is checked before the first rename, under the locks of the runs;
the op comes first, so that whatever was moved has its record.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from expdb import text
from expdb.actions.live import LIVE
from expdb.actions.naming import named
from expdb.actions.results import RemovePlan, RemoveResult
from expdb.actions.unfinished import require_finished
from expdb.actions.writing import writing
from expdb.errors import Refused
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.model import Op, Run, RunAt
from expdb.query.target import BASELINE
from expdb.store import ops, trash, writers
from expdb.store.head import read_head
from expdb.store.ids import new_id
from expdb.store.layout import RunLayout
from expdb.store.recover import run_lock
from expdb.store.refs import read_refs
from expdb.store.runs import find_run_dir, read_run
from expdb.store.store import Store

Fault = tuple[str, str]
"""Why a run cannot go, and what to do first."""


def plan_removal(
    reader: Reader, runs: Sequence[str], *, worktree: WorkTree | None = None
) -> RemovePlan:
    """Return what `rm` would move; nothing is written.

    Raises:
        Refused: one of the runs is alive, named by a ref or a tag, or HEAD.
    """
    found = [reader.run(run) for run in runs]
    _require_removable(reader.store, found, worktree, id_cells=reader.id_length)
    return RemovePlan(
        runs=tuple(found),
        bytes={run.id: trash.size_of(reader.store.root / run.path) for run in found},
        children=_children(reader, runs),
    )


def remove(reader: Reader, plan: RemovePlan, *, worktree: WorkTree | None = None) -> RemoveResult:
    """Move the runs of a plan into the trash, and write one op.

    Raises:
        Refused: as `plan_removal`, or an op of this work tree was cut off; nothing was written.
        Conflict: another process is at one of the runs.
        Corrupt: the store cannot be written; `ops` names what was done.
    """
    if worktree is not None:
        require_finished(worktree, reader.store)
    runs = plan.runs
    one = named(runs[0], reader.id_length) if runs else ""
    what = f"rm {one}" if len(runs) == 1 else f"rm {len(runs):,} runs"
    op = trash_op("rm", what, [run.id for run in runs], into=True, worktree=worktree)
    put_all(reader.store, [run.id for run in runs], op, worktree, id_cells=reader.id_length)
    return RemoveResult(
        op=op.id, into=True, runs=tuple((run.id, run.name) for run in runs), bytes=plan.total
    )


def trash_op(
    kind: str,
    what: str,
    runs: Sequence[str],
    *,
    into: bool,
    worktree: WorkTree | None,
    undoes: str | None = None,
) -> Op:
    """Return the op of a move of runs `into` the trash or out of it, not written yet."""
    moved: Mapping[str, list[str]] = {"trash": list(runs)}
    nothing: Mapping[str, list[str]] = {"trash": []}
    return Op(
        id=new_id(),
        kind=kind,
        created_at_ms=ops.now_ms(),
        what=what,
        before=nothing if into else moved,
        after=moved if into else nothing,
        undoes=undoes,
        who=ops.who(),
        host=ops.host(),
        work_tree="" if worktree is None else str(worktree.git_dir),
    )


def put_all(
    store: Store, runs: Sequence[str], op: Op, worktree: WorkTree | None, *, id_cells: int
) -> None:
    """Write an op, and move its runs into the trash.

    Raises:
        Refused: one may not go; nothing was written.
        Conflict: another process is at one of them; nothing was written.
        Corrupt: the store cannot be written.
    """
    with ExitStack() as locks, writing(store):
        folders = [find_run_dir(store.root, run) for run in runs]
        for folder in folders:
            locks.enter_context(run_lock(store.root, RunLayout(folder)))
        for folder in folders:
            if writers.others(RunLayout(folder))[0]:
                raise Refused(
                    f"another process writes to run {RunLayout(folder).id}; nothing written",
                    hint="wait for its end, then again",
                )
        # Looked at again: under its lock no other process resumes or mends a run.
        found = [read_run(folder, store_root=store.root) for folder in folders]
        _require_removable(store, found, worktree, id_cells=id_cells)
        ops.write_op(store.layout, op)
        for one, folder in zip(found, folders, strict=True):
            trash.put(store.layout, folder, name=one.name, op=op.id)


def _require_removable(
    store: Store, runs: Sequence[Run], worktree: WorkTree | None, *, id_cells: int
) -> None:
    names: dict[str, list[tuple[str, str]]] = {}
    for ref in read_refs(store.layout).values():
        names.setdefault(ref.run, []).append((ref.kind, ref.name))
    head = None if worktree is None else read_head(worktree.git_dir)
    at = None if head is None else head.at
    faults = [
        (run, fault) for run in runs if (fault := _fault(run, names.get(run.id, []), at, id_cells))
    ]
    if not faults:
        return
    if len(runs) == 1:
        _, (why, hint) = faults[0]
        raise Refused(f"{named(runs[0], id_cells)} {why}; nothing written", hint=hint)
    raise Refused(
        f"{len(faults):,} of {len(runs):,} runs cannot be removed; nothing written",
        details=tuple(f"{named(run, id_cells)} {why}" for run, (why, _) in faults[:20]),
        hint=faults[0][1][1],
    )


def _fault(
    run: Run, names: Sequence[tuple[str, str]], head: RunAt | None, id_cells: int
) -> Fault | None:
    short = text.short_id(run.id, id_cells)
    if run.state in LIVE:
        return f"is {run.state}", f"stop it first: expdb ctl {short} stop"
    for kind, name in names:
        shown = text.plain(name)
        why = f"is named by the {kind} {shown}"
        if kind == "tag":
            return why, f"remove the tag first: expdb tag -d {shlex.quote(shown)}"
        return why, f"name another run first: expdb {BASELINE} RUN"
    if head is not None and head.run == run.id:
        return "is HEAD of this work tree", "go elsewhere first: expdb rollback RUN, or expdb undo"
    return None


def _children(reader: Reader, runs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return run -> the other runs that name it as their parent or were forked from it."""
    sql = """
        SELECT DISTINCT named, id FROM (
            SELECT parent AS named, id FROM runs UNION ALL SELECT fork AS named, id FROM runs)
        WHERE named IN (SELECT unnest(?)) ORDER BY id
    """
    found: dict[str, tuple[str, ...]] = {}
    for parent, child in reader.rows(sql, [list(runs)]):
        if child not in runs:
            found[parent] = (*found.get(parent, ()), child)
    return found
