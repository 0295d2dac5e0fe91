"""What becomes of a checkpoint that a run, gone back to an earlier step, writes anew."""

from __future__ import annotations

from expdb.store import checkpoints, trash_checkpoints
from expdb.store.ids import is_id, new_id
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.locate import is_store


def set_left_aside(layout: RunLayout, manifest: checkpoints.Manifest) -> None:
    """Move the whole checkpoint of an earlier attempt at that step into the trash; `gc --purge`
    frees it, and until then nothing that was saved is lost.

    Raises:
        OSError: it cannot be moved; it is where it was.
    """
    root = layout.root.parents[1]
    if not layout.checkpoint(manifest.step).is_dir() or not (is_store(root) and is_id(layout.id)):
        return
    there = checkpoints.read_checkpoint(layout, manifest.step)
    if there.complete and there.attempt < manifest.attempt:
        trash_checkpoints.set_aside(StoreLayout(root), layout, manifest.step, op=new_id())
