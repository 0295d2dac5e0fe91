"""`status`: the work tree against HEAD, what is declared, and the newest run of everything else.

Invariant: git's own index is not written; what git cannot tell is said in plain words.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from expdb import text
from expdb.errors import Corrupt
from expdb.git.command import GitError
from expdb.git.index import refresh, temp_index
from expdb.git.status import read_edits
from expdb.git.worktree import Unavailable, WorkTree, find_worktree
from expdb.index.reader import Reader
from expdb.model import RunAt, RunState
from expdb.query.declared_results import Declaration
from expdb.query.deltas import with_deltas
from expdb.query.noise import noise_of
from expdb.query.results import RunRow
from expdb.query.runs import any_has_gates, baseline_row, default_objective, run_rows
from expdb.query.standing import Standing, standings
from expdb.query.status_results import StatusRow, StoreStatus, WorkTreeStatus
from expdb.store.ops import StoreGone, find_unfinished, is_held

if TYPE_CHECKING:
    from expdb.query.gates import GateResult

NEWEST_OF_EACH = """r.id IN (
    SELECT arg_max(id, (created_at_ms, id)) FROM runs GROUP BY experiment, variant, seed)"""


def store_status(
    reader: Reader,
    *,
    cwd: Path,
    head: RunAt | None,
    declared: Declaration | None = None,
    deltas: bool = True,
) -> StoreStatus:
    """Return how the work tree around `cwd` stands, what is declared, and the runs of the store.

    Without `deltas` no run is measured against the baseline: an unfinished one would have points of
    the baseline read, and the libraries for it loaded.

    Raises:
        Corrupt: the config of a run that has to be compared with what is declared is damaged.
    """
    warnings: list[str] = []
    here = find_worktree(cwd)
    stand = [] if declared is None else standings(reader, declared, _code_of(declared, cwd, here))
    chosen = [one.run for one in stand if one.run is not None]
    sql = f"{NEWEST_OF_EACH} OR r.id IN (SELECT unnest(?))"
    order = "r.experiment, r.variant, r.seed NULLS FIRST"
    found = run_rows(reader, where=sql, params=[chosen], order=order, head=head)
    baseline = baseline_row(reader, head=head)
    objective = default_objective(reader, baseline)
    if deltas and objective is not None and found:
        newest = max(found, key=lambda row: (row.created_at_ms, row.id))
        noise = noise_of(reader, baseline or newest, objective.metric, newest)
        found = with_deltas(reader, found, baseline, noise, problems=warnings)
    counts = reader.rows("SELECT state, count(*) FROM runs GROUP BY state ORDER BY state")
    untrainable = "" if declared is None else declared.entry.fault
    num_runs, size = reader.rows("SELECT count(*), coalesce(sum(bytes), 0) FROM runs")[0]
    return StoreStatus(
        work_tree=work_tree_status(reader, here, head=head, baseline=baseline),
        store=reader.store.name,
        num_runs=num_runs,
        bytes=int(size),
        rows=tuple(_rows(stand, found, _gates(reader, stand), untrainable)),
        counts=dict(counts),
        metric=objective.metric if objective is not None else None,
        warnings=tuple(warnings),
        entry=None if declared is None else declared.entry,
    )


def _code_of(declared: Declaration, cwd: Path, here: WorkTree | Unavailable) -> WorkTree | None:
    """Return the work tree that holds what is declared, mostly the one around `cwd`."""
    folder = declared.entry.folder
    found = here if _is_same(folder, cwd, here) else find_worktree(folder)
    return None if isinstance(found, Unavailable) else found


def _is_same(folder: Path, cwd: Path, here: WorkTree | Unavailable) -> bool:
    """Tell whether no other work tree can be around a folder, without asking git."""
    if isinstance(here, Unavailable):
        return folder == cwd
    inside, top = Path(os.path.realpath(folder)), Path(os.path.realpath(here.top))
    if not inside.is_relative_to(top):
        return False
    above = (inside, *inside.parents)
    return not any(os.path.lexists(one / ".git") for one in above[: above.index(top)])


def _gates(reader: Reader, stand: Sequence[Standing]) -> Mapping[str, tuple[GateResult, ...]]:
    """Return run -> how it stands to its gates, of the runs that are up to date."""
    runs = [one.run for one in stand if one.run is not None and one.state == "up to date"]
    if not any_has_gates(reader, runs):
        return {}
    from expdb.query.gates import own_results  # few runs have gates, and each class costs time

    return own_results(reader, runs)


def _rows(
    stand: Sequence[Standing],
    found: Sequence[RunRow],
    gates: Mapping[str, tuple[GateResult, ...]],
    untrainable: str,
) -> Iterator[StatusRow]:
    """Yield what is declared with its runs, and beside it the runs that nothing declares.

    `untrainable` is why nothing that is missing can be trained.
    """
    by_id = {row.id: row for row in found}
    taken = {(one.experiment, one.variant, one.seed) for one in stand}
    names = {one.experiment for one in stand}
    rows = [
        StatusRow(
            experiment=one.experiment,
            variant=one.variant,
            seed=one.seed,
            state=one.state,
            is_declared=True,
            run=by_id.get(one.run or ""),
            reasons=one.reasons,
            fault=one.fault or (untrainable if one.state == "missing" else ""),
            overrides=one.overrides,
            gates=gates.get(one.run or "", ()),
        )
        for one in stand
    ]
    newest: dict[tuple[str, str, int | None], RunRow] = {}
    for row in found:
        key = row.experiment, row.variant, row.seed
        if key not in taken and (key not in newest or _is_newer(row, newest[key])):
            newest[key] = row
    for row in newest.values():
        is_variant = row.experiment in names and row.state is RunState.FINISHED
        rows.append(
            StatusRow(
                experiment=row.experiment,
                variant=row.variant,
                seed=row.seed,
                state="variant" if is_variant and row.variant else row.state.value,
                is_declared=False,
                run=row,
            )
        )
    yield from sorted(rows, key=_place)


def _is_newer(row: RunRow, than: RunRow) -> bool:
    return (row.created_at_ms, row.id) > (than.created_at_ms, than.id)


def _place(row: StatusRow) -> tuple[str, str, bool, int]:
    return row.experiment, row.variant, row.seed is not None, row.seed or 0


def work_tree_status(
    reader: Reader,
    worktree: WorkTree | Unavailable,
    *,
    head: RunAt | None,
    baseline: RunRow | None,
) -> WorkTreeStatus:
    """Return how a work tree stands against HEAD, or git's HEAD if it is not set."""
    found = run_rows(reader, where="r.id = ?", params=[head.run], head=head) if head else []
    head_row = found[0] if found else None
    step = head.step if head is not None else None
    if isinstance(worktree, Unavailable):
        return WorkTreeStatus(
            in_git=False, reason=worktree.reason, head=head_row, head_step=step, baseline=baseline
        )
    try:
        tree = _pinned_tree(reader, worktree, head_row)
        edits = read_edits(worktree) if tree is None else edits_against(worktree, tree)
        reason = ""
    except (GitError, OSError) as error:
        tree, edits, reason = None, [], str(error)
    return WorkTreeStatus(
        in_git=True,
        reason=reason,
        branch=worktree.branch(),
        commit=worktree.head(),
        edits=tuple(edits),
        head=head_row,
        head_step=step,
        equals_head=tree is not None and not edits,
        baseline=baseline,
        unfinished=_unfinished(reader, worktree),
    )


def _pinned_tree(reader: Reader, worktree: WorkTree, head: RunRow | None) -> str | None:
    """Return the tree that HEAD's run is pinned to, where this repository has it."""
    if head is None:
        return None
    tree = reader.rows("SELECT tree FROM runs WHERE id = ?", [head.id])[0][0]
    return worktree.tree_of(tree) if tree else None


def edits_against(worktree: WorkTree, tree: str) -> list[tuple[str, str]]:
    """Return (letter, path) of all that differs from `tree`: M A D T, ? for what it does not have.

    Raises:
        GitError: git cannot read the repository.
        OSError: there is no room for a temporary index.
    """
    with temp_index(worktree, worktree.index_path) as index:
        worktree.git(("read-tree", "--reset", tree), index=index)
        refresh(worktree, index)
        words = iter(worktree.git(("diff-files", "--name-status", "-z"), index=index).names)
        found = [(letter, next(words)) for letter in words]
        others = ("ls-files", "--others", "--exclude-standard", "-z")
        found += [("?", path) for path in worktree.git(others, index=index).names]
    return sorted(found, key=lambda item: (item[0] == "?", item[1]))


def _unfinished(reader: Reader, worktree: WorkTree) -> str:
    """Return the line about a change of this work tree that was cut off, or nothing."""
    try:
        op = find_unfinished(worktree.git_dir, reader.store.layout)
    except (Corrupt, StoreGone) as error:
        return error.message
    if op is None:
        return ""
    what = text.plain(op.what or op.kind)
    ago = text.ago(op.created_at_ms, time.time_ns() // 1_000_000)
    if is_held(worktree.git_dir):
        return f"{what} is under way, since {ago}"
    return f"{what} stopped, {ago}"
