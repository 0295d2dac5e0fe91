"""A throw-away place: a git work tree at a commit, for a probe or for a job of `run`.

    <temp>/expdb-probe-<random>/owner.json                    who made it: host, boot, process
    <temp>/expdb-probe-<random>/expdb-probe-<random>/         the work tree
    <temp>/expdb-probe-<random>/store/                        the store of a probe
    <temp>/expdb-job-<random>/slurm/                          what SLURM and a job tell each other
    <common git dir>/worktrees/expdb-probe-<random>/          git's entry of the work tree

For a job of SLURM `<temp>` is `.expdb/jobs` of the store, which every node has to see.

Invariant: nothing of it is left when the block ends, however it ends, unless it was handed to a job
that goes on; what SIGKILL left is removed by the next command (`clear`), and what a living process
or a job in SLURM's queue uses is not touched.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.errors import Corrupt, Refused
from expdb.git.command import GitError
from expdb.git.worktree import Unavailable, WorkTree, find_worktree
from expdb.store import jobs, owner
from expdb.store.files import read_json, write_json
from expdb.store.layout import StoreLayout
from expdb.store.locate import PLACES

OWNER = "owner.json"
CLAIM_S = 60.0
"""An entry without an owner may be of a process that is just making it."""


@dataclass(slots=True, kw_only=True)
class Place:
    """Where code runs that is not to see the work tree of the user."""

    folder: Path
    tree: WorkTree
    is_left: bool = False
    """Whether it stays when its block ends, for the job that holds it."""

    @property
    def store(self) -> Path:
        """Where a probe has its store; it need not exist."""
        return self.folder / "store"

    def hold(self, pid: int) -> None:
        """Keep the place also as long as another process lives, should this one be killed."""
        self._say(also={**owner.describe(), "pid": pid, "start": owner.process_start(pid)})

    def hold_for(self, job: Mapping[str, Any]) -> None:
        """Keep the place also as long as a job is in SLURM's queue (`slurm.describe`)."""
        self._say(**{owner.QUEUED_AS: dict(job)})

    def _say(self, **more: Any) -> None:
        for path in (self.folder / OWNER, self.tree.private_dir / OWNER):
            write_json(path, {**owner.describe(), **more}, durable=False)


@contextmanager
def throwaway(
    worktree: WorkTree, commit: str, *, prefix: str, keep: bool = False, within: Path | None = None
) -> Iterator[Place]:
    """Make a place at the code of `commit`; it is gone when the block ends, unless `keep`.

    `prefix` is one of `locate.PLACES`; the place lies `within` a folder, else in that for temporary
    files.

    Raises:
        Refused: git cannot write all of the code.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=within))
    place = None
    try:
        write_json(folder / OWNER, owner.describe(), durable=False)
        place = Place(folder=folder, tree=_work_tree(worktree, folder / folder.name, commit))
        yield place
        if keep:
            write_json(folder / OWNER, {**owner.describe(), "kept": True}, durable=False)
    except BaseException:
        keep = False
        raise
    finally:
        if not keep and not (place is not None and place.is_left):
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


def clear_jobs(layout: StoreLayout) -> None:
    """Remove the places in a store whose owners are gone, of which git may know nothing, and the
    claims that count for nothing any more.
    """
    with suppress(OSError):
        for path in sorted(layout.jobs.iterdir()):
            known = _owner(path / OWNER) if path.name.startswith(PLACES) else None
            if known is not None and owner.is_dead(known):
                shutil.rmtree(path, ignore_errors=True)
            elif jobs.is_claim(path):
                jobs.clear(path)


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
