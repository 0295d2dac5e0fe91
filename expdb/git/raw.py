"""Bytes of files that git alone would not write back: line endings it converts, filters.

Layout: the last parent of `refs/expdb/undo/<op>` (the index's tree) has one parent where such bytes
are kept; its tree has them under their paths, untouched by any filter.

Invariant: what is kept is what stood on disk, byte for byte; it is written without git's filters.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Sequence
from pathlib import Path

from expdb.git.attributes import CONVERTING, attributes, drivers
from expdb.git.command import nul_joined
from expdb.git.disk import kind_of
from expdb.git.index import EXECUTABLE, REGULAR, temp_index, write_tree
from expdb.git.objects import checked_out, commit_tree, hash_files, quoted, read_file
from expdb.git.plan import PlanRow
from expdb.git.worktree import WorkTree


def inexact(worktree: WorkTree, rows: Sequence[PlanRow]) -> dict[str, int]:
    """Return the files that the plan changes whose bytes git would not write back: path -> size.

    A file behind a filter counts whatever git writes now: a filter may fetch its content from
    somewhere that forgets it.

    Raises:
        GitError: git cannot read the attributes.
    """
    if not rows:
        return {}
    blobs = {
        row.path: row.before[1] for row in rows if row.before and row.before[0].startswith("100")
    }
    converting = attributes(worktree, list(blobs), CONVERTING)
    # Rules may have changed since a file was written, so that all bytes are looked at.
    raw = hash_files(worktree, blobs, as_is=True)
    if not worktree.config(r"^core\.autocrlf$"):
        blobs = {p: blob for p, blob in blobs.items() if p in converting or raw[p] != blob}
    running = set(drivers(worktree)) if blobs else set()
    found = {path for path in blobs if converting.get(path, {}).get("filter") in running}
    rest = {path: blob for path, blob in blobs.items() if path not in found}
    for path, written in checked_out(worktree, rest):
        if written is None or written != read_file(worktree.top / path):
            found.add(path)
    return {path: _bytes_of(worktree.top / path) for path in sorted(found)}


def keep_raw(worktree: WorkTree, paths: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Write the named files as they are into the repository.

    Returns the commit that holds them, and path -> blob; files that cannot be read are left out.

    Raises:
        GitError: git cannot write objects.
    """
    there = [path for path in paths if kind_of(worktree.top, path) == "file"]
    lines = b"".join(quoted(path) + b"\n" for path in there)
    words = ("hash-object", "-w", "--no-filters", "--stdin-paths")
    blobs = dict(zip(there, worktree.git(words, stdin=lines).text.split("\n"), strict=False))
    entries = b"".join(
        f"{REGULAR} {blob} 0\t".encode() + nul_joined([path]) for path, blob in blobs.items()
    )
    with temp_index(worktree) as index:
        worktree.git(("update-index", "-z", "--index-info"), index=index, stdin=entries)
        tree = write_tree(worktree, index)
    return commit_tree(worktree, tree, [], "expdb: bytes as they were"), blobs


def write_raw(worktree: WorkTree, row: PlanRow) -> None:
    """Write the bytes that are kept for the row, if any, to its path, where nothing or a file
    stands.

    Raises:
        GitError: the blob is not in this repository.
    """
    blob = row.raw_after
    if row.after is None or blob is None:
        return
    target = worktree.top / row.path
    target.parent.mkdir(parents=True, exist_ok=True)
    new = worktree.private_dir / f".tmp-raw-{blob}"
    new.write_bytes(worktree.git(("cat-file", "blob", blob)).out)
    if row.after[0] == EXECUTABLE:
        new.chmod(new.stat().st_mode | (new.stat().st_mode & 0o444) >> 2)
    try:
        new.replace(target)  # a kill leaves no half of a file
    except OSError as error:
        if error.errno != errno.EXDEV:  # the git directory may lie on another file system
            raise
        target.unlink(missing_ok=True)
        shutil.copy(new, target)
        new.unlink()


def _bytes_of(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
