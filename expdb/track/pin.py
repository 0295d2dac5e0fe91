"""How the code of an attempt is pinned, as `expdb.dirty` says.

snapshot   edits are kept as a commit of expdb's own
allow      edits are counted, not kept
refuse     edits stop the start; nothing is written
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from expdb.errors import Refused
from expdb.git.command import GitError
from expdb.git.objects import set_ref
from expdb.git.snapshot import take_pin
from expdb.git.status import Status, read_status
from expdb.git.untracked import find_untracked
from expdb.git.used import used_files
from expdb.git.worktree import Unavailable, WorkTree
from expdb.model import Pin
from expdb.track.used import as_imported, imported_files


def pin_code(
    worktree: WorkTree | Unavailable, *, store_root: Path, code: Mapping[str, Any], dirty: str
) -> Pin:
    """Return the pin of the code that runs now; `code` is the section `expdb.code`.

    Raises:
        Refused: the work tree has edits and `dirty` is "refuse".
    """
    left_out = {
        "store_root": store_root,
        "exclude": code["exclude"],
        "secret_files": code["secret_files"],
    }
    if dirty != "snapshot" and isinstance(worktree, WorkTree):
        try:
            status = read_status(worktree, untracked=False)
            found = find_untracked(worktree, worktree.index_path, **left_out)
            edits = len(status.changes) + len(found.files)
            if edits and dirty == "refuse":
                noun = "1 edit" if edits == 1 else f"{edits} edits"
                raise Refused(
                    f"the work tree has {noun}, and expdb.dirty=refuse",
                    hint="commit them, or keep them as a snapshot: expdb.dirty=snapshot",
                )
            if edits:
                return as_imported(worktree, _not_kept(worktree, status, edits))
        except GitError as error:
            return Pin(
                reproducible=False, reasons=(f"the work tree cannot be read: {error.message}",)
            )
    pin = take_pin(worktree, used=imported_files(), **left_out)
    return as_imported(worktree, pin) if isinstance(worktree, WorkTree) else pin


def _not_kept(worktree: WorkTree, status: Status, edits: int) -> Pin:
    """Return the pin of HEAD beside edits that nobody keeps; the tree that runs has no id then."""
    if status.head is not None:
        set_ref(worktree, f"pins/{status.head}", status.head)
    return Pin(
        commit=status.head,
        branch=status.branch,
        dirty=True,
        num_edits=edits,
        remote=worktree.remote(),
        used=used_files(worktree, imported_files()),
        reproducible=False,
        reasons=("edits are not kept: expdb.dirty=allow",),
    )
