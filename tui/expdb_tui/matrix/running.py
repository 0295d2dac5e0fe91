"""The key that runs what is missing, in a process of its own, after its plan.

Invariant: nothing runs before the plan was shown; what it says is kept where it failed.
"""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from expdb.actions.run.plan import plan_run
from expdb.actions.run.results import RunPlan
from expdb.index.reader import Reader
from expdb_tui.keys import key
from expdb_tui.matrix.plan import Runner, plan_shown, start
from expdb_tui.matrix.reading import MatrixRead
from expdb_tui.screens.filtering import Filtering
from expdb_tui.widgets.dialog import CONFIRMED, Dialog


class RunMissing(Filtering):
    """What the matrix adds to a screen: the key R."""

    BINDINGS: ClassVar[list[BindingType]] = [key("R", "run_missing", "matrix.run_missing")]

    def __init__(self) -> None:
        super().__init__()
        self.found: MatrixRead | None = None
        self._runner: Runner | None = None

    def say_matrix(self) -> None:
        """Say how many runs are declared, and how they stand."""

    def has_ended(self) -> bool:
        """Tell whether what was run has ended since the last time, and say how."""
        runner = self._runner
        if runner is None or not runner.is_over:
            return False
        self._runner = None
        self.say(runner.said(), is_bad=runner.child.returncode != 0)
        if runner.child.returncode == 0:
            runner.log.unlink(missing_ok=True)
        return True

    def action_run_missing(self) -> None:
        """Show what would be run; on confirming run it in a process of its own."""
        found = self.found
        if found is None:
            return
        if self._runner is not None:
            self.say("what was missing is being run", is_bad=True)
            return

        def ask(reader: Reader) -> RunPlan:
            return plan_run(reader, found.declared, places=found.places)

        self.read(ask, self._ask_run, group="plan", is_new=True)

    def _ask_run(self, plan: RunPlan) -> None:
        def answered(answer: str | None) -> None:
            if answer == CONFIRMED:
                self._run(plan)

        self.app.push_screen(Dialog(plan_shown(plan, self.main.marks)), answered)

    def _run(self, plan: RunPlan) -> None:
        session = self.main.session
        try:
            self._runner = start(session.store, session.directory, len(plan.jobs))
        except OSError as error:
            self.say(f"expdb run cannot be started: {error}", is_bad=True)
            return
        self.say(f"running; what it says: {self._runner.log}")
        self.say_matrix()
