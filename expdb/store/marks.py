"""Lines added to a run: labels, notes, acknowledgements (marks.jsonl) and events (events.jsonl).

    marks.jsonl     {"kind": "label" | "note" | "ack", or "un" and one of them, "text",
                     "created_at_ms", "op"}
    events.jsonl    {"step", "severity", "rule", "message", "created_at_ms", ...}

`op` stands in a line that a verb wrote, so that taking the op back never touches another's line.

Invariant: a line is one write(2) with O_APPEND, whole or not there. Whoever is not the run's own
process makes it known by a new time on status.json, which the index looks at.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from expdb.store.files import read_regular
from expdb.store.layout import RunLayout
from expdb.store.records import CUT_OFF

STEPS_NS = (0, 1, 1_000, 1_000_000, 1_000_000_000, 2_000_000_000)
"""How far a time is set past the old one until the file system keeps it apart; some keep only
seconds.
"""


def add_mark(layout: RunLayout, kind: str, text: str, *, op: str = "") -> None:
    """Append a mark; `op` is the op that asked for it, none in the run's own process.

    Raises:
        OSError: it cannot be written; nothing was.
    """
    body = {"kind": kind, "text": text, "created_at_ms": _now_ms()}
    _append(layout.marks, {**body, "op": op} if op else body, durable=bool(op))


def add_event(
    layout: RunLayout,
    step: int,
    severity: str,
    rule: str,
    message: str,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Append one firing of a rule; `facts` is what else its line holds, as strict JSON.

    Raises:
        OSError: it cannot be written; nothing was.
    """
    body = {"step": step, "severity": severity, "rule": rule, "message": message}
    _append(layout.events, {**body, "created_at_ms": _now_ms(), **(facts or {})})


def append_line(path: Path, body: dict[str, Any]) -> None:
    """Append one line of JSON, as it is, to a file that others may append to as well.

    Raises:
        OSError: it cannot be written; nothing was.
    """
    _append(path, body)


def has_mark_of(layout: RunLayout, op: str) -> bool:
    """Tell whether an op came as far as its line in this run."""
    needle = f'"op": "{op}"'.encode()
    try:
        return needle in read_regular(layout.marks)
    except FileNotFoundError:
        return False


def touch_status(layout: RunLayout) -> None:
    """Give status.json a time that it never had, so that the index looks at the run again.

    Time only grows, also where the clock was set back. A run without a status has no version yet.

    Raises:
        OSError: the file may not be touched.
    """
    path = layout.status_json
    try:
        before = path.stat().st_mtime_ns
        for step in STEPS_NS:
            _set_time(path, max(time.time_ns(), before + step))
            if path.stat().st_mtime_ns > before:
                return
    except FileNotFoundError:
        return


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _set_time(path: Path, time_ns: int) -> None:
    try:
        os.utime(path, ns=(time_ns, time_ns))
    except PermissionError:
        # Another user's file that this one may write: it takes the time of now, and no other.
        os.utime(path)


def _append(path: Path, body: dict[str, Any], *, durable: bool = False) -> None:
    line = json.dumps(body, ensure_ascii=True, allow_nan=False) + "\n"
    append_lines(path, line.encode(), durable=durable)


def append_lines(path: Path, lines: bytes, *, durable: bool) -> None:
    """Append whole lines to a file that others may append to as well, by one write.

    A line there that a death or a full disk cut off stays apart from these, and is told from one
    that was damaged later.

    Raises:
        OSError: they cannot be written; nothing was.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, 0o666)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            lines = CUT_OFF.encode() + b"\n" + lines
        written = os.write(fd, lines)
        if written != len(lines):
            os.ftruncate(fd, size)
            raise OSError(errno.ENOSPC, f"only {written} of {len(lines)} bytes fit", str(path))
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)
