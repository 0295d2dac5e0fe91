"""What every tab of a run is: it says whether it has data, reads, and shows.

Invariant: a tab draws from what was read; its keys do nothing before that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from expdb.index.reader import Reader
from expdb_tui.ink import Piece
from expdb_tui.run.facts import Facts
from expdb_tui.run.head import TabLook
from expdb_tui.run.place import TabPlace

Answer = TypeVar("Answer")


class Tab:
    """One tab of the screen of a run."""

    NAME: ClassVar[str] = ""
    SHORT: ClassVar[str] = ""
    KEYS: ClassVar[Sequence[tuple[str, str]]] = ()
    TEACHES: ClassVar[tuple[str, str]] = ("", "")
    """What is missing, and the line of code that logs it."""

    def __init__(self, screen: TabPlace) -> None:
        self.screen = screen

    @property
    def facts(self) -> Facts:
        """The run as it was read last."""
        facts = self.screen.facts
        if facts is None:
            raise AssertionError("no tab is opened before its run was read")
        return facts

    def look(self, facts: Facts) -> TabLook:
        """Return how the line of tabs shows it."""
        return TabLook(
            name=self.NAME, short=self.SHORT, badge=self.badge(facts), has_data=self.has(facts)
        )

    def has(self, facts: Facts) -> bool:
        """Tell whether the run has something to show here."""
        return True

    def badge(self, facts: Facts) -> str:
        """Return what stands behind the name: a count."""
        return ""

    def tail(self) -> Sequence[Piece]:
        """Return what stands at the right end of the line of tabs."""
        return ()

    def forget(self) -> None:
        """Another run is shown: nothing that was read holds."""

    def open(self) -> None:
        """Show what there is, and read."""

    def refresh(self) -> None:
        """Read again: the run has grown."""

    def resized(self) -> None:
        """The screen has another size."""

    def act(self, key: str) -> bool:
        """Do what a key means here; False where it means nothing."""
        return False

    def back(self) -> bool:
        """Leave what is open in the tab; False where nothing is."""
        return False

    def read(self, question: Callable[[Reader], Answer], then: Callable[[Answer], None]) -> None:
        """Ask in a thread; an answer for another run or tab is dropped."""
        run = self.facts.run.id

        def take(found: Answer) -> None:
            if self.screen.run_here == run and self.screen.is_open(self):
                then(found)

        self.screen.read(question, take, group="tab")

    def teach_rows(self) -> list[Sequence[Piece]]:
        """Return what is shown where there is no data."""
        missing, code = self.TEACHES
        out: list[Sequence[Piece]] = [[], [(f"  {missing}", "text+bold")]]
        if code:
            out += [[], [("  ", ""), (code, "accent")]]
        return out
