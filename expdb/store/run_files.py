"""The files of a run folder on their way to another place: listed, compared, copied.

Invariant: only regular files in real folders are listed and read: a link, a pipe or a device in a
run folder makes it unfit. A copy has the time of its original, set when it is whole and synced, so
that equal size and time mean that it was copied whole.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from expdb.errors import Conflict, Corrupt, Refused
from expdb.store.files import fsync_dir, open_regular
from expdb.store.folders import names_in
from expdb.store.layout import is_passed_over
from expdb.text import plain

CHUNK = 1 << 20
TEMP = ".tmp-"
UPDATE = f"{TEMP}update-"
"""Begins the name of the file that a run has while an update of it is under way, or cut off."""


@dataclass(frozen=True, slots=True)
class FileAt:
    """One file as it was listed."""

    size: int
    mtime_ns: int


Files = Mapping[str, FileAt]
"""Path below a run folder, with forward slashes -> what is there."""


def list_files(root: Path) -> dict[str, FileAt]:
    """Return the files of a run folder but temporary ones, sorted by path.

    Raises:
        Refused: there is something that is neither a file nor a folder, or a name is no UTF-8.
        OSError: it cannot be read, or is gone.
    """
    found: dict[str, FileAt] = {}
    stack, top = [""], str(root)
    while stack:
        prefix = stack.pop()
        with os.scandir(f"{top}/{prefix}") as entries:
            for entry in entries:
                path = f"{prefix}{entry.name}"
                if entry.name.startswith(TEMP) or is_passed_over(entry.name):
                    continue
                try:
                    path.encode()
                except UnicodeEncodeError:
                    raise Refused(f"the file name {path!a} is not UTF-8 text") from None
                if entry.is_symlink():
                    raise Refused(f"{plain(path)} is a link; only files are copied")
                if entry.is_dir(follow_symlinks=False):
                    stack.append(f"{path}/")
                elif entry.is_file(follow_symlinks=False):
                    seen = entry.stat(follow_symlinks=False)
                    found[path] = FileAt(seen.st_size, seen.st_mtime_ns)
                else:
                    raise Refused(f"{plain(path)} is no regular file")
    return dict(sorted(found.items()))


def is_being_updated(root: Path) -> bool:
    """Tell whether an update of a run from another place is under way, or was cut off."""
    return any(name.startswith(UPDATE) for name in names_in(root))


def are_same(src: Path, dst: Path, one: FileAt, other: FileAt) -> bool:
    """Tell whether two files hold the same: read only where their times differ.

    Raises:
        OSError: one cannot be read.
    """
    if one.size != other.size:
        return False
    return one.mtime_ns == other.mtime_ns or begins_with(src, dst, one.size)


def begins_with(src: Path, dst: Path, size: int) -> bool:
    """Tell whether two files have the same first `size` bytes."""
    with open_regular(src) as left, open_regular(dst) as right:
        while size > 0:
            chunk = left.read(min(CHUNK, size))
            if not chunk or chunk != right.read(len(chunk)):
                return False
            size -= len(chunk)
    return True


def copy_file(src: Path, dst: Path, at: FileAt, *, sha256: str | None = None) -> None:
    """Write a copy of a file, synced; a file of that name is written over, a link never followed.

    Raises:
        Conflict: the file is not what was listed any more.
        Corrupt: its SHA-256 is not the one that is wanted.
        OSError: it cannot be read or written.
    """
    digest = hashlib.sha256()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open_regular(src) as source, os.fdopen(os.open(dst, flags, 0o666), "wb") as target:
        left = at.size
        while left:
            chunk = source.read(min(CHUNK, left))
            if not chunk:
                raise Conflict(f"{plain(src.name)} became shorter while it was copied")
            target.write(chunk)
            if sha256 is not None:
                digest.update(chunk)
            left -= len(chunk)
        if sha256 is not None and digest.hexdigest() != sha256:
            raise Corrupt(f"{plain(src.name)} is damaged: its SHA-256 is another")
        target.flush()
        os.fsync(target.fileno())
        os.utime(target.fileno(), ns=(at.mtime_ns, at.mtime_ns))


def put_file(src: Path, dst: Path, at: FileAt, *, tag: str, sha256: str | None = None) -> None:
    """Put a copy of a file in place by one rename; its folder is made, and synced.

    `tag` names who copies, so that what a kill leaves is written over by the next try.

    Raises:
        Conflict, Corrupt, OSError: as `copy_file`.
    """
    dst.parent.mkdir(parents=True, exist_ok=True)
    temp = dst.with_name(f"{TEMP}{dst.name[:100]}-{tag}")
    copy_file(src, temp, at, sha256=sha256)
    temp.rename(dst)
    fsync_dir(dst.parent)


def no_tick(num_bytes: int) -> None:
    """Tell nobody how much was copied."""


def copy_tree(
    src: Path,
    temp: Path,
    wanted: Files,
    *,
    sums: Mapping[str, str],
    tick: Callable[[int], None] = no_tick,
) -> None:
    """Copy files below `src` to below `temp`, where what was copied whole before is kept.

    What else is in `temp` goes. `sums` is path -> the SHA-256 that a file has to have; `tick` is
    told the bytes of each file that is there.

    Raises:
        Conflict, Corrupt, OSError: as `copy_file`.
    """
    temp.mkdir(exist_ok=True)
    there = _leftover(temp, wanted)
    folders = {temp}
    for path, at in wanted.items():
        folder = temp
        for part in path.split("/")[:-1]:
            folder /= part
            folder.mkdir(exist_ok=True)
            folders.add(folder)
        if there.get(path) != at:  # its time comes last, after its sum was looked at
            copy_file(src / path, temp / path, at, sha256=sums.get(path))
        tick(at.size)
    for folder in sorted(folders, reverse=True):
        fsync_dir(folder)


def _leftover(temp: Path, wanted: Files) -> dict[str, FileAt]:
    """Return what an earlier try left, after removing what is not wanted any more."""
    try:
        there = list_files(temp)
    except Refused:
        there = {}
    extra = any(path not in wanted for path in there) or not there
    if extra and any(temp.iterdir()):
        import shutil

        shutil.rmtree(temp)
        temp.mkdir()
        return {}
    return there
