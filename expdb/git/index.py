"""Index files of expdb's own: copies of git's index that git works on instead of the real one.

Invariant: git's index is only read here. A copy keeps the modification time of the file that was
read, since git compares it with those of the files to find edits made in the same instant.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from expdb.git.attributes import despite_filters
from expdb.git.worktree import WorkTree

GITLINK: Final = "160000"
SYMLINK: Final = "120000"
EXECUTABLE: Final = "100755"
REGULAR: Final = "100644"

TEMP_PREFIX: Final = ".tmp-"
_STALE_S: Final = 24 * 3600


class Entry(NamedTuple):
    """One line of an index."""

    tag: str
    """Git's letter: H, S for skip-worktree, M for unmerged; in lower case when assume-unchanged."""
    mode: str
    blob: str
    stage: str
    path: str

    @property
    def skipped(self) -> bool:
        """Whether the entry is flagged skip-worktree."""
        return self.tag in "Ss"

    @property
    def assumed(self) -> bool:
        """Whether the entry is flagged assume-unchanged."""
        return self.tag.islower()


def entries(worktree: WorkTree, index: Path | None = None) -> list[Entry]:
    """Return the entries of an index, sorted by path.

    Raises:
        GitError: the index cannot be read.
    """
    found = []
    for line in worktree.git(("ls-files", "-s", "-v", "-z"), index=index).names:
        left, _, path = line.partition("\t")
        tag, mode, blob, stage = left.split(" ")
        found.append(Entry(tag, mode, blob, stage, path))
    return found


def copy_index(source: Path, target: Path, *, durable: bool = False) -> bool:
    """Copy an index file with its time; return False when there is none.

    Git replaces its index by a rename, so data and time are taken from one open file.
    """
    try:
        file = source.open("rb")
    except FileNotFoundError:
        return False
    with file, target.open("wb") as copy:
        stat = os.fstat(file.fileno())
        copy.write(file.read())
        copy.flush()
        os.utime(copy.fileno(), ns=(stat.st_atime_ns, stat.st_mtime_ns))
        if durable:
            os.fsync(copy.fileno())
    return True


@contextmanager
def temp_index(worktree: WorkTree, source: Path | None = None) -> Iterator[Path]:
    """Yield a private index path, filled from `source` where that is a file, and remove it
    afterwards.
    """
    folder = worktree.private_dir
    folder.mkdir(exist_ok=True)
    _remove_stale(folder)
    path = folder / f"{TEMP_PREFIX}index-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        if source is not None:
            copy_index(source, path)
        yield path
    finally:
        path.unlink(missing_ok=True)
        path.with_name(path.name + ".lock").unlink(missing_ok=True)


def fill_index(worktree: WorkTree, index: Path, tree: str | None) -> None:
    """Make `index` hold exactly `tree`, with nothing known about the files; None makes it empty."""
    worktree.git(("read-tree", "--empty") if tree is None else ("read-tree", tree), index=index)


def write_tree(worktree: WorkTree, index: Path) -> str:
    """Write the tree that `index` describes and return its id."""
    return despite_filters(worktree, ("write-tree",), index=index).text


def refresh(worktree: WorkTree, index: Path) -> None:
    """Bring what `index` knows about the files up to date; differing files stay differing."""
    worktree.git(("update-index", "-q", "--refresh"), index=index, check=False)


def _remove_stale(folder: Path) -> None:
    """Remove temporary files of processes that were killed long ago."""
    limit = time.time() - _STALE_S
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.startswith(TEMP_PREFIX) and entry.is_file(follow_symlinks=False):
                try:
                    # The mtime is that of the copied index; the ctime is when the copy was made.
                    if entry.stat(follow_symlinks=False).st_ctime < limit:
                        Path(entry.path).unlink(missing_ok=True)
                except FileNotFoundError:
                    continue
