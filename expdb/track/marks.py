"""Lines added to a run: notes, labels (marks.jsonl) and events (events.jsonl)."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path
from typing import Any

from expdb.store.layout import RunLayout


def add_mark(layout: RunLayout, kind: str, text: str) -> None:
    """Append a label or note."""
    _append(layout.marks, {"kind": kind, "text": text})


def add_event(layout: RunLayout, step: int, severity: str, rule: str, message: str) -> None:
    """Append one firing of a rule."""
    _append(layout.events, {"step": step, "severity": severity, "rule": rule, "message": message})


def _append(path: Path, body: dict[str, Any]) -> None:
    body["created_at_ms"] = time.time_ns() // 1_000_000
    line = (json.dumps(body, ensure_ascii=True, allow_nan=False) + "\n").encode()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            line = b"\n" + line  # a line that a full disk cut off stays apart from this one
        written = os.write(fd, line)
        if written != len(line):
            os.ftruncate(fd, size)
            raise OSError(errno.ENOSPC, f"only {written} of {len(line)} bytes fit", str(path))
    finally:
        os.close(fd)
