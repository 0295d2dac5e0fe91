"""Which pins `gc` drops: refs of commits that no run, op or tag needs any more.

Invariant: every store that has pinned in this repository is asked, its trash included; where one
cannot be read, every pin stays.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from expdb.actions.gc.results import GcItem
from expdb.actions.ops import is_of_gc
from expdb.errors import ExpdbError, NotFound
from expdb.git.objects import REFS
from expdb.git.stores import FOLDER, registered
from expdb.git.worktree import WorkTree
from expdb.store import attempts
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.ops import read_ops
from expdb.store.store import Store, open_store

PINS = f"{REFS}pins/"


def pin_items(
    store: Store, worktree: WorkTree, problems: list[str], *, purged: Collection[Path] = ()
) -> Iterator[GcItem]:
    """Yield every pin of the repository, with why it stays or goes; `purged` folders need none."""
    refs = _pins(worktree)
    if not refs:
        return
    needed: dict[str, Path] = {}
    unknown = ""
    try:
        stores = {**registered(worktree), store.id: store.root}
    except OSError as error:
        stores, unknown = {}, f"the stores that pin here are not known: {error}"
    for store_id, root in stores.items():
        try:
            needed.update(dict.fromkeys(_needed(store_id, root, purged), root))
        except (ExpdbError, OSError) as error:
            said = error.message if isinstance(error, ExpdbError) else str(error)
            note = worktree.common_dir / FOLDER / store_id
            unknown = f"the store {root} pins here and cannot be read ({said}); where it is gone"
            unknown += f" for good, remove {note}"
    if unknown:
        problems.append(f"every pin stays: {unknown}")
    for commit in refs:
        by = needed.get(commit)
        why = "no run or op of any store needs it"
        if unknown:
            why = "a store that pins here cannot be read"
        elif by is not None:
            why = "a run or an op needs it" if by == store.root else f"needed in {by}"
        yield GcItem(
            kind="pin",
            what=commit,
            name="",
            path=PINS + commit,
            bytes=0,
            goes=not unknown and by is None,
            why=why,
        )


def _pins(worktree: WorkTree) -> list[str]:
    done = worktree.git(("for-each-ref", "--format=%(refname)", PINS))
    return sorted(line.removeprefix(PINS) for line in done.text.splitlines() if line)


def _needed(store_id: str, root: Path, purged: Collection[Path]) -> Iterator[str]:
    """Yield the commits that the runs, the trash and the ops of one store name.

    Raises:
        ExpdbError, OSError: something of it cannot be read, so that it cannot be known.
    """
    store = open_store(root)
    if store.id != store_id:
        raise NotFound(f"another store is there, {store.id}")
    layout = store.layout
    for folder in run_folders(layout, purged):
        yield from _of_run(RunLayout(folder))
    for op in read_ops(layout):
        if not is_of_gc(op):  # it names what it dropped
            yield from _texts((op.before, op.after))


def run_folders(layout: StoreLayout, purged: Collection[Path]) -> list[Path]:
    """Return the folders of all runs of a store, those in its trash too but not `purged` ones.

    Raises:
        OSError: a folder may not be looked into.
    """
    folders = [path for top in sorted(layout.root.glob("exp=*")) for path in _inside(top)]
    folders += [path for path in _inside(layout.trash) if path not in purged]
    for repair in layout.trash.glob("fsck-*"):
        folders += [path for top in repair.glob("exp=*") for path in _inside(top)]
    return folders


def _inside(folder: Path) -> list[Path]:
    """Return the folders in a folder; unlike a listing, it fails where it may not look."""
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _of_run(layout: RunLayout) -> Iterator[str]:
    for number in attempts.numbers(layout):
        pin = attempts.read_pin(layout, number).pin
        yield from (commit for commit in (pin.commit, pin.snapshot) if commit)


def _texts(values: Iterable[object]) -> Iterator[str]:
    """Yield every text in what an op records: a commit among them is needed."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from _texts(value.values())
        elif isinstance(value, list | tuple):
            yield from _texts(value)
