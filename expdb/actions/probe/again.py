"""A recorded command once more, as a child that records into a place of its own and ends early.

Invariant: the child and all it started are gone when this returns; where the system can, they go
with this process too, should it be killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from expdb.store.probing import VARIABLE

NOT_PASSED: Final = ("EXPDB_LAUNCH", "EXPDB_STORE", VARIABLE)
DIE_WITH_PARENT: Final = 1
"""PR_SET_PDEATHSIG; prctl(2)."""


def run_again(argv: Sequence[str], *, cwd: Path, store: Path, stop_at: int, output: Path) -> int:
    """Run a command to its end and return its status; what it prints goes to the file `output`.

    Raises:
        KeyboardInterrupt: this process was interrupted or told to end; the child is gone.
    """
    words = [sys.executable if argv[0] == "python" else argv[0], *argv[1:]]
    with output.open("wb") as out, _told_to_end():
        child = subprocess.Popen(
            words,
            cwd=cwd,
            env=_environment(os.environ, store, stop_at),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_with_parent(),
        )
        try:
            return child.wait()
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def last_lines(output: Path, count: int) -> tuple[str, ...]:
    """Return the last lines that say something of what a command printed."""
    try:
        text = output.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    return tuple(line.rstrip() for line in text.splitlines() if line.strip())[-count:]


def _environment(env: Mapping[str, str], store: Path, stop_at: int) -> dict[str, str]:
    kept = {name: value for name, value in env.items() if name not in NOT_PASSED}
    return {**kept, "EXPDB_STORE": str(store), VARIABLE: f"{stop_at}:{store}"}


def _with_parent() -> Callable[[], None] | None:
    """Return what makes a child end with its parent; None where the system has no such thing."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)  # looked up before the fork: the child only calls it

    def ask() -> None:
        libc.prctl(DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)

    return ask


@contextmanager
def _told_to_end() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as Ctrl-C, so that nothing is left behind."""

    def stop(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
