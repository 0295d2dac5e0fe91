"""Making the work tree equal to a tree, path by path of a plan, and taking that back.

Git writes the files (`checkout-index`), so line endings, modes and links come out as in a checkout;
its index is replaced by one rename. `read-tree -u --reset` is not used: it also overwrites files
outside the plan that were edited after the save.

Invariant: only paths of the plan are touched, and only those that stand as before or after it;
killed at any point, the same call finishes the work. HEAD, branches and the stash stay.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from expdb.errors import NotFound, Refused
from expdb.git.blockers import Blocked, blockers, folder_reason
from expdb.git.capture import missing_from
from expdb.git.command import nul_joined
from expdb.git.disk import Kind, kind_of, kinds_above, remove_empty_folders, remove_path
from expdb.git.index import (
    TEMP_PREFIX,
    copy_index,
    fill_index,
    refresh,
    temp_index,
    write_tree,
)
from expdb.git.objects import hash_files
from expdb.git.plan import PlanRow, path_state, path_states, plan
from expdb.git.raw import write_raw
from expdb.git.worktree import WorkTree
from expdb.text import plain

__all__ = [
    "Blocked",
    "PlanRow",
    "blockers",
    "path_state",
    "path_states",
    "plan",
    "put_index_back",
    "restore",
    "verify",
]

_MARK: Final = "expdb"


def restore(
    worktree: WorkTree,
    *,
    base_index: Path,
    tree: str,
    rows: Sequence[PlanRow] | None = None,
) -> int:
    """Make the work tree equal to `tree` and git's index hold it; return how many paths were
    written or removed.

    `base_index` describes the tree that the plan starts from; `rows` is that plan, made anew where
    it is not given. A path that was edited since is overwritten only where its row has, as what
    stands before, what it was saved as since.

    Raises:
        Refused: git's index is locked, or a path stands neither as before nor as after; nothing was
        written. GitError: git failed midway; the same call goes on.
    """
    with _index_lock(worktree), temp_index(worktree, base_index) as index:
        if rows is None:
            rows = plan(worktree, write_tree(worktree, index), tree)
        states = path_states(worktree, rows)
        _require_untouched(worktree, rows, [p for p in states if states[p] == "other"])
        todo = [row for row in rows if states[row.path] != "after" or row.before == row.after]
        if index.exists():
            worktree.git(("read-tree", "--reset", tree), index=index)
        else:
            fill_index(worktree, index, tree)
        for row in todo:
            if row.after is None:
                remove_path(worktree.top, row.path)
        _forget_stat(worktree, index, [row for row in todo if row.before == row.after])
        written = [row for row in todo if row.after is not None]
        _make_room(worktree, written)
        _write(worktree, index, [row.path for row in written if row.raw_after is None])
        for row in written:
            write_raw(worktree, row)
        refresh(worktree, index)
        _publish(worktree, index)
    return len(todo)


def verify(worktree: WorkTree, tree: str, rows: Sequence[PlanRow] = ()) -> list[str]:
    """Return the paths in which the work tree differs from `tree`, by reading every file anew.

    Untracked files are not looked at, except for paths that `rows` deletes.

    Raises:
        GitError: git cannot read the repository.
    """
    with temp_index(worktree) as index:
        fill_index(worktree, index, tree)
        done = worktree.git(("add", "--update", "--ignore-errors"), index=index, check=False)
        found = write_tree(worktree, index)
        words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", f"{tree}^{{tree}}", found)
        differing = set(worktree.git(words).names)
        if done.rc != 0:
            differing.update(missing_from(worktree, index))
    as_is = {row.path: row.raw_after for row in rows if row.path in differing and row.raw_after}
    bytes_of = hash_files(worktree, as_is, as_is=True)
    differing -= {path for path, blob in as_is.items() if blob == bytes_of[path]}
    left = (row.path for row in rows if row.after is None)
    differing.update(p for p in left if kind_of(worktree.top, p) in ("file", "link", "other"))
    return sorted(differing)


def put_index_back(worktree: WorkTree, index_copy: Path) -> None:
    """Make git's index what it was when `index_copy` was saved.

    Raises:
        Refused: git's index is locked.
        NotFound: the copy is gone.
    """
    if not index_copy.is_file():
        raise NotFound(f"the saved index {index_copy} is gone")
    with _index_lock(worktree), temp_index(worktree, index_copy) as index:
        refresh(worktree, index)
        _publish(worktree, index)


def _require_untouched(worktree: WorkTree, rows: Sequence[PlanRow], edited: list[str]) -> None:
    """Refuse before the first write where a path holds something that neither tree has."""
    deleted = frozenset(row.path for row in rows if row.after is None)
    above = kinds_above(worktree.top, (row.path for row in rows if row.after is not None))
    for row in rows:
        in_place = row.after is not None and kind_of(worktree.top, row.path) == "folder"
        if in_place and folder_reason(worktree, row.path, deleted) is not None:
            edited.append(row.path)
        parent = None if row.after is None else _parent_in_the_way(row.path, above, deleted)
        if parent is not None:
            edited.append(parent)
    if edited:
        paths = sorted(set(edited))
        were = "1 path was" if len(paths) == 1 else f"{len(paths)} paths were"
        raise Refused(
            f"{were} edited since the work tree was saved; nothing written",
            details=tuple(plain(path) for path in paths),
        )


def _parent_in_the_way(path: str, above: Mapping[str, Kind], deleted: frozenset[str]) -> str | None:
    parts = path.split("/")
    for at in range(1, len(parts)):
        parent = "/".join(parts[:at])
        kind = above[parent]
        if kind != "folder":
            return None if kind == "absent" or parent in deleted else parent
    return None


def _forget_stat(worktree: WorkTree, index: Path, rows: Sequence[PlanRow]) -> None:
    """Make git write these files although their blobs stay; it skips what looks unchanged."""
    lines = b"".join(
        f"{row.after[0]} {row.after[1]} 0\t".encode() + nul_joined([row.path])
        for row in rows
        if row.after is not None
    )
    if lines:
        worktree.git(("update-index", "-z", "--index-info"), index=index, stdin=lines)


def _make_room(worktree: WorkTree, rows: Sequence[PlanRow]) -> None:
    for row in rows:
        kind = kind_of(worktree.top, row.path)
        if kind == "folder" and not remove_empty_folders(worktree.top, row.path):
            raise Refused(f"a folder with files stands where the file {plain(row.path)} must go")


def _write(worktree: WorkTree, index: Path, paths: Sequence[str]) -> None:
    if paths:
        worktree.git(
            ("checkout-index", "--force", "--index", "--quiet", "-z", "--stdin"),
            index=index,
            stdin=nul_joined(paths),
        )


def _publish(worktree: WorkTree, index: Path) -> None:
    """Replace git's index by `index` in one step."""
    ready = index.with_name(index.name + ".ready")
    try:
        copy_index(index, ready, durable=True)
        ready.replace(worktree.index_path)
    finally:
        ready.unlink(missing_ok=True)


@contextmanager
def _index_lock(worktree: WorkTree) -> Iterator[None]:
    """Hold git's own lock on the index, so that no git command changes it meanwhile.

    A lock that a killed expdb of this host left behind is taken over; one of git is not.
    """
    path = worktree.index_path.with_name("index.lock")
    mine = f"{_MARK} {socket.gethostname()} {os.getpid()}\n".encode()
    try:
        _create(worktree, path, mine)
    except FileExistsError:
        if not _left_behind(path):
            raise Refused(
                "git's index is locked; nothing written",
                hint=f"if no git command is running: rm {path}",
            ) from None
        path.unlink(missing_ok=True)
        _create(worktree, path, mine)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _create(worktree: WorkTree, path: Path, data: bytes) -> None:
    """Make a file that is not there, with all it holds at once: an empty lock says nobody's name.

    Raises:
        FileExistsError: it is there.
    """
    worktree.private_dir.mkdir(exist_ok=True)
    new = worktree.private_dir / f"{TEMP_PREFIX}lock-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        new.write_bytes(data)
        os.link(new, path)
    finally:
        new.unlink(missing_ok=True)


def _left_behind(path: Path) -> bool:
    try:
        mark, host, pid = path.read_text("utf-8", "replace")[:500].split()
        number = int(pid)
    except (FileNotFoundError, ValueError):
        return False
    if mark != _MARK or host != socket.gethostname():
        return False
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
