"""What there is to tell of one run: the lines of its events, read on as they come, and notices
about the run itself.

Invariant: a line counts once it is whole; each has the byte at which it ends. Nothing of the run is
changed.
"""

from __future__ import annotations

import json
import os
import threading

from expdb.notify.item import Alerts, Item
from expdb.store.files import open_regular
from expdb.store.layout import RunLayout
from expdb.store.records import CUT_OFF


class Source:
    """One run."""

    def __init__(self, layout: RunLayout, name: str) -> None:
        self.layout, self.name, self.run = layout, name, layout.id
        self.items: list[Item] = []
        """In the order in which they came about."""
        self._offset = 0
        self._inode: int | None = None
        self._alerts = Alerts()
        self._lock = threading.Lock()

    @property
    def num_bytes(self) -> int:
        """How much of its events is taken in."""
        return self._offset

    def read(self) -> None:
        """Take in the lines that were written since."""
        try:
            with open_regular(self.layout.events) as file:
                stat = os.fstat(file.fileno())
                if stat.st_size < self._offset or self._inode not in (None, stat.st_ino):
                    self._begin_again()
                self._inode = stat.st_ino
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return  # none yet, or not to be read now
        whole, newline, _ = data.rpartition(b"\n")
        if not newline:
            return
        with self._lock:
            for line in whole.split(b"\n"):
                self._offset += len(line) + 1
                self._take(line)

    def notice(self, item: Item) -> bool:
        """Add what is no line of its events, unless it is there; tell whether it was added."""
        with self._lock:
            if any(one.notice == item.notice for one in self.items):
                return False
            self.items.append(item)
            return True

    def _take(self, line: bytes) -> None:
        try:
            found = json.loads(line.decode("utf-8", "surrogateescape").removesuffix(CUT_OFF))
        except (ValueError, RecursionError):
            return
        item = None
        if isinstance(found, dict):
            item = self._alerts.item(self.run, self.name, self._offset, found)
        if item is not None:
            self.items.append(item)

    def _begin_again(self) -> None:
        """Read another file of that name from its beginning."""
        with self._lock:
            self._offset, self._alerts = 0, Alerts()
            self.items = [one for one in self.items if one.notice]
