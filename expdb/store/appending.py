"""The writing end of a journal: a frame is whole on disk, or the file is as it was before.

Invariant: that holds on a full disk, and where a signal handler raises in the middle of it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from expdb.store.files import fsync_dir, temp_path
from expdb.store.journal import encode_header


class JournalWriter:
    """Appends frames to one journal file; one writer, one process.

    Raises OSError from `append` when the frame is not whole on disk; the file is then cut back to
    its last whole frame where that is possible, else it is `broken` and the next frame has to start
    a new file.

    A signal handler may raise out of `append` at any point: what became of that frame is found out
    at the next call, and a frame that is on disk is not written twice.
    """

    def __init__(self, path: Path, *, run: str, attempt: int, rank: int) -> None:
        self.path = path
        temp = temp_path(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(temp, flags, 0o666)
        self.broken = False
        """Whether the tail could not be cut back: this file takes no more frames."""
        self._size = 0
        self._begun = self._last = b""
        self._is_new = True
        try:
            self.append(encode_header(run=run, attempt=attempt, rank=rank))
            # A journal has its header from its first moment: one that is empty was emptied.
            os.link(temp, path)
            temp.unlink()
        except BaseException:
            temp.unlink(missing_ok=True)
            if path.exists() and os.path.samestat(path.stat(), os.fstat(self._fd)):
                path.unlink()
            self.close()
            raise

    @property
    def size(self) -> int:
        """The bytes of the whole frames in the file, and of its header."""
        if self._begun:
            self._look_back()
        return self._size

    def append(self, frame: bytes) -> None:
        """Write one whole frame (see `encode_frame`); the same one again is not written again.

        Raises:
            OSError: the frame is not on disk.
        """
        if self._begun:
            self._look_back()
        if frame is self._last:
            return
        if self.broken:
            raise OSError(errno.EIO, "a half record could not be cut off", str(self.path))
        self._begun = frame
        # A full disk writes half of it and returns the count without an error.
        try:
            written = os.write(self._fd, frame)
        except OSError:
            self._look_back()
            raise
        if written != len(frame):
            self._look_back()
            raise OSError(errno.ENOSPC, f"only {written} of {len(frame)} bytes fit", str(self.path))
        self._size += written
        self._last, self._begun = frame, b""

    def _look_back(self) -> None:
        """Find out what became of a frame whose writing was cut off."""
        frame = self._begun
        try:
            size = os.fstat(self._fd).st_size
            if size == self._size + len(frame):
                self._size, self._last = size, frame
            elif size != self._size:
                os.ftruncate(self._fd, self._size)
        except OSError:
            self.broken = True
        self._begun = b""

    def syncer(self) -> Callable[[], None]:
        """Return what makes all written so far survive a power loss; any thread may call it, once.

        Raises:
            OSError: the journal is closed, or this process has too many open files.
        """
        fd = os.dup(self._fd)

        def sync() -> None:
            try:
                os.fdatasync(fd)
                if self._is_new:
                    fsync_dir(self.path.parent)
                    self._is_new = False
            finally:
                os.close(fd)

        return sync

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def remove(self) -> None:
        """Close the file and take it away again: nothing of worth was written to it."""
        self.close()
        self.path.unlink(missing_ok=True)
