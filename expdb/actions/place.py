"""A throw-away place: a git work tree at a commit, for a probe or for a job of `run`.

    <temp>/expdb-probe-<random>/owner.json                    who made it: host, boot, process
    <temp>/expdb-probe-<random>/expdb-probe-<random>/         the work tree
    <temp>/expdb-probe-<random>/store/                        the store of a probe
    <common git dir>/worktrees/expdb-probe-<random>/          git's entry of the work tree

Invariant: nothing of it is left when the block ends, however it ends; what SIGKILL left is removed
by the next command (`clear`), and what another living process uses is not touched.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.errors import Corrupt, Refused
from expdb.git.command import GitError
from expdb.git.worktree import Unavailable, WorkTree, find_worktree
from expdb.store import owner
from expdb.store.files import read_json, write_json
from expdb.store.locate import PLACES

OWNER = "owner.json"
CLAIM_S = 60.0
"""An entry without an owner may be of a process that is just making it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where code runs that is not to see the work tree of the user."""

    folder: Path
    tree: WorkTree

    @property
    def store(self) -> Path:
        """Where a probe has its store; it need not exist."""
        return self.folder / "store"

    def hold(self, pid: int) -> None:
        """Keep the place also as long as another process lives, should this one be killed."""
        also = {**owner.describe(), "pid": pid, "start": owner.process_start(pid)}
        for path in (self.folder / OWNER, self.tree.private_dir / OWNER):
            write_json(path, {**owner.describe(), "also": also}, durable=False)


@contextmanager
def throwaway(
    worktree: WorkTree, commit: str, *, prefix: str, keep: bool = False
) -> Iterator[Place]:
    """Make a place at the code of `commit`; it is gone when the block ends, unless `keep`.

    `prefix` is one of `locate.PLACES`.

    Raises:
        Refused: git cannot write all of the code.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        write_json(folder / OWNER, owner.describe(), durable=False)
        yield Place(folder=folder, tree=_work_tree(worktree, folder / folder.name, commit))
        if keep:
            write_json(folder / OWNER, {**owner.describe(), "kept": True}, durable=False)
    except BaseException:
        keep = False
        raise
    finally:
        if not keep:
            _remove(worktree, folder)


def clear(worktree: WorkTree) -> None:
    """Remove the places of processes that are gone; what cannot be removed stays."""
    entries = worktree.common_dir / "worktrees"
    with suppress(OSError, GitError):
        for entry in sorted(entries.iterdir() if entries.is_dir() else ()):
            if not entry.name.startswith(PLACES):
                continue
            tree = _tree_of(entry)
            if tree is not None and _is_left(entry, tree.parent):
                _remove(worktree, tree.parent)


def _work_tree(worktree: WorkTree, folder: Path, commit: str) -> WorkTree:
    try:
        worktree.git(("worktree", "add", "--detach", str(folder), commit))
    except GitError as error:
        raise Refused(f"git cannot write the code of {commit[:7]}: {error.message}") from error
    made = find_worktree(folder)
    if isinstance(made, Unavailable):
        raise Refused(f"the work tree was made, and cannot be read: {made.reason}")
    # Another host sees this entry where it cannot see the folder.
    made.private_dir.mkdir(exist_ok=True)
    write_json(made.private_dir / OWNER, owner.describe(), durable=False)
    return made


def _tree_of(entry: Path) -> Path | None:
    """Return the work tree that an entry of git's is of."""
    try:
        named = Path(os.fsdecode((entry / "gitdir").read_bytes()).strip())
    except OSError:
        return None
    # Only what is built as ours is: a folder of the same name in one of that name.
    tree = named.parent
    return tree if tree.name == entry.name == tree.parent.name else None


def _is_left(entry: Path, folder: Path) -> bool:
    """Tell whether the maker of a place is gone, and wanted it gone too."""
    known = _owner(folder / OWNER) or _owner(entry / "expdb" / OWNER)
    if known is None:
        # Somebody's own folder may be called so; a process that just makes one has it already.
        return not folder.exists() and time.time() - entry.stat().st_mtime > CLAIM_S
    also = known.get("also")
    return (
        not known.get("kept")
        and owner.is_dead(known)
        and (not isinstance(also, dict) or owner.is_dead(also))
    )


def _owner(path: Path) -> dict[str, Any] | None:
    try:
        return read_json(path)
    except (OSError, Corrupt):
        return None


def _remove(worktree: WorkTree, folder: Path) -> None:
    """Remove a place: git's entry by git, where it can, else by hand."""
    entry = worktree.common_dir / "worktrees" / folder.name
    tree = folder / folder.name
    with suppress(GitError):
        worktree.git(("worktree", "remove", "--force", "--force", str(tree)), check=False)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(entry, ignore_errors=True)
    with suppress(OSError):
        entry.parent.rmdir()  # as git does with an empty one
