"""`expdb pull`: runs of a remote into this store, their code, and what others call them.

    before  {"trash": [runs that came, which an undo moves there]}
    after   {"trash": [], "pulled": {"remote", "runs": [new], "updated": [...], "commits": [...]}}

Invariant: every name in the remote is checked before a path is made of it; no ref of this store
moves; a run that is here is changed only by what it lacks. The op comes before the first run.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from expdb.actions.exchange import (
    Exchanged,
    Item,
    Tick,
    bring_item,
    carry,
    commits_of,
    ended,
    is_same_item,
    packages_of,
    trying,
)
from expdb.actions.pull_code import lacking_pins, pull_code
from expdb.actions.pull_which import Asked, asked_items
from expdb.actions.unfinished import require_finished
from expdb.actions.writing import writing
from expdb.errors import Corrupt, Refused
from expdb.git.worktree import WorkTree
from expdb.model import Op
from expdb.store import attempts as attempt_files
from expdb.store import files, ops, trash
from expdb.store.copy_run import Way
from expdb.store.fold_parts import is_over
from expdb.store.ids import new_id
from expdb.store.layout import RunLayout, encode_name
from expdb.store.packages import bring_packages
from expdb.store.recover import run_lock
from expdb.store.remote_place import Place, open_place, reading_from, require_apart
from expdb.store.remote_refs import pull_refs
from expdb.store.remotes import Remote
from expdb.store.run_files import list_files
from expdb.store.run_parted import Sides
from expdb.store.runs import read_run, run_dirs
from expdb.store.status import read_status
from expdb.store.store import Store


def pull(
    store: Store,
    remote: Remote,
    words: Sequence[str] = (),
    *,
    where: Sequence[str] = (),
    worktree: WorkTree | None = None,
    dry_run: bool = False,
    tick: Tick = lambda done, total: None,
) -> Exchanged:
    """Bring the runs of a remote that words name or filters select, else all, into the store; with
    `dry_run` nothing is written.

    A word is a run's id or its beginning, an experiment, or its name with overrides. A filter is as
    of `-w`, over the runs as the remote has them. What is not sound in the remote is refused by
    name, and the rest comes.

    Raises:
        NotFound: the remote is not there, or has no such run.
        BadInput: a filter that does not follow the grammar.
        Refused: the remote is another one now, or an op of this work tree was cut off.
        Conflict: another pull is under way.
        Corrupt: the store cannot be written; what arrived stays, and the next pull goes on.
    """
    place, asked = open_place(remote), Asked(words=tuple(words), where=tuple(where))
    require_apart(place.root, store.root)
    if worktree is not None and not dry_run:
        require_finished(worktree, store)
    if dry_run:
        return _pulled(store, place, remote, asked, worktree, dry_run=True, tick=tick)
    with writing(store), reading_from(place):
        lock = store.layout.locks / f"pull-{encode_name(remote.name)}.lock"
        with files.exclusive(lock, what=f"a pull from {remote.name}"):
            return _pulled(store, place, remote, asked, worktree, dry_run=False, tick=tick)


def _pulled(
    store: Store,
    place: Place,
    remote: Remote,
    asked: Asked,
    worktree: WorkTree | None,
    *,
    dry_run: bool,
    tick: Tick,
) -> Exchanged:
    sides = Sides(remote=remote.name, is_push=False)
    way = Way(tag=remote.id, sides=sides, verifies=True, is_shared=True)
    here = {run: folder for run, folder, _ in run_dirs(store.root)}
    notes: list[str] = []
    items = asked_items(store, place, here, asked, notes)
    gone = {entry.run for entry in trash.entries(store.layout)}
    for item in items:
        trying(item, lambda item=item: _look(store, place, item, way, gone, bool(asked.words)))  # type: ignore[misc]
    need = lacking_pins(items, worktree)
    op = None if dry_run else _write_op(store, remote, items, need, worktree)
    if not dry_run:
        carry(
            items,
            way,
            lambda item, way: _bring(store, place, item, way),
            tick,
            into=store.root,
            is_all=asked.is_all,
        )
    code, names = pull_code(items, place, store, worktree, need, notes, dry_run=dry_run), None
    if not dry_run:
        found = pull_refs(store.layout, store.id, place)
        names = (found.refs, found.ops)
        notes += [f"refused: {line}" for line in found.refused]
    return ended("pull", remote, items, code, names, notes, op=op)


def _look(
    store: Store, place: Place, item: Item, way: Way, gone: Collection[str], is_named: bool
) -> None:
    """Find out what there is to bring of a run, after a look whether it is sound."""
    if item.is_refused:
        return
    item.commits = commits_of(item.src)
    if is_same_item(item, way):
        return
    item.files = list_files(item.src.root)
    is_here = os.path.lexists(item.home)
    if not is_here and item.run in gone and not is_named:
        item.skip("it is in the trash", hint=f"bring it back: expdb rm --restore {item.run}")
        return
    if is_here and not is_over(store.root, RunLayout(item.home)):
        item.skip("it goes on here, or waits for its recovery", hint="again when it has ended")
        return
    bring_item(item, way, dry_run=True)
    if item.is_due:
        _require_sound(place, item)


def _require_sound(place: Place, item: Item) -> None:
    """Refuse a run that is not over, or that nothing here could read.

    Raises:
        Refused, Corrupt, Unsupported, NotFound: so.
    """
    if any(path.endswith(".wal") for path in item.files):
        raise Refused("it has a journal: it was copied there while it ran, not pushed")
    try:
        status = read_status(item.src)
    except FileNotFoundError:
        raise Corrupt("it has no status.json") from None
    if status.state == "running":
        raise Refused("its status is running: it was copied there while it ran, not pushed")
    newest = max(attempt_files.numbers(item.src), default=0)
    if newest > status.attempt:
        raise Refused(
            f"attempt {newest} is not in its status: a push of it goes on, or was cut off"
        )
    read_run(item.src.root, store_root=place.root)


def _bring(store: Store, place: Place, item: Item, way: Way) -> None:
    bring_packages(place.packages, store.layout.meta / "packages", packages_of(item.src))
    home = RunLayout(item.home)
    with run_lock(store.root, home):
        if item.home.exists() and not is_over(store.root, home):
            item.skip("it was resumed here meanwhile", hint="again when it has ended")
            return
        bring_item(item, way)


def _write_op(
    store: Store,
    remote: Remote,
    items: Sequence[Item],
    need: Collection[str],
    worktree: WorkTree | None,
) -> str | None:
    """Write the op of a pull, where it is to bring anything; return its id."""
    new = [item.run for item in items if item.brought and item.brought.outcome == "new"]
    more = [item.run for item in items if item.brought and item.brought.outcome == "updated"]
    if not (new or more or need):
        return None
    number = len(new) + len(more)
    what = "1 run" if number == 1 else f"{number:,} runs" if number else "code"
    op = Op(
        id=new_id(),
        kind="pull",
        created_at_ms=ops.now_ms(),
        what=f"pull of {what} from {remote.name}",
        before={"trash": new},
        after={
            "trash": [],
            "pulled": {
                "remote": remote.name, "runs": new, "updated": more, "commits": sorted(need),
            },
        },
        who=ops.who(),
        host=ops.host(),
        work_tree="" if worktree is None else str(worktree.git_dir),
    )  # fmt: skip
    ops.write_op(store.layout, op)
    return op.id
