"""Durable file operations: write whole, fsync, rename, fsync the folder.

Invariant: a reader sees the old file or the new one, never half of one; temporary names start with
`.tmp-` and match no glob of ours.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from expdb.errors import Conflict, Corrupt

READ_BYTES = 1 << 16
WORDS = {
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "no space left",
    errno.EDQUOT: "the quota is used up",
    errno.ELOOP: "it is a link",
    errno.ENOTDIR: "a part of the path is a file",
}


def reason(error: OSError) -> str:
    """Return an I/O error in plain words."""
    return WORDS.get(error.errno or 0, error.strerror or str(error))


def open_regular(path: Path) -> BufferedReader:
    """Open a file of the store for reading, where it is one: of no pipe, device or link is waited
    for or read what lies elsewhere.

    Raises:
        OSError: it is something else, or cannot be opened.
    """
    return os.fdopen(_open_regular(path), "rb")


def read_regular(path: Path) -> bytes:
    """Return what a file of the store holds.

    Raises:
        OSError: as `open_regular`, or it cannot be read.
    """
    # With a file object it takes twice as long, and five are read of every run that is indexed.
    fd = _open_regular(path)
    try:
        parts = [os.read(fd, READ_BYTES)]
        while parts[-1]:
            parts.append(os.read(fd, READ_BYTES))
    finally:
        os.close(fd)
    return b"".join(parts)


def _open_regular(path: Path) -> int:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
    except OSError:
        os.close(fd)
        raise
    return fd


def fsync_dir(path: Path) -> None:
    """Make the entries of a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_dir(path: Path) -> None:
    """Make a folder that survives a power loss, unless it is there; its parent has to be there.

    Raises:
        FileExistsError: a file is in the way.
    """
    try:
        path.mkdir()
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    fsync_dir(path.parent)


def temp_path(path: Path) -> Path:
    """Return a fresh temporary name beside `path`."""
    return path.with_name(f".tmp-{path.name[:100]}-{os.urandom(4).hex()}")


def write_bytes(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace `path` by `data` in one step; with `durable` it survives a power loss."""
    temp = temp_path(path)
    try:
        with temp.open("xb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temp.replace(path)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    if durable:
        fsync_dir(path.parent)


def create_bytes(path: Path, data: bytes) -> None:
    """Create `path` with `data`; it appears whole or not at all.

    Raises:
        FileExistsError: the name is taken.
    """
    temp = temp_path(path)
    try:
        with temp.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(temp, path)
    finally:
        temp.unlink(missing_ok=True)
    fsync_dir(path.parent)


def encode_json(value: Any, *, is_plain: bool = False) -> bytes:
    """Return strict JSON with non-finite numbers as the strings NaN, Infinity, -Infinity.

    With `is_plain` there are none, and every key is a text.
    """
    value = value if is_plain else plain(value)
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass") + b"\n"


def plain(value: Any) -> Any:
    """Return `value` with non-finite floats replaced by their documented strings."""
    if isinstance(value, float):
        if value != value:
            return "NaN"
        if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def write_json(path: Path, value: Any, *, durable: bool = True, is_plain: bool = False) -> None:
    """Replace `path` by `value` as strict JSON; `is_plain` as in `encode_json`."""
    write_bytes(path, encode_json(value, is_plain=is_plain), durable=durable)


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in `path`.

    Raises:
        Corrupt: the file holds something else, or cannot be read.
        FileNotFoundError, NotADirectoryError: there is no such file.
    """
    try:
        data = read_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise _corrupt(path, f"cannot be read: {reason(error)}") from error
    try:
        value = json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        found = "is empty" if not data else f"is not JSON ({error})"
        raise _corrupt(path, found) from error
    if not isinstance(value, dict):
        raise _corrupt(path, "holds no JSON object")
    return value


def _corrupt(path: Path, found: str) -> Corrupt:
    return Corrupt(f"{path.name} {found}", hint=f"the file: {path}")


class Held:
    """A lock file that this process holds."""

    def __init__(self, path: Path, said: Mapping[str, Any]) -> None:
        self.path = path
        self.is_left = False
        """Whether it stays when its block ends, for what it names to hold it on."""
        self._said = dict(said)

    @property
    def token(self) -> str:
        """What no other holder has."""
        return str(self._said["token"])

    @property
    def data(self) -> bytes:
        """What is in the file as long as it is held."""
        return encode_json(self._said)

    @property
    def is_held(self) -> bool:
        """Whether the file is still this holder's."""
        try:
            return self.path.read_bytes() == self.data
        except OSError:
            return False

    def add(self, about: Mapping[str, Any]) -> None:
        """Write more about its holder into it."""
        self._said |= about
        write_bytes(self.path, self.data)


@contextmanager
def exclusive(path: Path, *, what: str, about: Mapping[str, Any] | None = None) -> Iterator[Held]:
    """Hold the lock file `path` (O_EXCL) for the length of the block; `about` is kept in it.

    A lock left behind by a dead process of this host is taken over. A lock that was removed by hand
    and taken by another meanwhile is left to that one.

    Raises:
        Conflict: a live process holds it.
    """
    from expdb.store import owner

    path.parent.mkdir(parents=True, exist_ok=True)
    me = {**(about or {}), **owner.describe(), "token": os.urandom(8).hex()}
    held = Held(path, me)
    for _ in range(3):
        try:
            create_bytes(path, held.data)
            break
        except FileExistsError:
            remove_stale(path, what)
    else:
        raise Conflict(f"{what} is being taken by others", hint="try again")
    try:
        yield held
    finally:
        if not held.is_left and held.is_held:
            path.unlink(missing_ok=True)


def remove_stale(path: Path, what: str) -> None:
    """Remove a lock whose holder is dead.

    Two processes may find the same dead holder: who waits here until the other is done must not
    remove the new lock that stands in its place then, so the file is looked at again under
    flock(2). All who can tell are on one host.

    Raises:
        Conflict: the holder lives, as far as this host can tell.
    """
    from expdb.store import owner

    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            holder, now = read_json(path), path.stat()
        except FileNotFoundError:
            return
        if (now.st_dev, now.st_ino) != (os.fstat(fd).st_dev, os.fstat(fd).st_ino):
            return
        if owner.is_dead(holder):
            path.unlink(missing_ok=True)
            return
    finally:
        os.close(fd)
    host = "this host" if owner.same_host(holder) else "another host"
    raise Conflict(
        f"{what} is held by process {holder.get('pid')} on {host}",
        hint=f"if that process is gone: rm {path}",
    )
