"""Which run folders a store has, and the version of each: one look at every one, nothing opened.

Invariant: a version changes whenever the run changes; a folder that cannot be looked into is left
out, or has the version of a run that has no status.json yet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from expdb.store.ids import PATTERN

Version = tuple[int, int, int]
"""(mtime_ns, inode, size) of status.json; (0, 0, 0) of a run that has none yet."""

RUN_DIR = re.compile(f"run=({PATTERN.pattern})")


def scan_stamps(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (id, folder, stamp) of every folder that is named as a run.

    The stamp is `<id>:<mtime_ns>:<inode>:<size>`. Folders and versions are texts, since values of
    their own for 10,000 runs cost as much as looking at the files.
    """
    match, stat = RUN_DIR.fullmatch, os.stat
    for experiment in names_in(root):
        if not experiment.startswith("exp="):
            continue
        place = f"{root}/{experiment}/"
        for name in names_in(place):
            if (run := match(name)) is None:
                continue
            folder = place + name
            try:
                now = stat(folder + "/status.json")
            except OSError:
                yield run[1], folder, f"{run[1]}:0:0:0"
            else:
                yield run[1], folder, f"{run[1]}:{now.st_mtime_ns}:{now.st_ino}:{now.st_size}"


def version_in(stamp: str) -> Version:
    """Return the version that a stamp holds."""
    _, mtime_ns, inode, size = stamp.split(":")
    return int(mtime_ns), int(inode), int(size)


def names_in(path: str | Path) -> list[str]:
    """Return what a folder holds; nothing where it is none, is gone, or is not ours to look at."""
    try:
        return os.listdir(path)  # noqa: PTH208 - names only, for 10,000 runs
    except OSError:
        return []


def version_of(run_dir: str | Path) -> Version:
    """Return what changes whenever the run changes."""
    try:
        stat = os.stat(f"{run_dir}/status.json")  # noqa: PTH116 - many at once
    except OSError:
        return (0, 0, 0)
    return (stat.st_mtime_ns, stat.st_ino, stat.st_size)
