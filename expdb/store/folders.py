"""Which run folders a store has, and the version of each: one look at every one, nothing opened.

Invariant: a version changes whenever the run changes; a folder that cannot be looked into is left
out, or has the version of a run that has no status.json yet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from expdb.store.ids import LENGTH, PATTERN

Version = tuple[int, int, int]
"""(mtime_ns, inode, size) of status.json; (0, 0, 0) of a run that has none yet."""

RUN_PREFIX: Final = "run="
RUN_DIR = re.compile(f"{RUN_PREFIX}({PATTERN.pattern})")


def scan_stamps(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the folder of every experiment, and the stamp of each folder in it that is named as a
    run.

    The stamp is `<id>:<mtime_ns>:<inode>:<size>`. That is all that is kept of a run: for 10,000,
    whole paths and values of their own cost as much as half of looking at the files.
    """
    match, stat = RUN_DIR.fullmatch, os.stat
    for experiment in names_in(root):
        if not experiment.startswith("exp="):
            continue
        folder, stamps = f"{root}/{experiment}", list[str]()
        try:
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue
        try:
            for name in names_in(opened):
                if match(name) is None:
                    continue
                run = name[len(RUN_PREFIX) :]
                try:
                    now = stat(f"{name}/status.json", dir_fd=opened)
                except OSError:
                    stamps.append(f"{run}:0:0:0")
                else:
                    stamps.append(f"{run}:{now.st_mtime_ns}:{now.st_ino}:{now.st_size}")
        finally:
            os.close(opened)
        yield folder, stamps


def run_in(stamp: str) -> str:
    """Return the run of a stamp."""
    return stamp[:LENGTH]


def run_folder(experiment: str, run: str) -> str:
    """Return the folder of a run in that of its experiment."""
    return f"{experiment}/{RUN_PREFIX}{run}"


def version_in(stamp: str) -> Version:
    """Return the version that a stamp holds."""
    _, mtime_ns, inode, size = stamp.split(":")
    return int(mtime_ns), int(inode), int(size)


def names_in(path: str | Path | int) -> list[str]:
    """Return what a folder, or an opened one, holds.

    Nothing where it is none, is gone, or is not ours to look at.
    """
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
