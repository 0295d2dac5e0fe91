"""Faults at an exact place: a child process that dies, tears a write or meets a full disk there.

Counted are the operations on files that Python itself does: opening to write, write, fsync, rename,
link, remove, folders, times. What a library does by itself (Arrow, DuckDB, torch) goes to temporary
files; kills at random moments meet it.
"""

from __future__ import annotations

import errno
import mmap
import os
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

Effect = Literal["kill", "tear", "full"]

CHANGES = frozenset(
    [
        "os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink",
        "os.truncate", "os.utime",
    ]
)  # fmt: skip
"""Audit events, each one operation; `open` too where the file may change."""
UNAUDITED = ("write", "fsync", "fdatasync", "sendfile")
FREEING = frozenset(["os.remove", "os.rmdir", "os.truncate", "os.utime", "os.chmod"])
"""What a full disk still does."""
NO_FILES = ("/dev/null", "/dev/tty", "/dev/pts/", "/proc/")
CHANGING = os.O_CREAT | os.O_WRONLY | os.O_RDWR | os.O_TRUNC


class Trap:
    """Strikes at the `at`-th operation on files of this process, once it is armed.

    `kill` dies before it. `tear` dies too, and leaves half of a write. `full`: this operation and
    those after it, `span` in all, find no space, and a write leaves its first half. Only paths
    below `within` count, where it is given; pipes and terminals never do.
    """

    def __init__(
        self, at: int, *, effect: Effect = "kill", span: int = 1, within: Path | None = None
    ) -> None:
        self.at, self.effect, self.span = at, effect, span
        self.count = 0
        self._within = None if within is None else str(within)

    def arm(self) -> None:
        """Begin to count; it cannot be taken back, so this is for children only."""
        for name in UNAUDITED:
            setattr(os, name, self._counted(name, getattr(os, name)))
        sys.addaudithook(self._audited)

    def tick(self, *, can_fill: bool = True) -> None:
        """Count an operation, and strike if it is the one."""
        self.count += 1
        if self.effect == "full":
            if can_fill and self.at <= self.count < self.at + self.span:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        elif self.count == self.at:
            die()

    def _audited(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            if not (isinstance(args[2], int) and args[2] & CHANGING):
                return
        elif event not in CHANGES:
            return
        if self._is_within(args[0]):
            self.tick(can_fill=event not in FREEING)

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(fd: int, *args: Any, **kwargs: Any) -> Any:
            if not self._is_within(fd):
                return real(fd, *args, **kwargs)
            if name == "write" and self._strikes_next():
                self.count += 1
                half = args[0][: len(args[0]) // 2]
                written = real(fd, half) if half else 0
                if self.effect == "tear":
                    die()
                return written  # as write(2) does it: fewer bytes, and no error
            self.tick()
            return real(fd, *args, **kwargs)

        return call

    def _strikes_next(self) -> bool:
        return self.effect != "kill" and self.count + 1 == self.at

    def _is_within(self, path: Any) -> bool:
        if isinstance(path, int):
            try:
                path = os.readlink(f"/proc/self/fd/{path}")
            except OSError:
                return False
        text = os.fsdecode(path)
        if self._within is not None:
            return text.startswith(self._within)
        return text.startswith("/") and not text.startswith(NO_FILES)


def die() -> None:
    """End this process as SIGKILL does."""
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()  # where another thread asked for it: not one operation more


def kill_before(number: int) -> None:
    """Die before the `number`-th operation on files of this process from here on."""
    Trap(number).arm()


class Child:
    """A forked process that tells by shared memory how far it has come.

    What it raises is printed, and ends it with exit code 1.
    """

    def __init__(self, work: Callable[[Child], object]) -> None:
        self._shared = mmap.mmap(-1, 8)
        self.tell(-1)
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                work(self)
                code = 0
            except BaseException:  # noqa: BLE001 - a forked child may not run pytest's own ending
                traceback.print_exc()
            finally:
                os._exit(code)

    def tell(self, step: int) -> None:
        """Say that all up to `step` is done."""
        struct.pack_into("q", self._shared, 0, step)

    @property
    def told(self) -> int:
        """What the child told last; -1 when nothing."""
        return int(struct.unpack_from("q", self._shared, 0)[0])

    def kill(self) -> None:
        """Send SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Return how it ended, as subprocess says it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def survives(self) -> bool:
        """Wait for the end; False when it was killed.

        Raises:
            AssertionError: it failed by itself.
        """
        code = self.wait()
        assert code in (0, -signal.SIGKILL), f"the child ended with {code}"
        return code == 0


class Barrier:
    """Lets processes go that wait for it, all at one moment."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 1)

    @property
    def is_open(self) -> bool:
        """Whether they may go."""
        return bool(self._shared[0])

    def wait(self) -> None:
        """Wait until they may go."""
        while not self.is_open:
            time.sleep(0.001)

    def open(self) -> None:
        """Let them go."""
        self._shared[0] = 1
