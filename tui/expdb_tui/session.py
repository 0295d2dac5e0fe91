"""A store, where this work tree stands in it, and how to ask it; called in worker threads only.

A look at ten thousand runs takes half a second, so that what one look found answers all questions
until the next.

Invariant: one question is asked at a time, so that no connection is used by two threads at once.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader, open_reader
from expdb.model import RunAt
from expdb.store.head import read_head
from expdb.store.store import Store

DAY_MS = 86_400_000
"""A failure is news for so long."""


@dataclass(slots=True, kw_only=True)
class Session:
    """What every screen asks."""

    store: Store
    directory: Path
    """Where the app was started: a work tree of the user's, or any folder."""
    head_of: Callable[[], RunAt | None] = lambda: None
    """Asks where this work tree came from."""
    worktree_of: Callable[[], WorkTree | None] = lambda: None
    """Asks for the git work tree of that folder."""
    declared_of: Callable[[], Sequence[str]] = tuple
    """Asks for the experiments that its config files declare."""
    id_cells: int = field(default=4)
    """How many characters of an id tell every run of the store apart, as of the last look."""
    verbs: Mapping[str, str] = field(default_factory=dict)
    """The verbs of the command line, each with what it does."""
    looked_s: float = -math.inf
    """When the last look was taken, by the clock of `time.monotonic`."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _reader: Reader | None = None

    @contextmanager
    def reader(self, *, is_new: bool = False) -> Iterator[Reader]:
        """Yield a reader of the store: as it is now, or as the last look found it.

        Raises:
            ExpdbError: the store cannot be read.
        """
        with self._lock:
            if self._reader is None or is_new:
                self.close()
                self._reader = open_reader(self.store)
                self.id_cells = self._reader.id_length
                self.looked_s = time.monotonic()
            yield self._reader

    def head_now(self) -> RunAt | None:
        """Return where the work tree came from, as its own file says; None where it follows the
        baseline.

        Raises:
            Corrupt: the file is damaged.
        """
        worktree = self.worktree_of()
        head = None if worktree is None else read_head(worktree.git_dir)
        return None if head is None else head.at

    def close(self) -> None:
        """Give the last look up."""
        with self._lock:
            if self._reader is not None:
                reader, self._reader = self._reader, None
                reader.close()

    def short(self, run: str) -> str:
        """Return an id as short as the store allows."""
        return run[: self.id_cells]


def now_ms() -> int:
    """Return the present time in UTC epoch milliseconds."""
    return time.time_ns() // 1_000_000
