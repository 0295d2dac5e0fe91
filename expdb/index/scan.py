"""Which runs there are, and the version of each, at one moment."""

from __future__ import annotations

import time
from collections.abc import Mapping, Set
from pathlib import Path
from typing import NamedTuple

from expdb.store.folders import scan_stamps


class Scan(NamedTuple):
    """The run folders of a store at one moment."""

    folders: Mapping[str, str]
    """Run -> its folder."""
    stamps: Set[str]
    """`<id>:<version>` of each run."""
    monotonic_ns: int
    """When the scan began, by the clock that only grows."""
    warnings: tuple[str, ...]


def scan(root: Path) -> Scan:
    """Look at every run folder once."""
    began = time.monotonic_ns()
    folders: dict[str, str] = {}
    stamps: set[str] = set()
    twice: list[str] = []
    for run, folder, stamp in scan_stamps(root):
        if run in folders:
            second = max(folders[run], folder)
            twice.append(f"run {run} is there twice; {second} is left out")
            if folder == second:
                continue
            stamps -= {other for other in stamps if run_in(other) == run}
        folders[run] = folder
        stamps.add(stamp)
    return Scan(folders, stamps, began, tuple(twice))


def run_in(stamp: str) -> str:
    """Return the run of a stamp."""
    return stamp.partition(":")[0]
