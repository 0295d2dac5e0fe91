"""Who owns a live file: host, boot, process; and whether that process is still alive.

Invariant: on one host the answer comes from boot id, pid and process start at once, never from a clock; across
hosts only file times of one file system are compared.
"""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path
from typing import Any


@cache
def boot_id() -> str:
    """Return the id of this boot of the kernel."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def process_start(pid: int) -> int | None:
    """Return the start of a process in clock ticks since boot; None when there is no such process.

    Source: proc(5), field 22 of /proc/<pid>/stat.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rsplit(")", 1)[1].split()
    if fields[0] in ("Z", "X"):
        return None
    return int(fields[19])


def describe() -> dict[str, Any]:
    """Return the identity of this process."""
    pid = os.getpid()
    return {
        "host": socket.gethostname(),
        "boot": boot_id(),
        "pid": pid,
        "start": process_start(pid),
    }


def same_host(owner: dict[str, Any]) -> bool:
    """Tell whether the owner ran on this host."""
    return owner.get("host") == socket.gethostname()


def is_dead(owner: dict[str, Any]) -> bool:
    """Tell whether the owner surely is gone; False for another host, where one cannot know."""
    if not same_host(owner):
        return False
    if owner.get("boot") != boot_id():
        return True
    pid = owner.get("pid")
    start = process_start(pid) if isinstance(pid, int) and pid > 0 else None
    return start is None or start != owner.get("start")
