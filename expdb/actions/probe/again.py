"""A training command as a child that records into a place of its own and ends early.

Invariant: the child and all it started are gone when this returns; where the system can, they go
with this process too, should it be killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from expdb.actions.child import end_group, program, with_parent
from expdb.store.probing import VARIABLE

TICK_S: Final = 0.5
NOT_PASSED: Final = ("EXPDB_LAUNCH", "EXPDB_STORE", VARIABLE)


def run_again(
    argv: Sequence[str],
    *,
    cwd: Path,
    store: Path,
    stop_at: int,
    output: Path,
    tick: Callable[[], None] | None = None,
) -> int:
    """Run a command to its end and return its status; what it prints goes to the file `output`.

    Meanwhile `tick` is called twice a second.

    Raises:
        KeyboardInterrupt: this process was interrupted or told to end; the child is gone.
    """
    with output.open("wb") as out, _told_to_end():
        child = subprocess.Popen(
            program(argv),
            cwd=cwd,
            env=_environment(os.environ, store, stop_at),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=with_parent(signal.SIGKILL),
        )
        try:
            while tick is not None:
                with suppress(subprocess.TimeoutExpired):
                    return child.wait(TICK_S)
                tick()
            return child.wait()
        finally:
            end_group(child.pid)
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
    own = {"EXPDB_STORE": str(store), VARIABLE: f"{stop_at}:{store}"}
    # Where it runs in the work tree of the user, it leaves nothing in there.
    return {**kept, **own, "PYTHONDONTWRITEBYTECODE": "1"}


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
