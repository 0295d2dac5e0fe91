"""How a training process is told that it is a probe; both sides of it import this.

<place>/store/         the store to record in, named by EXPDB_PROBE
<place>/task.json      what to measure there; a repetition has none
<place>/progress.json  how many updates are done so far
<place>/found.json     what was measured
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from expdb.errors import Corrupt
from expdb.store.files import read_json, write_json

VARIABLE: Final = "EXPDB_PROBE"
"""`STEP:FOLDER`: the store to record in, and the step at which the process ends."""
KINDS: Final = ("throughput", "loader", "memory", "lr")


def write_task(store: Path, task: Mapping[str, Any]) -> None:
    """Say beside a store what the process that records in it is to measure: {"kind", ...}."""
    write_json(store.parent / "task.json", dict(task), durable=False)


def read_task(store: Path) -> dict[str, Any] | None:
    """Return what is to be measured; None where nothing is."""
    found = _read(store.parent / "task.json")
    return found if found is not None and found.get("kind") in KINDS else None


def write_progress(store: Path, num_updates: int) -> None:
    """Say how many updates are done so far."""
    write_json(store.parent / "progress.json", {"updates": num_updates}, durable=False)


def read_progress(store: Path) -> int | None:
    """Return how many updates are done; None before the first."""
    found = (_read(store.parent / "progress.json") or {}).get("updates")
    return found if isinstance(found, int) else None


def write_found(store: Path, found: Mapping[str, Any]) -> None:
    """Leave what was measured beside a store."""
    write_json(store.parent / "found.json", dict(found), durable=False)


def read_found(store: Path) -> dict[str, Any] | None:
    """Return what was measured; None where the process did not get there."""
    return _read(store.parent / "found.json")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return read_json(path)
    except (OSError, Corrupt):
        return None
