"""status.json: the changing part of a run, replaced whole by its one writer.

The writer is rank 0 of the open attempt, or whoever holds the run's lock when no attempt is alive.
A new mtime on this file is what tells the index to look again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from expdb.errors import Corrupt
from expdb.model import FORMAT, NEEDS
from expdb.store.fields import INT64
from expdb.store.files import read_json, write_json
from expdb.store.layout import RunLayout

STORED_STATES = frozenset(["running", "finished", "failed", "preempted", "crashed"])


@dataclass(slots=True, kw_only=True)
class Status:
    """What status.json holds."""

    state: str = "running"
    reason: str = ""
    attempt: int = 1
    last_step: int | None = None
    max_steps: int | None = None
    ended_at_ms: int | None = None
    updated_at_ms: int = 0
    num_dropped: int = 0
    files: dict[str, int] = field(default_factory=dict)
    """Path in the run folder -> size in bytes."""
    unknown: dict[str, Any] = field(default_factory=dict)
    """What a later expdb wrote beside these; kept when the file is replaced."""


KINDS: Mapping[str, Any] = {
    "state": str,
    "reason": str,
    "attempt": int,
    "last_step": int | None,
    "max_steps": int | None,
    "ended_at_ms": int | None,
    "updated_at_ms": int,
    "num_dropped": int,
    "files": dict,
}


def read_status(layout: RunLayout) -> Status:
    """Return the status of a run.

    Raises:
        FileNotFoundError: it has none yet.
        Corrupt: the file is damaged.
    """
    data = read_json(layout.status_json)
    known = {name: data.pop(name) for name in KINDS if name in data}
    wrong = [name for name, value in known.items() if not _is_kind(value, KINDS[name])]
    if not wrong and not all(_is_kind(size, int) for size in known.get("files", {}).values()):
        wrong = ["files"]
    if not wrong and known.get("state", "running") not in STORED_STATES:
        wrong = ["state"]
    if wrong:
        raise Corrupt(
            f"status.json is damaged at `{wrong[0]}`", hint=f"the file: {layout.status_json}"
        )
    return Status(**known, unknown=data)


def _is_kind(value: Any, kind: Any) -> bool:
    """Tell whether a value of JSON has a type; true is no number, and one over 64 bits neither."""
    if isinstance(value, int):
        return isinstance(value, kind) and type(value) is int and abs(value) < INT64
    return isinstance(value, kind)


def write_status(layout: RunLayout, status: Status, *, durable: bool = True) -> None:
    """Replace status.json, with the sizes of all files of the run as they are now."""
    status.files = sizes(layout.root)
    _write(layout, status, durable=durable)


def relist(layout: RunLayout, *folders: str, without: Iterable[Path] = ()) -> None:
    """Let status.json list the files of some folders (`checkpoints`) as they are now.

    Files and folders in `without` are left out: they are about to go, and are to be listed at no
    moment at which they are gone. Every other line stays: that a listed file is missing or short is
    all that tells of its damage.
    """
    try:
        status = read_status(layout)
    except (FileNotFoundError, Corrupt):
        return
    below = tuple(f"{folder}/" for folder in folders)
    found = {path: size for path, size in status.files.items() if not path.startswith(below)}
    for folder in folders:
        found |= {f"{folder}/{path}": n for path, n in sizes(layout.root / folder).items()}
    for gone in (path.relative_to(layout.root).as_posix() for path in without):
        found = {
            path: n for path, n in found.items() if path != gone and not path.startswith(f"{gone}/")
        }
    status.files = dict(sorted(found.items()))
    _write(layout, status, durable=True)


def _write(layout: RunLayout, status: Status, *, durable: bool) -> None:
    status.updated_at_ms = time.time_ns() // 1_000_000
    known = {name: getattr(status, name) for name in KINDS}
    body = {**status.unknown, "format": FORMAT, "needs": NEEDS, **known}
    write_json(layout.status_json, body, durable=durable)


def sizes(root: Path) -> dict[str, int]:
    """Return path -> size of every whole file below a run folder but status.json, sorted.

    Files that go meanwhile (a sealed journal, an old checkpoint) are left out.
    """
    found: dict[str, int] = {}
    stack = [""]
    while stack:
        prefix = stack.pop()
        try:
            entries = list(os.scandir(root / prefix))
        except FileNotFoundError:
            continue
        for entry in entries:
            if entry.name.startswith(".tmp-"):
                continue
            path = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                stack.append(f"{path}/")
            elif entry.is_file(follow_symlinks=False) and path != "status.json":
                try:
                    found[path] = entry.stat(follow_symlinks=False).st_size
                except FileNotFoundError:
                    continue
    return dict(sorted(found.items()))
