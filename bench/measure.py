"""Runs processes and says what they cost: wall time, CPU of all they started, memory, the load
beside them.

What a process leaves running (a peer's own service) is adopted, waited for and counted; what has
not ended after a while is killed and counted too.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

PR_SET_CHILD_SUBREAPER: Final = 36
LEFT_S: Final = 10.0
"""So long may what a process left behind take to end."""

_started: set[int] = set()
"""All that `Running` started: each is waited for by its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One process to run."""

    words: Sequence[str]
    cwd: Path
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What one process took."""

    rc: int
    out: str
    err: str
    wall_s: float
    cpu_s: float
    """Of the process and of all it started."""
    rss_mb: float
    """Of its largest process."""
    left: int
    """Processes that it left behind and that had to be killed."""


class Running:
    """A process that was started; `wait` gives what it took."""

    def __init__(self, command: Command) -> None:
        _adopt()
        self._before = _children()  # this process may have others, which are not ours to wait for
        self._files = [os.memfd_create(name) for name in ("out", "err")]
        self._began = time.perf_counter()
        self.process = subprocess.Popen(
            list(command.words),
            cwd=command.cwd,
            env=dict(command.env),
            stdin=subprocess.DEVNULL,
            stdout=self._files[0],
            stderr=self._files[1],
        )
        _started.add(self.process.pid)

    def is_running(self) -> bool:
        """Tell whether it has not ended; `wait` is still to be called."""
        state = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return state is None

    def kill(self) -> None:
        """End it as a power cut would: no handler runs."""
        self.process.send_signal(signal.SIGKILL)

    def wait(self, timeout_s: float = 1200.0) -> Spent:
        """Wait until it has ended; it is killed after `timeout_s`."""
        pid = self.process.pid
        until = time.monotonic() + timeout_s
        while True:
            done, status, used = os.wait4(pid, os.WNOHANG)
            if done:
                break
            if time.monotonic() > until:
                self.kill()
            time.sleep(0.002)
        wall = time.perf_counter() - self._began
        self.process.returncode = os.waitstatus_to_exitcode(status)
        cpu, left = self._reap(used.ru_utime + used.ru_stime)
        out, err = (_text(number) for number in self._files)
        return Spent(
            rc=self.process.returncode,
            out=out,
            err=err,
            wall_s=wall,
            cpu_s=cpu,
            rss_mb=used.ru_maxrss / 1000,
            left=left,
        )

    def _reap(self, cpu: float) -> tuple[float, int]:
        """Wait for what was left behind; return all CPU and how many had to be killed."""
        until, killed = time.monotonic() + LEFT_S, 0
        while left := _children() - self._before - _started:
            for pid in left:
                late = time.monotonic() > until
                if late:
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
                done, _, used = os.wait4(pid, 0 if late else os.WNOHANG)
                if done:
                    cpu += used.ru_utime + used.ru_stime
            time.sleep(0.01)
        return cpu, killed


def run(command: Command, timeout_s: float = 1200.0) -> Spent:
    """Run one process to its end."""
    return Running(command).wait(timeout_s)


class Load:
    """How many cores other work took between two moments."""

    def __init__(self) -> None:
        self._wall, self._busy = time.monotonic(), _busy_s()

    def others(self, own_cpu_s: float) -> float:
        """Return the cores that others took since the start, less what was measured."""
        wall = max(time.monotonic() - self._wall, 1e-3)
        return max(0.0, (_busy_s() - self._busy - own_cpu_s) / wall)


def own_cpu_s() -> float:
    """Return the CPU seconds of this process, its threads included."""
    return time.process_time()


def folder_bytes(root: Path) -> tuple[int, int]:
    """Return the bytes and the number of all files under a folder."""
    sizes = [path.stat().st_size for path in root.rglob("*") if path.is_file()]
    return sum(sizes), len(sizes)


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


def _children() -> set[int]:
    """Return the processes whose parent this one is, by whichever of its threads."""
    found: set[int] = set()
    for path in Path("/proc/self/task").iterdir():
        try:
            found.update(map(int, (path / "children").read_text().split()))
        except OSError:
            continue
    return found


def _adopt() -> None:
    """Become the parent of what descendants leave behind."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _text(number: int) -> str:
    with os.fdopen(number, "rb") as file:
        file.seek(0)
        return file.read().decode(errors="replace")
