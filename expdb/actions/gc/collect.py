"""`expdb gc`: checkpoints beyond what runs keep and lists of packages that no run names go to the
trash, pins nobody needs are dropped, runs of many parts are folded.

    before  {"checkpoints": [], "pins": []}
    after   {"checkpoints": [[run, step], ...] set aside, "packages": [digest, ...] set aside,
             "pins": [commit, ...] dropped, "folded": [run, ...],
             "purged": [path in the trash, ...] deleted for good}

Invariant: without a purge all of it can be undone; folding loses no point, so nothing is to be
undone there. The op comes first; every checkpoint is looked
at again under the lock of its run, every pin under the lock of the repository.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from expdb.actions.gc.checkpoints import Override, checkpoint_items, still_goes
from expdb.actions.gc.packages import package_items, set_aside
from expdb.actions.gc.parts import fold, part_items
from expdb.actions.gc.pins import pin_items
from expdb.actions.gc.results import GcItem, GcPlan, GcResult
from expdb.actions.gc.trash import purge, trash_items
from expdb.actions.unfinished import require_finished
from expdb.actions.writing import writing
from expdb.errors import Conflict, ExpdbError, NotFound, Refused
from expdb.git.diff import has_object
from expdb.git.objects import drop_ref, set_ref
from expdb.git.stores import dropping
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.model import Op
from expdb.store import ops, packages, trash_checkpoints
from expdb.store.ids import new_id
from expdb.store.layout import RunLayout
from expdb.store.protected import needed_steps
from expdb.store.recover import run_lock
from expdb.store.runs import find_run_dir
from expdb.store.status import relist
from expdb.store.store import Store

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a collection is asked for."""

    runs: Sequence[str] | None = None
    """Only checkpoints of these runs; None for all, and for the pins too."""
    rule: Override = field(default_factory=Override)
    purge_ms: int | None = None
    """Delete for good what has been in the trash for so long; None deletes nothing."""


def plan_gc(
    reader: Reader, wanted: Wanted, *, now_ms: int, worktree: WorkTree | None = None
) -> GcPlan:
    """Return what a collection would do, and why everything else stays; nothing is written.

    Raises:
        Corrupt: a ref is damaged, so that it cannot be known what is needed.
        BadInput: a run declares no rule that makes sense.
    """
    problems: list[str] = []
    runs = wanted.runs
    if runs is None:
        runs = [str(row[0]) for row in reader.rows("SELECT id FROM runs ORDER BY created_at_ms")]
    items = list(checkpoint_items(reader, list(runs), wanted.rule, problems))
    items += part_items(reader, runs, problems)
    layout = reader.store.layout
    if wanted.runs is None or wanted.purge_ms is not None:
        items += trash_items(layout, now_ms=now_ms, purge_ms=wanted.purge_ms)
    purged = [layout.root / one.path for one in items if one.kind == "trash" and one.goes]
    if wanted.runs is None:
        items += package_items(layout, problems, purged=purged)
    if worktree is not None and wanted.runs is None:
        items += pin_items(reader.store, worktree, problems, purged=purged)
    left = sum(one.bytes for one in items if one.kind == "trash" and not one.goes)
    return GcPlan(items=tuple(items), problems=tuple(problems), trash_bytes=left)


def collect(
    reader: Reader, plan: GcPlan, wanted: Wanted, *, worktree: WorkTree | None = None
) -> GcResult:
    """Carry out a plan, and write one op.

    Raises:
        Refused: an op of this work tree was cut off; nothing was written.
        Corrupt: the store cannot be written; `ops` names what was done.
    """
    store = reader.store
    if worktree is not None:
        require_finished(worktree, store)
    if not plan.going():
        return GcResult(op=None, done=())
    left: list[str] = []
    with writing(store):
        op = _op(plan, worktree)
        ops.write_op(store.layout, op)
        done = _set_aside(reader, plan.going("checkpoint"), wanted.rule, op.id, left)
        done += _purge(store, plan.going("trash"), left)
        done += fold(store, plan.going("parts"), left)
        done += set_aside(store.layout, plan.going("packages"), op.id, left)
        pins = plan.going("pin")
        if worktree is not None and pins:
            done += _drop_pins(store, worktree, pins, left)
    return GcResult(op=op.id, done=tuple(done), left=tuple(left))


def _op(plan: GcPlan, worktree: WorkTree | None, *, undoes: str | None = None) -> Op:
    moved = plan.going("checkpoint")
    after: dict[str, list[Any]] = {
        "checkpoints": [[item.run, item.step] for item in moved],
        "packages": [item.what for item in plan.going("packages")],
        "pins": [item.what for item in plan.going("pin")],
        "folded": [item.run for item in plan.going("parts")],
        "purged": [item.path for item in plan.going("trash")],
    }
    return Op(
        id=new_id(),
        kind="gc",
        created_at_ms=ops.now_ms(),
        what=f"gc: {_words(after)}",
        before={"checkpoints": [], "pins": []},
        after=after,
        undoes=undoes,
        who=ops.who(),
        host=ops.host(),
        work_tree="" if worktree is None else str(worktree.git_dir),
    )


def _words(after: Mapping[str, Sequence[object]]) -> str:
    names = {
        "checkpoints": ("checkpoint", "checkpoints"),
        "pins": ("pin", "pins"),
        "packages": ("list of packages", "lists of packages"),
        "folded": ("run folded", "runs folded"),
        "purged": ("purged", "purged"),
    }
    found = {key: len(after.get(key, ())) for key in names}
    return ", ".join(f"{n:,} {names[key][n > 1]}" for key, n in found.items() if n)


def _set_aside(
    reader: Reader, items: Sequence[GcItem], rule: Override, op: str, left: list[str]
) -> list[GcItem]:
    store = reader.store
    needed = needed_steps(store) if items else {}
    by_run: dict[str, list[GcItem]] = {}
    for item in items:
        by_run.setdefault(item.run, []).append(item)
    done: list[GcItem] = []
    for run, wanted in by_run.items():
        try:
            layout = RunLayout(find_run_dir(store.root, run))
            with run_lock(store.root, layout):
                going: dict[int, GcItem] = {}
                for item in wanted:
                    assert item.step is not None
                    if why := still_goes(reader, item, rule, needed):
                        left.append(f"{item.what} stays: {why}")
                        continue
                    going[item.step] = item
                if not going:
                    continue
                relist(layout, CHECKPOINTS, without=map(layout.checkpoint, going))
                for step, item in going.items():
                    trash_checkpoints.set_aside(store.layout, layout, step, op=op)
                    done.append(item)
                relist(layout, CHECKPOINTS)  # so that an index which looked meanwhile looks again
        except (NotFound, Conflict) as error:
            left.append(f"{run} stays: {error.message}")
    return done


def _purge(store: Store, items: Sequence[GcItem], left: list[str]) -> list[GcItem]:
    done = []
    for item in items:
        try:
            purge(store.layout, item)
        except FileNotFoundError:
            left.append(f"{item.path} is gone already")
            continue
        done.append(item)
    return done


def _drop_pins(
    store: Store, worktree: WorkTree, items: Sequence[GcItem], left: list[str]
) -> list[GcItem]:
    problems: list[str] = []
    done = []
    try:
        with dropping(worktree):
            now = {one.what: one for one in pin_items(store, worktree, problems)}
            for item in items:
                found = now.get(item.what)
                if found is None or not found.goes:
                    why = "it is gone" if found is None else found.why
                    left.append(f"pin {item.what[:7]} stays: {why}")
                    continue
                drop_ref(worktree, f"pins/{item.what}")
                done.append(item)
    except (ExpdbError, OSError) as error:
        said = error.message if isinstance(error, ExpdbError) else str(error)
        left.append(f"{len(items) - len(done):,} pins stay: {said}")
    return done


def undo_gc(reader: Reader, op: Op, worktree: WorkTree | None) -> tuple[Op, str]:
    """Take back a collection: checkpoints from the trash, pins whose commits are still there.

    Raises:
        Refused: nothing of it can be taken back.
    """
    store = reader.store
    if op.kind != "gc":
        raise Refused(f"op {op.id} took a gc back; nothing written", hint="expdb gc --dry-run")
    moved = [(str(run), int(step)) for run, step in op.after["checkpoints"]]
    there = [one for one in moved if trash_checkpoints.is_there(store.layout, *one, op=op.id)]
    pins = [str(commit) for commit in op.after["pins"]]
    can = [commit for commit in pins if worktree is not None and has_object(worktree, commit)]
    lists = [str(name) for name in op.after.get("packages", ())]
    lists = [name for name in lists if packages.is_there(store.layout, name, op=op.id)]
    if not there and not can and not lists:
        raise Refused(f"nothing that op {op.id} moved is in the trash any more", hint="expdb ops")
    undo = Op(
        id=new_id(),
        kind="undo",
        created_at_ms=ops.now_ms(),
        what=f"undo of {op.id[:4]}",
        before={"checkpoints": [list(one) for one in there], "packages": lists, "pins": can},
        after={"checkpoints": [], "pins": []},
        undoes=op.id,
        who=ops.who(),
        host=ops.host(),
        work_tree="" if worktree is None else str(worktree.git_dir),
    )
    with writing(store):
        ops.write_op(store.layout, undo)
        back = _put_back(store, there, op.id)
        for name in lists:
            packages.put_back(store.layout, name, op=op.id)
    if worktree is not None:
        for commit in can:
            set_ref(worktree, f"pins/{commit}", commit)
    words = _words({"checkpoints": back, "pins": can, "packages": lists})
    return undo, f"{words} back"


def _put_back(store: Store, moved: Collection[tuple[str, int]], op: str) -> list[tuple[str, int]]:
    back = []
    for run, step in moved:
        try:
            layout = RunLayout(find_run_dir(store.root, run))
        except NotFound:
            continue  # its run is in the trash itself; both come back with `rm --restore` and again
        with run_lock(store.root, layout):
            if trash_checkpoints.put_back(store.layout, layout, step, op=op):
                back.append((run, step))
                relist(layout, CHECKPOINTS)
    return back
