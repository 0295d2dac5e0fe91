"""`:`: one line with a command, its verbs and the names of the store completed.

Invariant: names are looked up in a thread; an answer for what is not typed any more is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from expdb.text import plain
from expdb_tui.ink import Piece
from expdb_tui.widgets.filterfield import FilterField
from expdb_tui.widgets.frame import Bar
from expdb_tui.widgets.prompt import Prompt
from expdb_tui.widgets.suggested import next_at, suggested

if TYPE_CHECKING:
    from expdb_tui.shared import Shared

MOST = 60


class CommandLine(Prompt):
    """Asks for a command."""

    DEFAULT_CSS = """
    CommandLine { background: $background 0%; align: left bottom; }
    CommandLine Vertical { height: 2; background: $surface; }
    """

    def __init__(
        self, verbs: Mapping[str, str], names: Callable[[str], Sequence[str]], value: str = ""
    ) -> None:
        super().__init__("", value=value)
        self._verbs, self._names = verbs, names
        self._words: tuple[str, ...] = ()
        self._at = -1

    def compose(self) -> ComposeResult:
        """Lay out what can come next above the command."""
        with Vertical():
            yield Bar(id="verbs")
            yield FilterField("compare baseline exp01")

    def on_mount(self) -> None:
        """Type at once."""
        self.query_one(FilterField).open(self._value)

    @property
    def _typed(self) -> tuple[str, str]:
        """What stands before the word at the cursor, and the word as far as it is typed."""
        field = self.query_one(FilterField)
        before = field.value[: field.cursor_position]
        head, _, word = before.rpartition(" ")
        return (f"{head} " if head else ""), word

    @on(FilterField.Edited)
    def edited(self) -> None:
        """Suggest a verb, or behind it names of runs."""
        self._at = -1
        before, word = self._typed
        if not before:
            self._show([verb for verb in self._verbs if verb.startswith(word) and verb != word])
            return
        if word.startswith("-"):
            self._show([])
            return

        def look() -> None:
            found = [name for name in self._names(word) if name != word][:MOST]
            self.app.call_from_thread(take, found)

        def take(found: list[str]) -> None:
            if self.is_mounted and self._typed == (before, word):
                self._show(found)

        self.run_worker(look, thread=True, exclusive=True, group="names", exit_on_error=False)

    def _show(self, words: Sequence[str]) -> None:
        self._words = tuple(words)
        app = cast("Shared", self.app)
        before, word = self._typed
        named = self._words[max(0, self._at)] if self._words and not before else word
        verb = before.split()[0] if before.split() else named
        about = self._verbs.get(verb, "")
        right: list[Piece] = [(plain(about), "dim")] if about else []
        room = self.app.size.width - 4 - len(about)
        left = suggested(self._words, self._at, max(10, room), app.marks.ellipsis)
        self.query_one("#verbs", Bar).put(left or [(" ", "")], right)

    @on(FilterField.Chosen)
    def chosen(self, event: FilterField.Chosen) -> None:
        """Go through the suggestions."""
        self._at = next_at(self._at, event.by, len(self._words))
        self._show(self._words)

    @on(FilterField.Taken)
    def taken(self) -> None:
        """Insert the chosen suggestion, else the first."""
        if self._words:
            field = self.query_one(FilterField)
            before, _ = self._typed
            field.put(self._words[max(0, self._at)], len(before), field.cursor_position)

    @on(FilterField.Typed)
    def typed(self, event: FilterField.Typed) -> None:
        """Do nothing: it runs when it is ended."""
        event.stop()

    def take(self, text: str) -> None:
        """Take what was chosen, else give the command back."""
        if self._at >= 0:
            self.taken()
        else:
            super().take(text)
