"""Who owns a live file: host, boot, process, or a job that it has put into SLURM's queue; and
whether that is still alive.

Invariant: on one host the answer comes from boot id, pid and process start at once, never from a
clock; where the process cannot be seen (another host, a container, a hidden /proc) nobody is called
dead.
"""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

QUEUED_AS: Final = "queued_as"
"""The job of SLURM that stands for an owner, also once its process is gone: `slurm.describe`."""

Fate = Literal["alive", "dead", "unknown"]


@cache
def boot_id() -> str:
    """Return the id of this boot of the kernel."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def pid_space() -> int | None:
    """Return the pid namespace: in a container a pid means another process than outside."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return None


def process_start(pid: int) -> int | None:
    """Return the start of a process in clock ticks since boot; None when none is to be seen.

    Source: proc(5), field 22 of /proc/<pid>/stat.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rsplit(b")", 1)[1].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return int(fields[19])


def describe() -> dict[str, Any]:
    """Return the identity of this process."""
    pid = os.getpid()
    return {
        "host": socket.gethostname(),
        "boot": boot_id(),
        "pid_space": pid_space(),
        "pid": pid,
        "start": process_start(pid),
    }


def same_host(owner: dict[str, Any]) -> bool:
    """Tell whether the owner ran on this host."""
    return owner.get("host") == socket.gethostname()


def fate(owner: dict[str, Any]) -> Fate:
    """Tell what became of an owner, as far as this process can see."""
    found = _fate_of_process(owner)
    if found == "alive" or QUEUED_AS not in owner:
        return found
    from expdb.store import slurm  # few owners have a job

    is_gone = slurm.is_gone(owner[QUEUED_AS])
    return "unknown" if is_gone is None else "dead" if is_gone else "alive"


def _fate_of_process(owner: dict[str, Any]) -> Fate:
    if not same_host(owner):
        return "unknown"
    if owner.get("boot") != boot_id():
        return "dead"
    if owner.get("pid_space", pid_space()) != pid_space():
        return "unknown"
    pid = owner.get("pid")
    if not isinstance(pid, int) or pid <= 0:
        return "dead"
    start = process_start(pid)
    if start is None:
        return "unknown" if _is_hidden(pid) else "dead"
    return "alive" if start == owner.get("start") else "dead"


def is_dead(owner: dict[str, Any]) -> bool:
    """Tell whether the owner surely is gone; False where one cannot know."""
    return fate(owner) == "dead"


def _is_hidden(pid: int) -> bool:
    """Tell whether a process is there that /proc does not show: another user's, under hidepid."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return False  # ours, so /proc would show it: a zombie, or gone a moment ago
