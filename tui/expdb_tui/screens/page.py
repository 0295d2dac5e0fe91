"""What all screens share: the frame, the number, and reading in a worker thread.

A screen asks with `read(question, then)`: the question runs in a thread with a reader of its own,
and `then` gets its answer in the app's thread, unless a newer question of the same group came.

Invariant: what cannot be read is a message at the foot; what stands on the screen stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.worker import Worker, WorkerState, get_current_worker

from expdb.errors import ExpdbError
from expdb.index.reader import Reader
from expdb.text import plain
from expdb_tui.ink import Piece
from expdb_tui.widgets.frame import Bar, Header, KeyBar

if TYPE_CHECKING:
    from expdb_tui.app import ExpdbApp

Answer = TypeVar("Answer")


class Page(Screen[None]):
    """One of the six screens."""

    NUMBER: ClassVar[int] = 0
    KEYS: ClassVar[Sequence[tuple[str, str]]] = ()
    """Key and name, for the foot: the most used first."""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("Y", "copy_id", show=False)]

    @property
    def main(self) -> ExpdbApp:
        """The app."""
        return cast("ExpdbApp", self.app)

    def compose(self) -> ComposeResult:
        """Lay out the frame around the body."""
        yield Header(self.NUMBER)
        yield Bar(id="context")
        yield from self.body()
        yield KeyBar(self.KEYS)

    def body(self) -> ComposeResult:
        """Lay out what is between the context line and the keys."""
        yield from ()

    @property
    def run_here(self) -> str | None:
        """The run that the keys of this screen mean; None where there is none."""
        return None

    def reload(self) -> None:
        """Read again what is shown."""

    def tick(self) -> None:
        """Look whether something has changed; called once a second."""

    def action_back(self) -> None:
        """Leave what is open on the screen."""

    def context(self, left: Sequence[Piece], right: Sequence[Piece] = ()) -> None:
        """Say what is shown."""
        self.query_one("#context", Bar).put(left, right)

    def say(self, text: str, *, is_bad: bool = False) -> None:
        """Show a message in the place of the keys for a while."""
        signs = self.main.marks
        mark: list[Piece] = [(f"{signs.event} ", "warn+bold")] if is_bad else []
        self.query_one(KeyBar).say([*mark, (plain(text), "text")])

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

        return self.run_worker(
            ask, thread=True, exclusive=True, group=group, exit_on_error=False
        )

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Say what nobody expected: the other screens live on."""
        if event.state is WorkerState.ERROR:
            error = event.worker.error
            self.say(f"{type(error).__name__}: {error}", is_bad=True)

    def fail(self, error: ExpdbError) -> None:
        """Say what could not be read, and the next command."""
        hint = f"  {error.hints[0]}" if error.hints else ""
        self.say(f"{error.message}{hint}", is_bad=True)

    def action_copy_id(self) -> None:
        """Copy the id of the run."""
        if self.run_here is not None:
            self.app.copy_to_clipboard(self.run_here)
            self.say(f"copied {self.run_here}")
