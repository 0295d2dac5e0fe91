"""What the app shows, read from the store; called in worker threads only.

Invariant: every call opens a reader of its own and closes it, so no connection crosses threads.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from expdb.cli.shown import lines_of_run
from expdb.index.reader import open_reader
from expdb.model import RunAt
from expdb.query.listing import listing
from expdb.query.results import Listing
from expdb.report.style import Style
from expdb.store.store import Store

MAX_ROWS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The newest runs, and how many characters of an id tell every run apart."""

    listing: Listing
    id_cells: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A store, and where this work tree stands in it."""

    store: Store
    head: RunAt | None
    directory: Path

    def runs(self) -> Loaded:
        """Return the newest runs.

        Raises:
            ExpdbError: the store cannot be read.
        """
        with open_reader(self.store) as reader:
            found = listing(reader, head=self.head, limit=MAX_ROWS)
            return Loaded(listing=found, id_cells=reader.id_length)

    def run(self, run: str, style: Style) -> list[str]:
        """Return the lines of `expdb show` of one run.

        Raises:
            ExpdbError: the run has gone, or cannot be read.
        """
        with open_reader(self.store) as reader:
            found = reader.run(run)
            path = os.path.relpath(self.store.root / found.path, self.directory)
            return lines_of_run(reader, found, style, path=path, all=True)


def now_ms() -> int:
    """Return the present time in UTC epoch milliseconds."""
    return time.time_ns() // 1_000_000
