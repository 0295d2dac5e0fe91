"""What a new run descends from and is measured against.

The parent is the fork's run, else HEAD of the work tree, else the ref `baseline`, else the latest
finished run of the experiment `baseline` without overrides, else none. Other seeds of one config
are siblings: where that run differs from the new one in the seed alone, its own parent counts. It
is recorded; weights are loaded only when asked.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from expdb.errors import Corrupt, ExpdbError
from expdb.model import Run, RunAt, RunState
from expdb.store.head import read_head
from expdb.store.layout import RunLayout, encode_name
from expdb.store.refs import read_refs
from expdb.store.runs import find_run_dir, read_identity, read_run
from expdb.store.status import read_status
from expdb.store.store import Store

BASELINE = "baseline"


def find_parent(
    store: Store,
    git_dir: Path | None,
    fork: RunAt | None,
    *,
    variant: str = "",
    is_sibling: Callable[[Run], bool] = lambda _: False,
) -> tuple[RunAt, Run] | None:
    """Return the parent of a run of this variant that starts now, and its run as it is in the
    store.

    `is_sibling` tells whether a run differs from the new one in the seed alone.
    """
    found = _first(store, git_dir, fork, variant)
    if fork is not None:
        return found
    seen: set[str] = set()
    while found is not None and is_sibling(found[1]) and found[0].run not in seen:
        seen.add(found[0].run)
        above = found[1].parent
        found = _read(store, above) if above is not None else None
    return None if found is not None and found[0].run in seen else found


def _first(
    store: Store, git_dir: Path | None, fork: RunAt | None, variant: str
) -> tuple[RunAt, Run] | None:
    for at in _named(store, git_dir, fork):
        if (found := _read(store, at)) is not None:
            return found
    run = _latest_baseline(store, variant)
    return (RunAt(run=run.id), run) if run is not None else None


def _read(store: Store, at: RunAt) -> tuple[RunAt, Run] | None:
    try:
        return at, read_run(find_run_dir(store.root, at.run), store_root=store.root)
    except ExpdbError:
        return None  # a name that outlived its run says nothing about this one


def _named(store: Store, git_dir: Path | None, fork: RunAt | None) -> list[RunAt]:
    if fork is not None:
        return [fork]
    found: list[RunAt] = []
    try:
        head = read_head(git_dir) if git_dir is not None else None
    except Corrupt:
        head = None  # the run has the next best parent; `expdb status` says what is wrong
    if head is not None:
        found.append(RunAt(run=head.run, step=head.step))
    ref = read_refs(store.layout, problems=[]).get(BASELINE)
    if ref is not None:
        found.append(RunAt(run=ref.run, step=ref.step))
    return found


def _latest_baseline(store: Store, variant: str) -> Run | None:
    """Return the latest finished baseline: without overrides, else with the same ones, else any."""
    folder = store.root / f"exp={encode_name(BASELINE)}"
    found: list[tuple[int, int, Path]] = []
    for path in folder.glob("run=*") if folder.is_dir() else ():
        layout = RunLayout(path)
        try:
            identity, status = read_identity(layout), read_status(layout)
        except (ExpdbError, FileNotFoundError):
            continue  # half made, or damaged: not one to be measured against
        if status.state == RunState.FINISHED:
            own = identity.get("variant")
            nearness = 2 if not own else int(own == variant)
            found.append((nearness, int(identity.get("created_at_ms", 0)), path))
    for *_, path in sorted(found, reverse=True):
        try:
            return read_run(path, store_root=store.root)
        except ExpdbError:
            continue  # removed, or damaged, since it was listed
    return None
