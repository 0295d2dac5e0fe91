"""Actions of rules, done at a border between two updates: the same on all ranks.

Rank 0 knows what is due; which actions these are goes to the others with the sums of an update, and
numbers that rank 0 alone knows are told at the border.

Invariant: what is done is an event first said by `run.acted`; nothing is done that no config asks
for, and without an action nothing here costs anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from expdb.errors import BadInput, ExpdbError
from expdb.store.files import reason
from expdb.track.control import told
from expdb.track.due import NO_ACTIONS, Actions, Due
from expdb.track.going_back import planned, words
from expdb.track.intervene import NONE, RULE, Intervention
from expdb.track.scaled import require_hooks

if TYPE_CHECKING:
    from expdb.track.quiet import QuietRun
    from expdb.track.run import Run
    from expdb.track.state import State
    from expdb.track.update import Engine

BEFORE: Final = ("train/loss", "train/grad_norm", "train/lr")


class Followed(NamedTuple):
    """What came of the actions of one border."""

    save: bool = False
    """Whether a checkpoint is asked for here."""
    again: bool = False
    """Whether training goes on from an earlier step."""


class Training(Protocol):
    """What a loop does for actions."""

    @property
    def step(self) -> int:
        """Updates done."""

    def pause_for(self, who: str) -> None:
        """Wait until somebody lets it go on."""

    def stop_for(self, who: str, *, if_finite: bool = False) -> None:
        """Save and end."""

    def begin_again(self) -> None:
        """Go on from what the run starts from now."""


class Acting:
    """Does what the rules of one run ask of one loop."""

    def __init__(
        self, run: Run | QuietRun, state: State, engine: Engine, training: Training
    ) -> None:
        self.actions: Actions = getattr(run, "actions", NO_ACTIONS)
        self._run: Any = run
        self._state, self._engine, self._training = state, engine, training
        self._known: dict[int, Due] = {}
        """What is due on rank 0, by its place, until all ranks know."""
        self._skipped = -1
        """The last update that was not taken."""
        names = {action.name for _, action in self.actions.table}
        slower = any(one.name == "rewind" and one["lr_scale"] != 1 for _, one in self.actions.table)
        if names & {"lower_lr", "decay"} or slower:
            require_hooks(state.optims)
        if self.actions.skipping:
            engine.skips = self._skips
        self._do: dict[str, Callable[[Due], None]] = {
            "note": self._note,
            "tag": self._tag,
            "skip_step": self._say_skipped,
            "lower_lr": self._lower,
            "decay": self._decay,
            "early_stop": self._end_early,
            "pause": self._pause,
            "stop": self._stop,
        }

    @property
    def _is_first(self) -> bool:
        """Whether this is the rank that knows, and records."""
        return getattr(self._run, "store", None) is not None

    def asked(self) -> tuple[bool, ...]:
        """Return which actions are due as this rank knows, each told once."""
        if not self.actions.table:
            return ()
        found = {one.place: one for one in self.actions.take()}
        self._known.update(found)
        return tuple(place in found for place in range(len(self.actions.table)))

    def follow(self, due: Sequence[bool]) -> Followed:
        """Do what is due, in the order of the rules and of their actions.

        After a rewind the rest is not done: it was about a step that is no more.
        """
        save = False
        for place in (place for place, is_due in enumerate(due) if is_due):
            rule, action = self.actions.table[place]
            one = self._known.pop(place, Due(place=place, rule=rule, action=action))
            if action.name == "rewind":
                if self._rewind(one):
                    return Followed(again=True)
            elif action.name == "save":
                self._say(one, f"checkpoint asked for at step {self._training.step}")
                save = True
            else:
                self._do[action.name](one)
        return Followed(save=save)

    def has_new_best(self, step: int) -> bool:
        """Tell whether an evaluation is the best one that a rule may bring back; to all ranks."""
        if not self.actions.restoring:
            return False
        [is_best] = told(self._engine, int(self._is_first and step in self._run.best_steps()))
        return bool(is_best)

    def _say(self, due: Due, message: str, *, severity: str = "info") -> None:
        if self._is_first:
            self._run.acted(due, message, severity=severity)

    # What changes no training

    def _note(self, due: Due) -> None:
        if self._is_first:
            self._run.note(f"{due.rule} at {due.opened}")
            self._say(due, "noted")

    def _tag(self, due: Due) -> None:
        if self._is_first:
            self._try(due, partial(self._tag_before, due), "no checkpoint tagged")

    def _tag_before(self, due: Due) -> str:
        from expdb.track.resume import last_good

        self._run.settle(wait=True)
        most = due.opened - int(due.action["back"])
        good, _ = last_good(self._run.layout, most=most)
        if not good:
            raise BadInput(f"there is no good checkpoint up to step {most}")
        return f"checkpoint {good} tagged {self._run.tag(good, due.rule)}"

    def _try(self, due: Due, action: Callable[[], str], failed: str) -> None:
        """Say what was done, or why it could not be: training goes on either way."""
        try:
            said = action()
        except (ExpdbError, OSError) as error:
            why = reason(error) if isinstance(error, OSError) else error.message
            self._say(due, f"{failed}: {why}", severity="warn")
        else:
            self._say(due, said)

    # Updates that are not taken

    def _skips(self, step: int, loss: Any, norm: Any, rate: float) -> bool:
        """Tell whether a rule wants an update not to be taken, before its optimizers step.

        On an accelerator this waits for the loss and the norm; several ranks wait for each other.
        """
        wanted = 0
        if self._is_first:
            wanted = int(self._run.would_skip(step, BEFORE, (float(loss), float(norm), rate)))
        [wanted] = told(self._engine, wanted)
        if wanted:
            self._skipped = step
        return bool(wanted)

    def _say_skipped(self, due: Due) -> None:
        if due.step == self._skipped:
            self._say(due, f"update {due.step} not taken; train/num_skipped_steps counts on")

    # The learning rate

    def _lower(self, due: Due) -> None:
        by = float(due.action["by"])
        self._state.scale_lr(by)
        change = Intervention(lr_scale=by)
        self._say(due, change.rate_words(self._training.step, self._state.loop.lr_scale))

    def _decay(self, due: Due) -> None:
        loop, step = self._state.loop, self._training.step
        if loop.decay is not None:
            self._say(due, f"the rate falls since step {loop.decay[0]} already")
            return
        steps, end = int(due.action["steps"]), float(due.action["to"])
        self._state.decay_lr(step, steps, end)
        if not end:
            loop.end_at = step + steps
        rest = f"to {end:.6g} of it" if end else "to 0, where training ends"
        self._say(due, f"learning rate falls {rest}, over {steps:,} steps from {step} on")

    # The end, and the way back

    def _end_early(self, due: Due) -> None:
        loop, step = self._state.loop, self._training.step
        best = 0
        if self._is_first and due.action["restore"] == "best":
            best = max(self._run.best_steps(due.rule), default=0)
        [best] = told(self._engine, best)
        loop.end_at, loop.restore_at = step, best or None
        rest = f"; the weights will be those of step {best}" if best else ""
        self._say(due, f"training ends at step {step}{rest}")

    def restore_best(self) -> None:
        """At the end of training: bring back the weights that a rule wants, and keep them."""
        best = self._state.loop.restore_at
        layout = self._run.layout
        if best is None or layout is None:
            return
        from expdb.track.checkpoint import load_weights

        try:
            load_weights(layout, best, self._state)
            if self._is_first:
                tag = self._run.tag(best, "best")
                said = f"weights are those of step {best}, tagged {tag}"
                self._run.event(self._training.step, "info", RULE, said)
        except (ExpdbError, OSError) as error:
            why = reason(error) if isinstance(error, OSError) else error.message
            self._run.console.warning(f"the weights are the last ones: {why}")

    def _pause(self, due: Due) -> None:
        self._say(due, f"pauses at step {self._training.step}")
        self._training.pause_for(f"rule {due.rule}")

    def _stop(self, due: Due) -> None:
        self._say(due, f"stops at step {self._training.step}")
        self._training.stop_for(f"rule {due.rule}", if_finite=True)

    def _rewind(self, due: Due) -> bool:
        """Go back to a checkpoint; False where that cannot be done, and training goes on."""
        good, number, change = 0, 0, NONE
        if self._is_first:
            good, change = self._planned(due)
            if good:
                said = words(change, good, due.action["tries"])
                number = self._run.go_back(good, change, said)
        good, number, skip = told(self._engine, good, number, change.skip_batches)
        if not good:
            return False
        if not self._is_first:
            change = Intervention(skip_batches=skip, lr_scale=float(due.action["lr_scale"]))
            self._run.go_back(good, change, number=number)
        self._known.clear()
        self._training.begin_again()
        return True

    def _planned(self, due: Due) -> tuple[int, Intervention]:
        """Return where a rewind goes; step 0 where it goes nowhere, which is said."""
        run, can_skip = self._run, hasattr(self._state.loader, "state_dict")
        try:
            run.settle(wait=True)
            return planned(run.store, run.layout, due, self._training.step, can_skip=can_skip)
        except ExpdbError as error:
            self._say(due, f"no rewind: {error.message}", severity="warn")
            return 0, NONE
