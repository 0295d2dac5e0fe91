"""Lines added to a run: notes, labels (marks.jsonl) and events (events.jsonl)."""

from __future__ import annotations

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
    line = json.dumps(body, ensure_ascii=True, allow_nan=False) + "\n"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)
