"""What a new run descends from and is measured against.

The parent is the fork's run, else HEAD of the work tree, else the ref `baseline`, else the latest
finished run of the experiment `baseline` without overrides, else none. It is recorded; weights are
loaded only when asked.
"""

from __future__ import annotations

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
    store: Store, git_dir: Path | None, fork: RunAt | None, *, variant: str = ""
) -> tuple[RunAt, Run] | None:
    """Return the parent of a run of this variant that starts now, and its run as it is in the
    store.
    """
    for at in _named(store, git_dir, fork):
        try:
            folder = find_run_dir(store.root, at.run)
            return at, read_run(folder, store_root=store.root)
        except ExpdbError:
            continue  # a name that outlived its run says nothing about this one
    run = _latest_baseline(store, variant)
    return (RunAt(run=run.id), run) if run is not None else None


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
