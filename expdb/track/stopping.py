"""The handle of a probe: its process ends at a step, whatever loop it has, and saves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from expdb.track.run import Run
from expdb.track.scalars import whole_step

if TYPE_CHECKING:
    from expdb.track.state import State


class StoppingRun(Run):
    """A run that ends well when something is logged at `stop_at` or later.

    `Loop` stops at that border by itself; this is for loops that know of no border.
    """

    task: Mapping[str, Any] | None = None
    """What `Loop` is to measure instead of training."""

    def log(
        self, metrics: Mapping[str, Any], step: int | None = None, *, all_ranks: bool = False
    ) -> None:
        """Record values at a step before `stop_at`.

        Raises:
            SystemExit: the step is reached; the process is to end, with status 0.
            BadInput: as that of a run.
        """
        at = self.step if step is None else whole_step(step)
        if self.stop_at is not None and at >= self.stop_at:
            raise SystemExit(0)
        super().log(metrics, step, all_ranks=all_ranks)

    def checkpoint(self, step: int, state: State) -> None:
        """Save nothing: what a probe trains is thrown away."""
