"""What all screens share: the frame, the number, and reading in a worker thread.

A screen asks with `read(question, then)`: the question runs in a thread with a reader of its own,
and `then` gets its answer in the app's thread, unless a newer question of the same group came.

Invariant: what cannot be read is a message at the foot; what stands on the screen stays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.worker import Worker, WorkerState, get_current_worker

from expdb.actions.baseline import set_baseline
from expdb.actions.note import add_note
from expdb.actions.tag import add_tag
from expdb.errors import ExpdbError
from expdb.index.reader import Reader
from expdb.query.lookup import lookup
from expdb.redact import Redactor
from expdb.text import plain
from expdb_tui.faults import keep_fault
from expdb_tui.ink import Piece
from expdb_tui.keys import key
from expdb_tui.marks import MOST
from expdb_tui.memory import Said, Wrong
from expdb_tui.screens.change import BaselineChange, baseline_shown, read_change
from expdb_tui.screens.help import HelpScreen
from expdb_tui.widgets.dialog import CONFIRMED, Dialog
from expdb_tui.widgets.frame import Bar, Header, KeyBar
from expdb_tui.widgets.lineview import LineView
from expdb_tui.widgets.plotview import PlotView
from expdb_tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from expdb_tui.shared import Shared

Answer = TypeVar("Answer")
SLOW_S = 2.0
"""After so long a question is said to go on."""
STILL = "still reading, esc stops"
QUIET = ("pulse", "sparks", "preview", "write", "known", "values")
"""Questions that nobody waits for, or that cannot be given up."""


class Page(Screen[None]):
    """One of the six screens."""

    NUMBER: ClassVar[int] = 0
    HAS_PULSE: ClassVar[bool] = False
    """Whether it looks at all runs itself, and tells the app how the store lives."""
    SCOPE: ClassVar[str] = ""
    """What the names of its keys begin with."""
    KEYS: ClassVar[Sequence[tuple[str, str]]] = ()
    """Key and name, for the foot: the most used first."""
    BINDINGS: ClassVar[list[BindingType]] = [
        key("Y", "copy_id", "everywhere.copy_id"),
        key("b", "baseline", "everywhere.baseline"),
        key("t", "tag", "everywhere.tag"),
        key("n", "note", "everywhere.note"),
        key("exclamation_mark", "say_command", "everywhere.show_command"),
        key("question_mark", "help", "everywhere.help"),
        key("slash", "filter", "everywhere.filter"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._slow: list[Worker[None]] = []
        """Questions that take long."""

    @property
    def main(self) -> Shared:
        """The app."""
        return cast("Shared", self.app)

    def compose(self) -> ComposeResult:
        """Lay out the frame around the body."""
        self.main.pages[self.SCOPE] = self
        self._recall()
        yield Header(self.NUMBER)
        yield Bar(id="context")
        yield from self.body()
        yield KeyBar(self.main.keys.shown(self.SCOPE, self.KEYS))

    def body(self) -> ComposeResult:
        """Lay out what is between the context line and the keys."""
        yield from ()

    @property
    def run_here(self) -> str | None:
        """The run that the keys of this screen mean; None where there is none."""
        return None

    @property
    def command(self) -> str:
        """The command line of what is shown."""
        return "expdb tui"

    def reload(self) -> None:
        """Read again what is shown."""

    def tick(self) -> None:
        """Look whether something has changed; called once a second."""

    def relook(self) -> None:
        """Draw again with other signs or colours."""
        for view in self.query(LineView):
            view.again()
        for plot in self.query(PlotView):
            plot.again()
        self.refresh()

    def action_back(self) -> None:
        """Leave what is open on the screen."""

    def remember(self) -> Said:
        """Return what of this look is to be there again next time."""
        return {}

    def recall(self, said: Said) -> None:
        """Look again as `remember` said.

        Raises:
            Wrong: it never said this.
        """

    def _recall(self) -> None:
        try:
            self.recall(self.main.memory.of(self.SCOPE))
        except Wrong as error:
            self.main.memory.problem = f"what was remembered of {self.SCOPE} is damaged: {error}"

    def context(self, left: Sequence[Piece], right: Sequence[Piece] = ()) -> None:
        """Say what is shown."""
        self.query_one("#context", Bar).put(left, right)

    def say(self, text: str, *, is_bad: bool = False, seconds: float = 4.0) -> None:
        """Show a message in the place of the keys for a while."""
        signs = self.main.marks
        mark: list[Piece] = [(f"{signs.event} ", "warn+bold")] if is_bad else []
        self.query_one(KeyBar).say([*mark, (plain(text), "text")], seconds)

    def read(
        self,
        question: Callable[[Reader], Answer],
        then: Callable[[Answer], Any],
        *,
        group: str,
        is_new: bool = False,
    ) -> Worker[None]:
        """Ask the store in a thread, and take the answer in this one.

        With `is_new` the store is looked at again; else the last look answers.
        """
        session = self.main.session

        def ask() -> None:
            worker = get_current_worker()
            try:
                with session.reader(is_new=is_new) as reader:
                    found = question(reader)
            except ExpdbError as error:
                if not worker.is_cancelled:
                    self.app.call_from_thread(self.fail, error)
                return
            if not worker.is_cancelled:
                self.app.call_from_thread(then, found)

        made = self.run_worker(ask, thread=True, exclusive=True, group=group, exit_on_error=False)
        if group not in QUIET:
            self.set_timer(SLOW_S, lambda: self._still(made))
        return made

    def _still(self, worker: Worker[None]) -> None:
        """Say that a question takes long, and how to give it up."""
        # One that a newer question of its group came before may never be told to have ended.
        if not (worker.is_finished or worker.is_cancelled) and self.is_current:
            self._slow.append(worker)
            self.say(STILL, seconds=60.0)

    def stop_reading(self) -> bool:
        """Give up the questions that take long; False where there is none."""
        slow = [worker for worker in self._slow if not worker.is_finished]
        self._slow = []
        if not slow:
            return False
        for worker in slow:
            worker.cancel()
        self.say("stopped; what stands here is as it was")
        return True

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Say what nobody expected, and where the rest of it is: the other screens live on."""
        error = event.worker.error
        if event.worker.is_finished and event.worker in self._slow:
            self._slow.remove(event.worker)
            if not self._slow:
                self.query_one(KeyBar).unsay(STILL)
        if event.state is WorkerState.ERROR and error is not None:
            kept = keep_fault(self.main.faults, error)
            where = f"  {kept}" if kept is not None else ""
            self.say(f"{type(error).__name__}: {error}{where}", is_bad=True, seconds=20.0)

    def fail(self, error: ExpdbError) -> None:
        """Say what could not be read, and the next command."""
        hint = f"  {error.hints[0]}" if error.hints else ""
        # A long path would push what is said about it off the row.
        message = error.message.replace(self.main.session.store.name, self.main.store_name)
        self.say(f"{message}{hint}", is_bad=True)

    def mark(self, run: str) -> None:
        """Mark a run, or take its mark away."""
        chosen = self.main.chosen
        chosen.toggle(run)
        if len(chosen) == MOST + 1 and run in chosen:
            self.say(f"more than {MOST} marked: plots show variants with their spread from here")

    def action_copy_id(self) -> None:
        """Copy the id of the run."""
        if self.run_here is not None:
            self.app.copy_to_clipboard(self.run_here)
            self.say(f"copied {self.run_here}")

    # -------------------------------------------------------------------- what every screen does

    def action_say_command(self) -> None:
        """Say the command of what is shown, and copy it."""
        self.app.copy_to_clipboard(self.command)
        self.say(f"{self.command}   (copied)")

    def action_filter(self) -> None:
        """Type a filter, in the list of runs."""
        self.main.filter_runs()

    def action_help(self) -> None:
        """Show the keys and the signs."""
        self.app.push_screen(HelpScreen(self.main.keys.shown(self.SCOPE, self.KEYS)))

    def action_baseline(self) -> None:
        """Show what would be measured against the run, and make it the baseline if confirmed."""
        run, session, head = self.run_here, self.main.session, self.main.head
        if run is None:
            return

        def write(reader: Reader) -> str:
            set_baseline(reader, lookup(reader, run), worktree=session.worktree_of())
            return ""

        def answered(answer: str | None) -> None:
            if answer == CONFIRMED:
                said = f"baseline is {session.short(run)}; take it back: expdb undo"
                self._write(write, said)

        def take(change: BaselineChange) -> None:
            if change.is_set:
                self.say(f"{session.short(run)} is the baseline already")
            else:
                self.app.push_screen(Dialog(baseline_shown(change)), answered)

        def ask(reader: Reader) -> BaselineChange:
            return read_change(reader, run, head=head)

        self.read(ask, take, group="plan", is_new=True)

    def action_tag(self) -> None:
        """Ask for a name, and give it to the run."""
        run, session = self.run_here, self.main.session
        if run is None:
            return

        def given(name: str | None) -> None:
            if name is None:
                return

            def write(reader: Reader) -> str:
                declared = session.declared_of()
                found = lookup(reader, run)
                add_tag(reader, name, found, worktree=session.worktree_of(), declared=declared)
                return ""

            self._write(write, f"{session.short(run)} is {name}; take it back: expdb undo")

        self.app.push_screen(Prompt(f"tag {session.short(run)} as"), given)

    def action_note(self) -> None:
        """Ask for a line, and add it to the notes of the run."""
        run, session = self.run_here, self.main.session
        if run is None:
            return

        def given(text: str | None) -> None:
            if text is None:
                return

            def write(reader: Reader) -> str:
                redactor = Redactor(environment=os.environ)
                worktree = session.worktree_of()
                add_note(reader, lookup(reader, run), text, worktree=worktree, redactor=redactor)
                return ""

            self._write(write, f"noted on {session.short(run)}")

        self.app.push_screen(Prompt(f"note on {session.short(run)}"), given)

    def _write(self, write: Callable[[Reader], str], said: str) -> None:
        def done(_: str) -> None:
            self.say(said)
            self.reload()

        self.read(write, done, group="write", is_new=True)
