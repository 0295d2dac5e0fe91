"""Where a tab of a run shows itself: the parts of the screen that it may use.

It knows of no tab, so that tabs can be made without the screen that holds them.
"""

from __future__ import annotations

from abc import abstractmethod

from expdb_tui.run.facts import Facts
from expdb_tui.screens.page import Page
from expdb_tui.widgets.lineview import Layout
from expdb_tui.widgets.pager import Pager
from expdb_tui.widgets.rowtable import RowTable


class TabPlace(Page):
    """The screen of a run as its tabs see it."""

    facts: Facts | None
    """The run as it was read last."""

    @abstractmethod
    def is_open(self, tab: object) -> bool:
        """Tell whether a tab is the one that is shown."""

    @property
    @abstractmethod
    def place(self) -> int:
        """The place of the run among the series."""

    @property
    @abstractmethod
    def view_size(self) -> tuple[int, int]:
        """Columns and rows that a tab has."""

    @property
    @abstractmethod
    def text(self) -> Pager:
        """What holds rows that are scrolled."""

    @abstractmethod
    def show_view(self, layout: Layout) -> None:
        """Show rows that fit the size."""

    @abstractmethod
    def show_text(self) -> Pager:
        """Show rows that are scrolled, and return what holds them."""

    @abstractmethod
    def show_table(self) -> RowTable:
        """Show a table, and return it."""

    @abstractmethod
    def say_tabs(self) -> None:
        """Say which tabs there are, and what the keys of the open one are."""
