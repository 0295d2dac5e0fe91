"""The tab of a run's log, which can be followed while it trains."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Final

from expdb.query.tail import LogTail
from expdb.signs import to_ascii
from expdb.text import plain
from expdb_tui.ink import Piece, wrap
from expdb_tui.run.facts import Facts
from expdb_tui.run.tab import Tab
from expdb_tui.widgets.lineview import Rows

LINES: Final = 2_000
"""So many of the last lines are held."""
END: Final = 1_000_000
"""A row behind the last one."""
TIMES: Final = re.compile(
    r"^(\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*Z?\]?|\[?\d\d:\d\d:\d\d[.,\d]*\]?)(\s+)"
)
STEP: Final = re.compile(r"^(\s*step\s+\d+\S*)(.*)$", re.DOTALL)
BAD: Final = re.compile(r"\b(critical|error|traceback|nan)\b", re.IGNORECASE)
ODD: Final = re.compile(r"\b(warn|warning)\b", re.IGNORECASE)


class LogTab(Tab):
    """The log, its attempts joined."""

    NAME, SHORT = "Log", "Log"
    KEYS: ClassVar[Sequence[tuple[str, str]]] = (
        ("[ ]", "tab"), ("f", "follow"), ("↑↓", "scroll"), ("end", "to the end"), ("C", "control"),
    )  # fmt: skip
    TEACHES = ("No log yet.", "what the script prints while a run is open")

    def forget(self) -> None:
        """Hold no line of another run."""
        self._tail: LogTail | None = None
        self._lines: list[str] = []

    def has(self, facts: Facts) -> bool:
        """Tell whether something was printed."""
        return facts.has_log

    def open(self) -> None:
        """Show the end of the log; of a live run follow it."""
        pager = self.screen.show_text()
        pager.follows = self.facts.is_alive
        pager.show(self._rows)
        self.refresh()

    def refresh(self) -> None:
        """Read what was written since."""
        run = self.facts.run
        tail = self._tail
        root = self.screen.main.session.store.root

        def ask(_: object) -> tuple[LogTail, list[str]]:
            if tail is not None:
                return tail, tail.more()
            fresh = LogTail(root / run.path)
            return fresh, fresh.last(LINES)

        def take(found: tuple[LogTail, list[str]]) -> None:
            is_first = self._tail is None
            self._tail, lines = found
            self._lines = (self._lines + lines)[-LINES:]
            pager = self.screen.show_text()
            pager.show(self._rows, top=END if is_first else None)
            self.screen.say_tabs()

        self.read(ask, take)

    def _rows(self, width: int, height: int) -> Rows:
        ascii, out = self.screen.main.is_ascii, list[Sequence[Piece]]()
        for line in self._lines:
            indent = len(line) - len(line.lstrip()) + 3
            out += wrap(log_row(to_ascii(line) if ascii else line), width - 1, indent)
        return out

    def tail(self) -> Sequence[Piece]:
        """Say whether the end is followed."""
        return [("follow", "accent")] if self.screen.text.follows else ()

    def act(self, key: str) -> bool:
        """Follow, or stop."""
        pager = self.screen.text
        if key == "f":
            pager.follows = not pager.follows
            pager.refresh()
        elif key != "scrolled":
            return False
        self.screen.say_tabs()
        return True


def log_row(line: str) -> Sequence[Piece]:
    """Return one line of a log: times and steps dim, what is bad in its colour."""
    role = "fail" if BAD.search(line) else "warn" if ODD.search(line) else "text"
    found = TIMES.match(line)
    if found:
        return [(" ", ""), (plain(line[: found.end()]), "dim"), (plain(line[found.end() :]), role)]
    step = STEP.match(line)
    if step:
        return [(" ", ""), (plain(step[1]), "dim"), (plain(step[2]), role)]
    return [(" ", ""), (plain(line.expandtabs(4)), role)]
