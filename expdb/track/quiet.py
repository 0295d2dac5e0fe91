"""Handles that record nothing: `mode="off"`, and the ranks beside rank 0. Callers need no `if`."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from expdb.model import Objective
from expdb.store.layout import RunLayout
from expdb.store.store import Store
from expdb.track.console import Console

if TYPE_CHECKING:
    from expdb.track.checkpoint import Checkpointer
    from expdb.track.state import State


class QuietRun:
    """Has the methods of a run; only checkpoints do something, on a rank that has to take part in
    them.
    """

    def __init__(
        self,
        *,
        layout: RunLayout | None = None,
        rank: int = 0,
        attempt: int = 1,
        resumed_from: int | None = None,
        fork: tuple[Path, int] | None = None,
        objective: Objective | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.layout = layout
        self.id = layout.id if layout is not None else ""
        self.dir = layout.root if layout is not None else Path()
        self.experiment = self.name = ""
        self.seed: int | None = None
        self.rank, self.attempt, self.resumed_from = rank, attempt, resumed_from
        self.objective, self.settings = objective, dict(settings or {})
        self.step = resumed_from or 0
        self.num_tokens: int | None = None
        self.latest: dict[str, tuple[int, float]] = {}
        self.store: Store | None = None
        # Rank 0 speaks for all; without tracking, warnings are still said.
        self.console = Console(StringIO() if layout is not None else None, mode="quiet")
        self._fork = fork
        self._checkpointer: Checkpointer | None = None

    def log(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Record nothing."""

    def log_eval(self, task: str, metrics: Mapping[str, Any], **facts: Any) -> None:
        """Record nothing."""

    def use_data(self, name: str, dataset: Any, **facts: Any) -> None:
        """Record nothing."""

    def watch(self, step: int, values: Mapping[str, float]) -> None:
        """Look at nothing."""

    def note(self, message: str) -> None:
        """Record nothing."""

    def event(self, step: int, severity: str, rule: str, message: str, runbook: str = "") -> None:
        """Record nothing."""

    def checkpoint(self, step: int, state: State) -> None:
        """Take part in a save of rank 0; nothing when tracking is off."""
        if self.layout is None:
            return
        if self._checkpointer is None:
            from expdb.track.checkpoint import Checkpointer

            self._checkpointer = Checkpointer(self.layout, attempt=self.attempt, rank=self.rank)
        self._checkpointer.save(step, state)

    def settle(self, *, wait: bool) -> None:
        """Wait for nothing: rank 0 alone writes."""

    def restore(self, state: State) -> int:
        """Load what the run starts from, as rank 0 does."""
        from expdb.track.checkpoint import load_checkpoint

        if self.layout is not None and self.resumed_from:
            self.step = load_checkpoint(self.layout, self.resumed_from, state).step
        elif self._fork is not None:
            folder, step = self._fork
            self.step = load_checkpoint(RunLayout(folder), step, state, fork=True).step
        return self.step

    def result(self) -> float:
        """Return NaN: nothing was recorded."""
        return float("nan")

    def finish(self) -> None:
        """Do nothing."""

    def fail(self, why: str) -> None:
        """Do nothing."""

    def preempt(self, why: str) -> None:
        """Do nothing."""

    def __enter__(self) -> QuietRun:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None
