"""What `gc --purge` deletes for good: what has been in the trash for longer than an age.

Invariant: nothing outside the trash is touched, and no link is followed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from expdb.actions.gc.results import GcItem
from expdb.store import files, packages, trash, trash_checkpoints
from expdb.store.layout import StoreLayout
from expdb.store.status import sizes
from expdb.text import age, plain

REPAIR = "fsck-"
"""The folders in which a repair sets things aside."""


def trash_items(layout: StoreLayout, *, now_ms: int, purge_ms: int | None) -> Iterator[GcItem]:
    """Yield all that is in the trash; beyond the age `purge_ms` it goes, with None never."""
    for run in trash.entries(layout):
        path = layout.trash / run.place
        yield _item(layout, path, run.removed_at_ms, now_ms, purge_ms, run.bytes, run.name, run.run)
    for one in trash_checkpoints.entries(layout):
        what = f"{one.run}@{one.step}"
        yield _item(layout, one.path, one.removed_at_ms, now_ms, purge_ms, one.bytes, "", what)
    for path in packages.in_trash(layout):
        when = int(path.stat().st_ctime * 1000)
        size = sum(sizes(path).values())
        yield _item(layout, path, when, now_ms, purge_ms, size, "", "lists of packages")
    for path in sorted(layout.trash.glob(f"{REPAIR}*")):
        if path.is_dir() and not path.is_symlink():
            when = int(path.stat().st_ctime * 1000)
            size = sum(sizes(path).values())
            yield _item(layout, path, when, now_ms, purge_ms, size, "set aside by fsck", path.name)


def _item(
    layout: StoreLayout,
    path: Path,
    when_ms: int,
    now_ms: int,
    purge_ms: int | None,
    num_bytes: int,
    name: str,
    what: str,
) -> GcItem:
    return GcItem(
        kind="trash",
        what=plain(what),
        name=name,
        path=path.relative_to(layout.root).as_posix(),
        bytes=num_bytes,
        goes=purge_ms is not None and now_ms - when_ms >= purge_ms,
        why=f"in the trash for {age(when_ms, now_ms)}",
    )


def purge(layout: StoreLayout, item: GcItem) -> None:
    """Delete one item of the trash for good.

    Raises:
        OSError: it cannot be deleted, or only a part of it was.
    """
    path = layout.root / item.path
    shutil.rmtree(path)
    path.with_name(f"{path.name}.json").unlink(missing_ok=True)
    for folder in (path.parent, path.parent.parent):
        if folder == layout.trash or layout.trash not in folder.parents:
            break
        try:
            folder.rmdir()
        except OSError:
            break  # others are in it
    files.fsync_dir(layout.trash)
