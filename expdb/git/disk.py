"""Paths of a work tree as they stand on disk, without following a link on the way.

Invariant: a path below a symbolic link or a file counts as absent, since git keeps nothing there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from expdb.git.index import EXECUTABLE, REGULAR, SYMLINK
from expdb.git.objects import blob_id, hash_files
from expdb.git.worktree import WorkTree

State = tuple[str, str]
"""Mode and blob id of a file or symbolic link."""

Kind = Literal["absent", "file", "link", "folder", "other"]


def kind_of(top: Path, path: str) -> Kind:
    """Return what stands at `path`, looking at each folder above it first."""
    # Asked for thousands of paths, several times each: text, as path objects cost ten times more.
    root = f"{top}/"
    at = path.find("/")
    while at >= 0:
        if _kind(root + path[:at]) != "folder":
            return "absent"
        at = path.find("/", at + 1)
    return _kind(root + path)


def kinds_above(top: Path, paths: Iterable[str]) -> dict[str, Kind]:
    """Return what stands at each folder above the paths, as `kind_of` tells it."""
    found: dict[str, Kind] = {}
    for path in paths:
        at = path.find("/")
        while at >= 0:
            above = path[:at]
            if above not in found:
                found[above] = kind_of(top, above)
            at = path.find("/", at + 1)
    return found


def _kind(path: str) -> Kind:
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "absent"
    except PermissionError:
        return "other"
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISLNK(mode):
        return "link"
    return "folder" if stat.S_ISDIR(mode) else "other"


def as_kept(state: State | None, *, modes: bool) -> State | None:
    """Return a state as the repository tells states apart; without `modes` the executable bit is no
    part of it.
    """
    return (REGULAR, state[1]) if state and not modes and state[0] == EXECUTABLE else state


def state_on_disk(
    worktree: WorkTree, wanted: Mapping[str, str], *, modes: bool
) -> dict[str, State | Kind]:
    """Return for each path its (mode, blob id) `as_kept`, or the kind where it is no readable file
    or link.

    `wanted` is path -> a blob id of the repository (any; its length tells the hash).
    """
    found: dict[str, State | Kind] = {}
    files: dict[str, str] = {}
    for path, like in wanted.items():
        full = f"{worktree.top}/{path}"
        kind = kind_of(worktree.top, path)
        if kind == "link":
            found[path] = (SYMLINK, blob_id(os.fsencode(os.readlink(full)), like))  # noqa: PTH115
        elif kind == "file":
            is_set = modes and os.stat(full).st_mode & 0o100  # noqa: PTH116
            files[path] = EXECUTABLE if is_set else REGULAR
        else:
            found[path] = kind
    for path, blob in hash_files(worktree, files).items():
        found[path] = "other" if blob is None else (files[path], blob)
    return found


def walk_files(top: Path, folder: str) -> Iterator[str]:
    """Yield the paths of all that is no folder below `folder`; a nested repository as one path with
    a slash.
    """
    with os.scandir(top / folder) as found:
        names = sorted(found, key=lambda entry: entry.name)
    for entry in names:
        path = f"{folder}/{entry.name}"
        if entry.name == ".git":
            yield f"{path}/"
        elif entry.is_dir(follow_symlinks=False):
            yield from walk_files(top, path)
        else:
            yield path


def remove_path(top: Path, path: str) -> None:
    """Remove a file or link, then folders above it that became empty; never the current one."""
    if kind_of(top, path) not in ("file", "link"):
        return
    (top / path).unlink()
    stay = _current_folder()
    folder = (top / path).parent
    while folder != top and not (stay is not None and stay.is_relative_to(folder)):
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def remove_empty_folders(top: Path, folder: str) -> bool:
    """Remove `folder` if nothing but folders is below it; tell whether it is gone."""
    if next(walk_files(top, folder), None) is not None:
        return False
    for path, _, _ in os.walk(top / folder, topdown=False):
        Path(path).rmdir()
    return True


def _current_folder() -> Path | None:
    try:
        return Path.cwd()
    except OSError:
        return None
