"""The tab of events: a table, and of one event the metrics around its step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from expdb.actions.ack import acknowledge
from expdb.actions.results import AckResult
from expdb.model import Event
from expdb.text import age, plain
from expdb_tui.columns import Column, chosen, head_of, line_of
from expdb_tui.ink import Piece
from expdb_tui.marks import Marks
from expdb_tui.run.curve_plots import NON_FINITE, WEIGHTS
from expdb_tui.run.event_around import Around, read_around
from expdb_tui.run.event_shown import around_rows
from expdb_tui.run.facts import Facts
from expdb_tui.run.tab import Tab
from expdb_tui.session import now_ms
from expdb_tui.widgets.dialog import Deed, Dialog, PlanShown
from expdb_tui.widgets.lineview import Rows

ONE, ALL = "one", "all"
"""What a dialog that asks for an acknowledgement answers."""


class EventLines:
    """Events as the rows of a table."""

    def __init__(self, events: Sequence[Event], signs: Marks) -> None:
        self.events = events
        self._signs = signs

    def __len__(self) -> int:
        return len(self.events)

    def head(self, width: int) -> Sequence[Piece]:
        """Return the heads of the columns."""
        return [(" ", ""), *head_of(chosen(self._columns(), width - 2), "step")]

    def line(self, at: int, width: int) -> Sequence[Piece]:
        """Return one event."""
        columns = chosen(self._columns(), width - 1)
        return line_of(columns, self.events[at], self._signs.ellipsis)

    def _columns(self) -> list[Column[Event]]:
        signs = self._signs

        def sign(event: Event) -> Sequence[Piece]:
            text = signs.nonfinite if event.rule == NON_FINITE else signs.event
            role = "faint" if event.is_acknowledged else f"{WEIGHTS[event.severity][0]}+bold"
            return [(text, role)]

        return [
            Column(name="sign", head="", width=1, cell=sign),
            Column(
                name="step", head="step", width=9, is_right=True, gap=1,
                cell=lambda event: [(f"{event.step:,}", "text")],
            ),
            Column(
                name="severity", head="severity", width=8, since=70,
                cell=lambda event: [
                    (event.severity, "dim" if event.is_acknowledged else WEIGHTS[event.severity][0])
                ],
            ),
            Column(
                name="rule", head="rule", width=14,
                cell=lambda event: [
                    (plain(event.rule), "dim" if event.is_acknowledged else "text+bold")
                ],
            ),
            Column(
                name="message", head="what", width=20, fills=True,
                cell=lambda event: [(plain(event.message), "dim")],
            ),
            Column(
                name="now", head="now", width=18, since=90,
                cell=lambda event: [(now_of(event), "dim")],
            ),
            Column(
                name="age", head="age", width=4, is_right=True, since=60,
                cell=lambda event: [(age(event.created_at_ms, now_ms()), "dim")],
            ),
        ]  # fmt: skip


def now_of(event: Event) -> str:
    """Return what became of an event: whether it was seen, is over, grew worse."""
    return "acknowledged" if event.is_acknowledged else plain(event.now) or "open"


def ack_plan(event: Event, waiting: Sequence[Event]) -> PlanShown:
    """Return what acknowledging an event, or all `waiting` ones of its run, would mean."""
    deeds = [Deed(label="Acknowledge", name=ONE, is_grave=False)]
    if len(waiting) > 1:
        deeds.append(Deed(label=f"All {len(waiting):,} open", name=ALL, is_grave=False))
    role = WEIGHTS[event.severity][0]
    return PlanShown(
        title=[(plain(event.rule), "text+bold"), (f"  step {event.step:,}  ", "dim"),
               (event.severity, role)],
        pairs=[
            ("what", [(plain(event.message), "text")]),
            ("means", [("it is open no more; one that grows worse is open again", "text")]),
            ("undo", [("expdb undo", "accent"), ("  opens it again", "dim")]),
        ],
        deeds=deeds,
    )  # fmt: skip


def is_same(event: Event, other: Event) -> bool:
    """Tell whether two looks at a run found the same event, whatever became of it meanwhile."""
    return (event.step, event.rule, event.key, event.created_at_ms) == (
        other.step, other.rule, other.key, other.created_at_ms,
    )  # fmt: skip


class EventsTab(Tab):
    """What rules found in the run."""

    NAME, SHORT = "Events", "Events"
    KEYS: ClassVar[Sequence[tuple[str, str]]] = (
        ("[ ]", "tab"), ("enter", "around the step"), ("↑↓", "event"), ("a", "acknowledge"),
        ("G", "go back"), ("C", "control"),
    )  # fmt: skip
    TEACHES = ("No event: no rule fired.", 'run.alert("loss spiked", level="warn", step=step)')

    def forget(self) -> None:
        """Begin at the first event."""
        self._cursor = 0
        self._around: Around | None = None
        self._is_open = False

    def has(self, facts: Facts) -> bool:
        """Tell whether a rule fired."""
        return bool(facts.run.events)

    def badge(self, facts: Facts) -> str:
        """Return how many warnings and critical events are open."""
        return str(facts.row.num_events) if facts.row.num_events else ""

    def open(self) -> None:
        """Show the table, or the event that is open."""
        if self._is_open:
            self._ask()
            return
        table = self.screen.show_table()
        table.show(EventLines(self._events, self.screen.main.marks), cursor=self._cursor)

    def refresh(self) -> None:
        """Show what came."""
        self.open()

    def resized(self) -> None:
        """Lay out again."""
        self.open()

    @property
    def _events(self) -> list[Event]:
        return sorted(self.facts.run.events, key=lambda event: (event.step, event.created_at_ms))

    def _event(self) -> Event:
        events = self._events
        return events[min(self._cursor, len(events) - 1)]

    def _ask(self) -> None:
        facts, event, place = self.facts, self._event(), self.screen.place
        columns = max(40, self.screen.view_size[0])

        def take(found: Around) -> None:
            if self._is_open:
                self._around = found
                self.screen.show_view(self._rows)

        self.screen.show_view(self._rows)
        self.read(
            lambda reader: read_around(reader, facts, event, columns=columns, place=place), take
        )

    def _rows(self, width: int, height: int) -> Rows:
        around = self._around
        if around is None or not is_same(around.event, self._event()):
            return []
        main = self.screen.main
        return around_rows(around, self.facts, width, height, main.marks, ascii=main.is_ascii)

    def act(self, key: str) -> bool:
        """Open an event, and go to the ones beside it."""
        if key == "moved" and not self._is_open:
            self._cursor = self.screen.show_table().cursor
        elif key == "enter":
            self._is_open = not self._is_open
            self.open()
        elif key == "a":
            self._acknowledge()
        elif key in ("up", "down", "left", "right") and self._is_open:
            by = 1 if key in ("down", "right") else -1
            self._cursor = max(0, min(len(self.facts.run.events) - 1, self._cursor + by))
            self._ask()
        else:
            return False
        return True

    def _acknowledge(self) -> None:
        """Say that the event under the cursor was seen; `undo` takes it back."""
        event, run, session = self._event(), self.facts.run.id, self.screen.main.session
        said = f"{plain(event.rule)} at {event.step:,}"
        if event.is_acknowledged:
            self.screen.say(f"{said} is acknowledged already; take it back: expdb undo")
            return

        seen = {one.mark for one in self._events if one.is_acknowledged or one.severity == "info"}
        waiting = [one for one in self._events if one.mark not in seen]

        def done(found: AckResult) -> None:
            what = said if len(found.events) == 1 else f"{len(found.events):,} events"
            self.screen.say(f"acknowledged {what}; take it back: expdb undo")
            self.screen.reload()

        def answered(answer: str | None) -> None:
            events = {ONE: [event], ALL: waiting}.get(answer or "")
            if events:
                write = partial(acknowledge, run=run, events=events)
                self.screen.read(
                    lambda reader: write(reader, worktree=session.worktree_of()),
                    done, group="write", is_new=True,
                )  # fmt: skip

        self.screen.app.push_screen(Dialog(ack_plan(event, waiting)), answered)

    def back(self) -> bool:
        """Go back to the table."""
        if not self._is_open:
            return False
        self._is_open = False
        self.open()
        return True
