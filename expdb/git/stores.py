"""Which stores pin commits of a repository, and who may drop a pin.

    <common git dir>/expdb/stores/<store id>    the folder of a store that has pinned here
    <common git dir>/expdb/pins.lock            held shared from a pin to the run's record of it

A pin's ref belongs to every store that has a run of its commit: whoever drops one asks all of them,
and holds the lock alone, so that no start is between its pin and its run.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from expdb.errors import Conflict
from expdb.git.worktree import WorkTree

FOLDER = Path("expdb", "stores")
LOCK = Path("expdb", "pins.lock")
WAIT_S = 10.0
POLL_S = 0.05


@contextmanager
def pinning(worktree: WorkTree, store_id: str, root: Path) -> Iterator[None]:
    """Note that a store pins commits here, and keep every pin while the block runs.

    A repository that cannot be written is left as it is: nobody can drop its refs either.
    """
    with suppress(OSError):
        _register(worktree, store_id, root)
    try:
        fd = _open_lock(worktree)
    except OSError:
        yield
        return
    try:
        # A drop takes a moment; a lock that a stopped process holds for longer stops no training.
        _lock(fd, fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


@contextmanager
def dropping(worktree: WorkTree) -> Iterator[None]:
    """Hold the lock under which pins may be dropped.

    Raises:
        Conflict: a run is just being started, or another process drops pins.
        OSError: the repository cannot be written.
    """
    fd = _open_lock(worktree)
    try:
        if not _lock(fd, fcntl.LOCK_EX):
            raise Conflict("a run is being started in this repository", hint="again in a moment")
        yield
    finally:
        os.close(fd)


def registered(worktree: WorkTree) -> dict[str, Path]:
    """Return store id -> its folder as last seen.

    Raises:
        OSError: the notes cannot be read, so that it is not known.
    """
    folder = worktree.common_dir / FOLDER
    if not folder.is_dir():
        return {}
    return {
        path.name: Path(os.fsdecode(path.read_bytes()))
        for path in sorted(folder.iterdir())
        if not path.name.startswith(".")
    }


def _register(worktree: WorkTree, store_id: str, root: Path) -> None:
    path = worktree.common_dir / FOLDER / store_id
    text = os.fsencode(root.absolute())
    with suppress(FileNotFoundError):
        if path.read_bytes() == text:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.with_name(f".tmp-{store_id}-{os.getpid()}")
    temp.write_bytes(text)
    temp.rename(path)


def _open_lock(worktree: WorkTree) -> int:
    path = worktree.common_dir / LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def _lock(fd: int, kind: int) -> bool:
    until = time.monotonic() + WAIT_S
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(POLL_S)
        except OSError:
            return False  # a file system without locks
        else:
            return True
