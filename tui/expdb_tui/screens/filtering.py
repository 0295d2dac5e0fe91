"""`/`: a filter is typed in the place of the context line, what can come next stands below it.

Invariant: what cannot be understood is said beside it, and the rows stay as they are.
"""

from __future__ import annotations

from dataclasses import replace

from textual import on
from textual.app import ComposeResult
from textual.widgets import Input

from expdb.errors import BadInput, ExpdbError
from expdb.query.filters.suggest import Known, Suggestions, known_of, suggest, values_of
from expdb.text import plain
from expdb_tui.ink import Piece, width_of
from expdb_tui.screens.page import Page
from expdb_tui.widgets.filterfield import FilterField
from expdb_tui.widgets.frame import Bar
from expdb_tui.widgets.suggested import next_at, suggested


class Filtering(Page):
    """A screen with a filter."""

    EXAMPLE = "exp != scratch and val/loss < 2"

    def __init__(self) -> None:
        super().__init__()
        self.filter = ""
        self.error = ""
        """What is wrong with the filter."""
        self._is_half = False
        """Whether that may only be that it has no end yet."""
        self._known = Known()
        self._found = Suggestions(start=0, end=0)
        self._at = -1
        """Which suggestion is chosen; -1 is none."""

    def filter_parts(self) -> ComposeResult:
        """Lay out the field and the line of suggestions, hidden."""
        field, line = FilterField(self.EXAMPLE), Bar(id="suggested")
        field.display = line.display = False
        yield field
        yield line

    @property
    def is_typing(self) -> bool:
        """Whether a filter is being typed."""
        return bool(self.query_one(FilterField).display)

    def suggestions(self, source: str, cursor: int) -> Suggestions:
        """Return what can stand at the cursor."""
        return suggest(source, cursor, self._known)

    def filtered(self) -> None:
        """Show what the filter selects."""
        self.reload()

    def typed_out(self) -> None:
        """Go back to the rows."""

    # ------------------------------------------------------------------------------ typing

    def action_filter(self) -> None:
        """Type a filter."""
        self.query_one("#context").display = False
        self.query_one("#suggested").display = True
        self.query_one(FilterField).open(self.filter)
        self.read_known()

    def read_known(self) -> None:
        """Read the names that can stand in the filter."""
        self.read(known_of, self._take_known, group="known")

    def _take_known(self, known: Known) -> None:
        self._known = known
        self._suggest()

    @on(FilterField.Edited)
    def edited(self) -> None:
        """Suggest what can stand at the cursor now."""
        self._at = -1
        self._suggest()

    def _suggest(self) -> None:
        field = self.query_one(FilterField)
        self._found = found = self.suggestions(field.value, field.cursor_position)
        name = found.about
        if found.expected in ("value", "list") and name not in self._known.values:
            self.read(
                lambda reader: values_of(reader, name),
                lambda values: self._take_values(name, values),
                group="values",
            )
        self.say_suggested()

    def _take_values(self, name: str, values: list[str]) -> None:
        self._known = replace(self._known, values={**self._known.values, name: values})
        self._suggest()

    def say_suggested(self) -> None:
        """Show the suggestions, and what is wrong with the filter."""
        words, width = self._found.words, self.app.size.width - 2
        # What only has no end yet is no fault, as long as one is being suggested.
        field = self.query_one(FilterField)
        is_half = self._is_half and bool(words) and field.cursor_position == len(field.value)
        right: list[Piece] = []
        if self.error and not is_half:
            right = [(plain(self.error), "warn")]
        room = width - min(width_of(right), width // 2) - 2
        left = suggested(words, self._at, room, self.main.marks.ellipsis)
        self.query_one("#suggested", Bar).put(left, right)

    @on(FilterField.Chosen)
    def chosen(self, event: FilterField.Chosen) -> None:
        """Go through the suggestions."""
        self._at = next_at(self._at, event.by, len(self._found.words))
        self.say_suggested()

    @on(FilterField.Taken)
    def taken(self) -> None:
        """Insert the chosen suggestion, else the first."""
        found = self._found
        if found.words:
            word = found.words[max(0, self._at)]
            self.query_one(FilterField).put(word, found.start, found.end)

    @on(FilterField.Typed)
    def filter_typed(self, event: FilterField.Typed) -> None:
        """Follow what is typed."""
        self.filter = event.value
        self.filtered()

    @on(Input.Submitted, "#filter")
    def filter_done(self) -> None:
        """Take what was chosen, else go back to the rows."""
        if self._at >= 0:
            self.taken()
            return
        self.close_filter()

    def close_filter(self) -> None:
        """Go back to the rows; the filter stays."""
        field = self.query_one(FilterField)
        if field.value != self.filter:
            self.filter = field.value
            self.filtered()
        field.shut()
        self.query_one("#suggested").display = False
        self.query_one("#context").display = True
        self.typed_out()

    def fail(self, error: ExpdbError) -> None:
        """Say what is wrong; of a filter beside it."""
        if not self.is_typing:
            super().fail(error)
            return
        near = next((hint for hint in error.hints if hint.startswith("nearest")), "")
        self.error = f"{error.message}  {near}".rstrip()
        self._is_half = isinstance(error, BadInput)
        self.say_suggested()
