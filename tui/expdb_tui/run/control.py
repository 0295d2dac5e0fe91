"""The key that asks a live run to save, evaluate, pause, go on or stop.

Invariant: nothing is asked before a dialog said what will happen; what is asked is what `expdb ctl`
asks.
"""

from __future__ import annotations

from expdb.actions.ctl import ask
from expdb.actions.results import ControlResult
from expdb.errors import ExpdbError
from expdb.index.reader import open_reader
from expdb.model import RunState
from expdb.report.control import WORDS
from expdb.store.resolve import Resolved
from expdb.text import plain
from expdb_tui.ink import Piece
from expdb_tui.run.facts import Facts
from expdb_tui.screens.page import Page
from expdb_tui.widgets.dialog import Deed, Dialog, PlanShown

WAIT_S = 30.0
"""So long an answer is waited for."""
EFFECTS = {
    "save": "writes a checkpoint between two updates, and trains on",
    "eval": "evaluates between two updates, and trains on",
    "pause": "waits after this update until it is told to go on",
    "go": "goes on where it waits",
    "stop": "writes a checkpoint and ends; expdb resume takes it up again",
}


class ControlKey(Page):
    """What the screen of a run adds to a page: the key C."""

    facts: Facts | None

    def action_control(self) -> None:
        """Ask what is to be done, and do it."""
        facts = self.facts
        if facts is None:
            return
        if not facts.is_alive:
            state = facts.run.state.value
            self.say(f"{plain(facts.run.name)} does not train: it is {state}", is_bad=True)
            return

        def chosen(verb: str | None) -> None:
            if verb:
                self._ask_run(facts.run.id, verb)

        self.app.push_screen(Dialog(control_plan(facts)), chosen)

    def _ask_run(self, run: str, verb: str) -> None:
        self.say(f"asked {WORDS[verb]}; it answers between two updates")
        target = Resolved(run=run, step=None, said="", is_literal=True)

        store = self.main.session.store

        # It waits for the run, and no other question may wait for it: it has a reader of its own.
        def work() -> None:
            try:
                with open_reader(store) as reader:
                    done = ask(reader, target, verb, wait_s=WAIT_S)
            except ExpdbError as error:
                self.app.call_from_thread(self.fail, error)
                return
            self.app.call_from_thread(self._answered, done)

        self.run_worker(work, thread=True, group="control", exit_on_error=False)

    def _answered(self, done: ControlResult) -> None:
        if done.done_at_ms is not None:
            step = "" if done.done_step is None else f" at step {done.done_step}"
            word = "done" if done.ok else "not done"
            self.say(f"{word}{step}: {plain(done.outcome)}", is_bad=not done.ok)
        elif done.ended:
            self.say(f"it ended: {plain(done.ended)}", is_bad=done.verb != "stop")
        else:
            self.say("no answer yet; the run looks between two updates", is_bad=True)
        self.reload()


def control_plan(facts: Facts) -> PlanShown:
    """Return what the dialog shows."""
    run = facts.run
    is_held = run.state is RunState.PAUSED
    verbs = ("save", "eval", "go" if is_held else "pause", "stop")
    labels = {"save": "Save", "eval": "Evaluate", "pause": "Pause", "go": "Go on", "stop": "Stop"}
    at = f"step {run.last_step:,}" if run.last_step is not None else "no step yet"
    end = f" of {run.max_steps:,}" if run.max_steps else ""
    title: list[Piece] = [
        (f"Control {plain(run.name)}", "text+bold"), (f"  {run.id}, {at}{end}", "dim"),
    ]  # fmt: skip
    return PlanShown(
        title=title,
        pairs=[(labels[verb], [(EFFECTS[verb], "text")]) for verb in verbs],
        deeds=[Deed(label=labels[verb], name=verb, is_grave=verb == "stop") for verb in verbs],
    )
