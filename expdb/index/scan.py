"""Which runs there are, and the version of each, at one moment."""

from __future__ import annotations

import time
from collections.abc import Mapping, Set
from pathlib import Path
from typing import NamedTuple

from expdb.store.folders import run_folder, run_in, scan_stamps


class Scan(NamedTuple):
    """The run folders of a store at one moment."""

    experiments: Mapping[str, str]
    """Run -> the folder of its experiment."""
    stamps: Set[str]
    """`<id>:<version>` of each run."""
    monotonic_ns: int
    """When the scan began, by the clock that only grows."""
    warnings: tuple[str, ...]

    def folder(self, run: str) -> str:
        """Return the folder of a run."""
        return run_folder(self.experiments[run], run)


def scan(root: Path) -> Scan:
    """Look at every run folder once."""
    began = time.monotonic_ns()
    experiments: dict[str, str] = {}
    stamps: set[str] = set()
    twice: list[str] = []
    for experiment, found in scan_stamps(root):
        for stamp in found:
            run = run_in(stamp)
            if run in experiments:
                second = max(experiments[run], experiment)
                twice.append(f"run {run} is there twice; {run_folder(second, run)} is left out")
                if experiment == second:
                    continue
                stamps -= {other for other in stamps if run_in(other) == run}
            experiments[run] = experiment
            stamps.add(stamp)
    return Scan(experiments, stamps, began, tuple(twice))
