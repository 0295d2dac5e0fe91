"""status.json: the changing part of a run, replaced whole by its one writer.

The writer is rank 0 of the open attempt, or whoever holds the run's lock when no attempt is alive. A new mtime on
this file is what tells the index to look again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from expdb.errors import Corrupt
from expdb.model import FORMAT, NEEDS
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


def read_status(layout: RunLayout) -> Status:
    """Return the status of a run.

    Raises:
        FileNotFoundError: it has none yet.
        Corrupt: the file is damaged.
    """
    data = read_json(layout.status_json)
    known = {name: data[name] for name in Status.__dataclass_fields__ if name in data}
    status = Status(**known)
    if status.state not in STORED_STATES:
        raise Corrupt(
            f"status.json names the unknown state `{status.state}`",
            hint=f"the file: {layout.status_json}",
        )
    return status


def write_status(layout: RunLayout, status: Status, *, durable: bool = True) -> None:
    """Replace status.json, with the sizes of all files of the run as they are now."""
    status.files = dict(sizes(layout.root))
    status.updated_at_ms = time.time_ns() // 1_000_000
    body = {"format": FORMAT, "needs": NEEDS, **asdict(status)}
    write_json(layout.status_json, body, durable=durable)


def sizes(root: Path) -> Iterator[tuple[str, int]]:
    """Yield (relative path, size) of every whole file below a run folder but status.json, sorted."""
    found: list[tuple[str, int]] = []
    stack = [""]
    while stack:
        prefix = stack.pop()
        with os.scandir(root / prefix) as entries:
            for entry in entries:
                if entry.name.startswith(".tmp-"):
                    continue
                path = f"{prefix}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    stack.append(f"{path}/")
                elif entry.is_file(follow_symlinks=False) and path != "status.json":
                    try:
                        found.append((path, entry.stat(follow_symlinks=False).st_size))
                    except FileNotFoundError:
                        continue  # removed since: a sealed journal, an old checkpoint
    yield from sorted(found)
