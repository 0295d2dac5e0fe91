"""`expdb push`: runs, their code, refs and ops to a folder elsewhere.

Invariant: this store stays as it is, but for parts that are folded; code comes before the runs that
need it, refs behind the runs that they name. Cut off anywhere, the next push goes on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from expdb.actions.exchange import (
    Exchanged,
    Item,
    Tick,
    bring_item,
    carry,
    ended,
    is_same_item,
    packages_of,
    trying,
)
from expdb.errors import Conflict, Corrupt, Refused
from expdb.git.command import GitError
from expdb.git.packs import COMMIT, present
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.store import files
from expdb.store.copy_run import Way
from expdb.store.fold_parts import fold_parts, is_over
from expdb.store.layout import RunLayout
from expdb.store.packages import bring_packages
from expdb.store.remote_code import commits_in, push_code, read_packs
from expdb.store.remote_place import (
    Place,
    clear_old,
    open_place,
    require_apart,
    runs_in,
    writing_to,
)
from expdb.store.remote_refs import push_refs
from expdb.store.remotes import Remote
from expdb.store.run_files import list_files
from expdb.store.run_parted import Sides
from expdb.store.runs import require_here
from expdb.store.store import Store


def push(
    reader: Reader,
    remote: Remote,
    runs: Sequence[str] | None = None,
    *,
    worktree: WorkTree | None = None,
    dry_run: bool = False,
    tick: Tick = lambda done, total: None,
) -> Exchanged:
    """Bring runs, all of the store for None, to a remote; with `dry_run` nothing is written.

    A run that goes on is skipped; one of which the remote has other sealed content is refused. Both
    are named in what is returned, and the others come.

    Raises:
        NotFound, Refused: the remote is not there, or is another one now.
        Conflict: another push of this store is under way.
        Corrupt: the remote cannot be written; what arrived stays, and the next push goes on.
    """
    place, store = open_place(remote), reader.store
    require_apart(place.root, store.root)
    if not dry_run and not os.access(place.root, os.W_OK | os.X_OK):
        raise Corrupt(
            f"cannot write to the remote {remote.name}: no permission, or it is read-only",
            hint=f"the folder: {remote.path}",
        )
    if dry_run:
        return _pushed(reader, place, remote, runs, worktree, dry_run=True, tick=tick)
    with writing_to(place, store.root):
        lock = place.lock(f"push-{store.id}")
        with files.exclusive(lock, what=f"a push of this store to {remote.name}"):
            return _pushed(reader, place, remote, runs, worktree, dry_run=False, tick=tick)


def _pushed(
    reader: Reader,
    place: Place,
    remote: Remote,
    runs: Sequence[str] | None,
    worktree: WorkTree | None,
    *,
    dry_run: bool,
    tick: Tick,
) -> Exchanged:
    store = reader.store
    way = Way(tag=store.id, sides=Sides(remote=remote.name, is_push=True))
    items, there = _items(reader, place, runs), dict(runs_in(place))
    for item in items:
        trying(item, lambda item=item: _look(store, item, way, there, dry_run=dry_run))  # type: ignore[misc]
    notes: list[str] = []
    code = _push_code(items, place, store, worktree, notes, dry_run=dry_run)
    names = None
    if not dry_run:
        carry(
            items,
            way,
            lambda item, way: _bring(store, place, item, way),
            tick,
            into=place.root,
            is_all=runs is None,
        )
        clear_old(place, store.id)
        found = push_refs(store.layout, store.id, place, {run for run, _ in runs_in(place)})
        names = (found.refs, found.ops)
    return ended("push", remote, items, code, names, notes)


def _items(reader: Reader, place: Place, runs: Sequence[str] | None) -> list[Item]:
    rows = reader.rows("SELECT id, name, experiment, path FROM runs ORDER BY created_at_ms, id")
    wanted = None if runs is None else set(runs)
    pins: dict[str, set[str]] = {}
    for run, commit in reader.rows('SELECT run, coalesce(snapshot, "commit") FROM attempts'):
        if commit is not None and COMMIT.fullmatch(commit):
            pins.setdefault(run, set()).add(commit)
    return [
        Item(
            run=run,
            name=name,
            src=RunLayout(reader.store.root / path),
            commits=pins.get(run, set()),
            # As it lies here: the index may have a text that is not UTF-8 in another form.
            home=place.root / Path(path).parent.name / Path(path).name,
        )
        for run, name, _, path in rows
        if wanted is None or run in wanted
    ]


def _look(store: Store, item: Item, way: Way, there: Mapping[str, Path], *, dry_run: bool) -> None:
    """Find out what there is to bring of a run, after folding its parts."""
    require_here(item.src)
    if is_same_item(item, way):
        return
    if there.get(item.run, item.home) != item.home:
        raise Refused(f"the remote has it in {there[item.run].parent.name}: another experiment")
    if not is_over(store.root, item.src):
        item.skip("it goes on, or waits for its recovery", hint="again when it has ended")
        return
    if not dry_run and store.writable:
        try:
            fold_parts(store.root, item.src)
        except (Conflict, Corrupt, OSError):
            pass  # its parts go as they are; `fsck` names what is damaged
    item.files = list_files(item.src.root)
    bring_item(item, way, dry_run=True)


def _bring(store: Store, place: Place, item: Item, way: Way) -> None:
    bring_packages(store.layout.meta / "packages", place.packages, packages_of(item.src))
    with files.exclusive(place.lock(f"run-{item.run}"), what=f"run {item.run} of {place.name}"):
        bring_item(item, way)


def _push_code(
    items: Sequence[Item],
    place: Place,
    store: Store,
    worktree: WorkTree | None,
    notes: list[str],
    *,
    dry_run: bool,
) -> tuple[int, tuple[str, ...]]:
    """Bring the code of runs; return how many commits, and the runs whose code stays behind."""
    needs = {item.run: item.commits for item in items if item.is_there}
    wanted = {commit for found in needs.values() for commit in found}
    there = commits_in(read_packs(place))
    here = _to_push(worktree, wanted - there, notes)
    pushed = len(here)
    if here and not dry_run:
        assert worktree is not None
        try:
            pushed = push_code(worktree, place, here, tag=store.id)
        except GitError as error:
            notes.append(f"no code was pushed: {error.message}")
            here, pushed = set(), 0
    behind = wanted - there - here
    without = tuple(run for run, commits in needs.items() if commits & behind)
    return pushed, without


def _to_push(worktree: WorkTree | None, commits: set[str], notes: list[str]) -> set[str]:
    """Return those of some commits that can be packed here; else a note says why."""
    if not commits:
        return set()
    if worktree is None:
        notes.append("no code was pushed: not in a git repository")
        return set()
    if worktree.is_shallow():
        notes.append("no code was pushed: a shallow clone lacks history; git fetch --unshallow")
        return set()
    try:
        return present(worktree, commits)
    except GitError as error:
        notes.append(f"no code was pushed: {error.message}")
        return set()
