"""A process that kills itself before one of its changes of a file: of Python's, and of git's."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

from expdb.git.command import verb
from tests.faults.killing import Child, Trap, die

READING = {"rev-parse", "config", "ls-files", "ls-tree", "check-attr", "check-ignore", "status"}
READING |= {"diff-tree", "diff-files", "diff-index", "cat-file", "symbolic-ref", "hash-object"}
READING |= {"rev-list"}


class Bomb:
    """Kills the process before its `at`-th change of a file, those that git makes at once counted
    as one.
    """

    def __init__(self, at: int, partial: int | None = None) -> None:
        self.trap = Trap(at)
        self.partial = partial

    def arm(self) -> None:
        self.trap.arm()
        run = subprocess.run
        subprocess.run = self.counted(run) if self.partial is None else self.cut_short(run)

    def counted(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(args: list[str], **kwargs: Any) -> Any:
            if verb(args[1:]) not in READING:
                self.trap.tick()
            return run(args, **kwargs)

        return wrapped

    def cut_short(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Kill git's checkout after its first few files, and its parent with it."""

        def wrapped(args: list[str], **kwargs: Any) -> Any:
            if verb(args[1:]) != "checkout-index":
                return run(args, **kwargs)
            names = kwargs["input"].split(b"\0")[:-1][: self.partial]
            kwargs["input"] = b"".join(name + b"\0" for name in names)
            run(args, **kwargs)
            return die()

        return wrapped


def survives(bomb: Bomb, action: Callable[[], object]) -> bool:
    """Run `action` in a child with the bomb; False when it was killed."""

    def work(child: Child) -> None:
        bomb.arm()
        action()

    return Child(work).survives()
