"""Checkpoints that `gc` set aside: `.expdb/trash/gc-<op>/<run id>/step=<n>/`, whole folders.

Invariant: a checkpoint moves by one rename, there and back, so that it is in its run or in the
trash, whole in either. The op that moved it is in the path, so nothing else has to say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from expdb.errors import NotFound, Refused
from expdb.store import files
from expdb.store.checkpoints import PREFIX, STEP
from expdb.store.ids import is_id
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.status import sizes

FOLDER = "gc-"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """One checkpoint in the trash."""

    op: str
    run: str
    step: int
    path: Path
    bytes: int
    removed_at_ms: int


def set_aside(layout: StoreLayout, run: RunLayout, step: int, *, op: str) -> None:
    """Move the checkpoint of a run into the trash.

    Raises:
        Refused: one of that run and step is there from the same op.
        OSError: it cannot be moved; it is where it was.
    """
    target = _place(layout, op, run.id, step)
    if target.exists():
        raise Refused(f"checkpoint {step} of {run.id} is in the trash already; nothing written")
    for folder in (layout.trash, target.parent.parent, target.parent):
        if not folder.is_dir():
            files.make_dir(folder)
    run.checkpoint(step).rename(target)
    files.fsync_dir(target.parent)
    files.fsync_dir(run.checkpoints)


def put_back(layout: StoreLayout, run: RunLayout, step: int, *, op: str) -> bool:
    """Move a checkpoint out of the trash, and say whether it was there.

    Raises:
        Refused: its run has another checkpoint of that step by now.
        OSError: it cannot be moved; it is where it was.
    """
    source, target = _place(layout, op, run.id, step), run.checkpoint(step)
    if not source.is_dir():
        return False
    if target.exists():
        raise Refused(
            f"{run.id} has another checkpoint {step} by now; the one in the trash stays there",
            hint=f"the folder: {source}",
        )
    if not run.checkpoints.is_dir():
        files.make_dir(run.checkpoints)
    source.rename(target)
    files.fsync_dir(run.checkpoints)
    for folder in (source.parent, source.parent.parent):
        try:
            folder.rmdir()
        except OSError:
            break  # others are in it
    return True


def is_there(layout: StoreLayout, run: str, step: int, *, op: str) -> bool:
    """Tell whether a checkpoint is in the trash from that op.

    Raises:
        NotFound: `run` has not the form of an id.
    """
    if not is_id(run):
        raise NotFound(f"{run!a} is no run id")
    return _place(layout, op, run, step).is_dir()


def entries(layout: StoreLayout) -> list[SetAside]:
    """Return the checkpoints in the trash, by op, run and step."""
    found = []
    for path in sorted(layout.trash.glob(f"{FOLDER}*/*/{PREFIX}*")):
        step = path.name.removeprefix(PREFIX)
        run, op = path.parent.name, path.parent.parent.name.removeprefix(FOLDER)
        if path.is_symlink() or not path.is_dir() or not (is_id(run) and STEP.fullmatch(step)):
            continue
        found.append(
            SetAside(
                op=op,
                run=run,
                step=int(step),
                path=path,
                bytes=sum(sizes(path).values()),
                removed_at_ms=int(path.stat().st_ctime * 1000),
            )
        )
    return found


def _place(layout: StoreLayout, op: str, run: str, step: int) -> Path:
    return layout.trash / f"{FOLDER}{op}" / run / f"{PREFIX}{step}"
