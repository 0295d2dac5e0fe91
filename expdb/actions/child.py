"""Processes that a command starts: which program, and what becomes of them when it is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

TELL_WHEN_PARENT_DIES: Final = 1
"""PR_SET_PDEATHSIG; prctl(2)."""


def program(argv: Sequence[str]) -> list[str]:
    """Return a recorded command as it is started here.

    Its `python` is the one that runs expdb: the environment that has what the run needs.
    """
    return [sys.executable if argv[0] == "python" else argv[0], *argv[1:]]


def with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """Return what has a child get a signal when its parent dies, to be called in the child; None
    where the system has no such thing.

    The parent is the thread that starts the child: it has to live as long.
    """
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)  # looked up before the fork: the child only calls it
    parent = os.getpid()

    def ask() -> None:
        libc.prctl(TELL_WHEN_PARENT_DIES, number, 0, 0, 0)
        if os.getppid() != parent:  # it has died before it could be asked for
            os._exit(128 + number)

    return ask


def end_group(pid: int) -> None:
    """Kill what is left of the session that a child began."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
