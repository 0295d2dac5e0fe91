"""A store, where this work tree stands in it, and how to ask it; called in worker threads only.

Invariant: every call opens a reader of its own and closes it, so no connection crosses threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from expdb.index.reader import Reader, open_reader
from expdb.model import RunAt
from expdb.store.store import Store


@dataclass(slots=True, kw_only=True)
class Session:
    """What every screen asks."""

    store: Store
    directory: Path
    """Where the app was started: a work tree of the user's, or any folder."""
    head_of: Callable[[], RunAt | None] = lambda: None
    """Asks where this work tree came from."""
    id_cells: int = field(default=4)
    """How many characters of an id tell every run of the store apart, as of the last look."""

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """Yield a reader of the store as it is now.

        Raises:
            ExpdbError: the store cannot be read.
        """
        with open_reader(self.store) as reader:
            self.id_cells = reader.id_length
            yield reader

    def short(self, run: str) -> str:
        """Return an id as short as the store allows."""
        return run[: self.id_cells]


def now_ms() -> int:
    """Return the present time in UTC epoch milliseconds."""
    return time.time_ns() // 1_000_000
