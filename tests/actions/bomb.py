"""A process that kills itself before one of its changes of a file.

What changes a file is counted from outside: calls of Python, and git commands that write.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any

from expdb.git.command import verb

READING = {"rev-parse", "config", "ls-files", "ls-tree", "check-attr", "check-ignore", "status"}
READING |= {"diff-tree", "diff-files", "diff-index", "cat-file", "symbolic-ref", "hash-object"}
READING |= {"rev-list"}


class Bomb:
    """Kills the process before its `at`-th change of a file."""

    def __init__(self, at: int, partial: int | None = None) -> None:
        self.left = at
        self.partial = partial

    def tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrap(self, call: Callable[..., Any], when: Callable[..., bool]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if when(*args, **kwargs):
                self.tick()
            return call(*args, **kwargs)

        return wrapped

    def arm(self) -> None:
        always = lambda *args, **kwargs: True  # noqa: E731
        for name in ("replace", "link", "rename", "unlink", "rmdir", "mkdir", "chmod", "utime"):
            setattr(os, name, self.wrap(getattr(os, name), always))
        os.open = self.wrap(os.open, lambda path, flags, *rest, **kw: bool(flags & os.O_CREAT))
        io.open = self.wrap(io.open, lambda file, mode="r", *rest, **kw: mode[0] in "wxa")
        run = subprocess.run
        if self.partial is not None:
            subprocess.run = self.cut_short(run)
        else:
            subprocess.run = self.wrap(run, lambda args, **kw: verb(args[1:]) not in READING)

    def cut_short(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Kill git's checkout after its first few files, and its parent with it."""

        def wrapped(args: list[str], **kwargs: Any) -> Any:
            if verb(args[1:]) != "checkout-index":
                return run(args, **kwargs)
            names = kwargs["input"].split(b"\0")[:-1][: self.partial]
            kwargs["input"] = b"".join(name + b"\0" for name in names)
            run(args, **kwargs)
            return os.kill(os.getpid(), signal.SIGKILL)

        return wrapped


def survives(bomb: Bomb, action: Callable[[], object]) -> bool:
    """Run `action` in a child with the bomb; False when it was killed."""
    pid = os.fork()
    if pid == 0:
        try:
            bomb.arm()
            action()
        except BaseException:  # noqa: BLE001 - a forked child may not run pytest's own ending
            import traceback

            traceback.print_exc()
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(status) == 0, "the child failed by itself"
    return True
