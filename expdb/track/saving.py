"""Checkpoints of a loop: when one is due by steps or by time, and what becomes of one that fails.

Invariant: a checkpoint that cannot be written stops nothing unless it is the last chance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from expdb.errors import BadInput, ExpdbError
from expdb.track.throughput import due_between

if TYPE_CHECKING:
    from expdb.track.quiet import QuietRun
    from expdb.track.run import Run
    from expdb.track.state import State


class Saving:
    """The checkpoints of one loop: every so many steps, and every so many seconds."""

    def __init__(
        self,
        run: Run | QuietRun,
        state: State,
        *,
        every: int | None,
        every_s: float | None,
        clock: Callable[[], float],
    ) -> None:
        self._run, self._state, self._clock = run, state, clock
        self.every, self._every_s = every, every_s
        self.step = -1
        """The step of the newest checkpoint that stands for these weights."""
        self._saved_s = 0.0

    def begin(self, step: int) -> None:
        """Begin with the weights of a checkpoint, or of none, which is -1."""
        self.step, self._saved_s = step, self._clock()

    def is_multiple(self, step: int) -> bool:
        """Tell whether the steps between checkpoints want one here."""
        return self.every is not None and step % self.every == 0

    def num_due(self, after: int, upto: int) -> int:
        """Return how many checkpoints there are behind a step, up to another."""
        return due_between(self.every, after, upto)

    def is_overdue(self) -> bool:
        """Tell whether the seconds between checkpoints have passed."""
        return self._every_s is not None and self._clock() - self._saved_s >= self._every_s

    def save(self, step: int, *, final: bool) -> float:
        """Write a checkpoint, and return the seconds that it took.

        Raises:
            ExpdbError: it could not be written, and is the last chance; or the state cannot be
                saved at all.
        """
        began = self._clock()
        try:
            self._run.checkpoint(step, self._state)
        except BadInput:
            raise
        except ExpdbError as error:
            if final:
                raise
            self._run.console.warn(step, error.message)
        else:
            self.step = step
        self._saved_s = self._clock()
        return self._saved_s - began

    def settle(self, step: int, *, wait: bool) -> None:
        """Let the run report checkpoints that are in place; with `wait` a failure is raised.

        Raises:
            ExpdbError: one could not be written, and `wait` is set.
        """
        try:
            self._run.settle(wait=wait)
        except ExpdbError as error:
            if wait:
                raise
            self._run.console.warn(step, error.message)
