"""Evaluations of a loop: when one is due, how it is run, and what is noted of it.

Invariant: an evaluation draws nothing from the generators of training, and leaves every module in
the mode it had; it is at a step once, unless the run is a fork that has not trained yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from expdb.track import rng
from expdb.track.scalars import on_host
from expdb.track.throughput import due_between
from expdb.track.untouched import eval_mode

if TYPE_CHECKING:
    from expdb.model import Objective
    from expdb.track.state import State

Evaluate = Callable[[int], Mapping[str, Any] | None]


class Evaluations:
    """The evaluations of one loop; without `evaluate` there never are any."""

    def __init__(self, state: State, evaluate: Evaluate | None, every: int | None) -> None:
        self._state, self._evaluate, self.every = state, evaluate, every
        self.is_fork = False
        """Whether the weights of a fork are as its parent had them: it evaluates them itself."""

    @property
    def there_are(self) -> bool:
        """Whether the script has an evaluation."""
        return self._evaluate is not None

    def is_new(self, step: int) -> bool:
        """Tell whether the weights of a step have not been evaluated."""
        return self.there_are and (self._state.loop.evaluated_step != step or self.is_fork)

    def is_due(self, step: int, end: int) -> bool:
        """Tell whether the intervals want an evaluation at a step; `end` is the last one."""
        if not self.is_new(step) or step > end:
            return False
        began = step == 0 or self.is_fork
        return began or step == end or (self.every is not None and step % self.every == 0)

    def num_due(self, after: int, upto: int) -> int:
        """Return how many evaluations there are behind a step, up to another."""
        return due_between(self.every, after, upto) if self.there_are else 0

    def run(self, step: int) -> dict[str, Any]:
        """Evaluate the weights of a step and return the metrics, on the host."""
        import torch

        assert self._evaluate is not None
        self.is_fork = False
        with rng.preserved(), eval_mode(self._state.models.values()), torch.no_grad():
            found = self._evaluate(step) or {}
        self._state.loop.evaluated_step = step
        return {key: on_host(value) for key, value in found.items()}

    def note_objective(
        self, objective: Objective | None, step: int, metrics: Mapping[str, Any]
    ) -> None:
        """Remember the best value of the objective."""
        loop = self._state.loop
        if objective is None or objective.metric not in metrics:
            return
        value = float(metrics[objective.metric])
        if objective.better(value, math.nan if loop.best_value is None else loop.best_value):
            loop.best_value, loop.best_step = value, step


def lost_words(
    objective: Objective | None,
    step: int,
    metrics: Mapping[str, Any],
    *,
    since: int | None,
    last: float,
) -> str:
    """Return why a run is lost whose objective and loss are both not finite, since the step `since`
    of a loss that is now `last`: no later step can bring them back. Empty where it is not.
    """
    if objective is None or objective.metric not in metrics or since is None:
        return ""
    if math.isfinite(float(metrics[objective.metric])):
        return ""
    word = "NaN" if math.isnan(last) else "infinite"
    return f"train/loss is {word} since step {since}, {objective.metric} at {step}"
