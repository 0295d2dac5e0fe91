"""The chain of immutable index files in one folder.

    gen-<utc us>-<random>.duckdb     never changed once it has this name
    CURRENT                          {"format": 1, "name": "gen-...", "bytes": n}: the newest

Invariant: readers and builders never wait for each other. A file is whole before it has its name,
CURRENT is replaced in one step, and what readers may have open (the newest 3, all younger than an
hour) stays.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Final

from expdb.errors import Corrupt
from expdb.store.files import fsync_dir, read_json, write_json

NAME: Final = re.compile(r"gen-[0-9]+-[0-9a-f]+\.duckdb")
KEEP: Final = 3
KEEP_S: Final = 3600.0


class Generations:
    """The generations in one folder; the folder need not exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.current_file = folder / "CURRENT"

    def current(self) -> Path | None:
        """Return the newest generation; None where there is none, or its file is not whole."""
        try:
            data = read_json(self.current_file)
        except (OSError, Corrupt):
            return None
        name = data.get("name")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            return None
        path = self.folder / name
        try:
            return path if path.stat().st_size == data.get("bytes") else None
        except OSError:
            return None

    def temporary(self) -> Path:
        """Return a fresh name for a generation that is being built; makes the folder.

        Raises:
            OSError: the folder cannot be made.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f".tmp-gen-{os.urandom(6).hex()}.duckdb"

    def publish(self, temporary: Path) -> Path:
        """Give a built generation its name and make it the newest.

        Raises:
            OSError: it cannot be written; the former one stays the newest.
        """
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
            size = file.seek(0, os.SEEK_END)
        path = self.folder / f"gen-{time.time_ns() // 1000}-{os.urandom(4).hex()}.duckdb"
        temporary.rename(path)
        fsync_dir(self.folder)
        write_json(self.current_file, {"format": 1, "name": path.name, "bytes": size})
        return path

    def forget(self) -> None:
        """Make the next reader build from nothing."""
        self.current_file.unlink(missing_ok=True)

    def collect(self) -> list[Path]:
        """Remove generations that nobody can need, and what builders left; return what went.

        What another process removes at the same time, or another user owns in a folder where only
        its owner may remove a file, is left to them.
        """
        current = self.current()
        times = {path: when for path in self.folder.iterdir() if (when := _mtime(path)) is not None}
        names = sorted((path for path in times if NAME.fullmatch(path.name)), reverse=True)
        now = max((times[path] for path in names), default=0.0)
        left = [path for path in times if path.name.startswith(".tmp-") and path.is_file()]
        gone = []
        for path in [*names[KEEP:], *left]:
            if path == current or now - times[path] <= KEEP_S:
                continue
            try:
                path.unlink()
            except OSError:
                continue
            gone.append(path)
        return gone


def _mtime(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
