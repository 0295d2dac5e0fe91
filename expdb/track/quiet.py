"""Handles that record nothing: `mode="off"`, and the ranks beside rank 0. Callers need no `if`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from expdb.errors import Conflict, ExpdbError
from expdb.model import Objective
from expdb.store import writers
from expdb.store.files import reason
from expdb.store.layout import RunLayout
from expdb.store.store import Store
from expdb.track.console import Console
from expdb.track.control import Control
from expdb.track.due import Actions, Due
from expdb.track.intervene import NONE, Intervention
from expdb.track.rank_log import RankLog
from expdb.track.scalars import whole_step
from expdb.track.watchable import Watchable

if TYPE_CHECKING:
    from expdb.monitor.rule import Rule
    from expdb.track.checkpoint import Checkpointer
    from expdb.track.state import State


class QuietRun(Watchable):
    """Has the methods of a run; on a rank beside 0 checkpoints and `log(..., all_ranks=True)` do
    something.
    """

    def __init__(
        self,
        *,
        layout: RunLayout | None = None,
        rank: int = 0,
        attempt: int = 1,
        resumed_from: int | None = None,
        intervention: Intervention = NONE,
        stop_at: int | None = None,
        fork: tuple[Path, int] | None = None,
        objective: Objective | None = None,
        settings: Mapping[str, Any] | None = None,
        rules: Sequence[Rule] = (),
    ) -> None:
        self.layout = layout
        self.id = layout.id if layout is not None else ""
        self.dir = layout.root if layout is not None else Path()
        self.experiment = self.name = ""
        self.seed: int | None = None
        self.rank, self.attempt, self.resumed_from = rank, attempt, resumed_from
        self.objective, self.settings = objective, dict(settings or {})
        self.intervention, self.stop_at = intervention, stop_at
        self.step = resumed_from or 0
        self.num_tokens: int | None = None
        self.latest: dict[str, tuple[int, float]] = {}
        self.store: Store | None = None
        # Rank 0 speaks for all; without tracking, warnings are still said.
        self.console = Console(StringIO() if layout is not None else None, mode="quiet")
        self._fork = fork
        self._checkpointer: Checkpointer | None = None
        self.control = Control(None)
        self.actions = Actions(rules)
        """The actions that rank 0 may tell of; none is due on this rank by itself."""
        self._log: RankLog | None = None
        self._is_refused = False
        """Whether this rank could not be claimed: said once, and nothing is recorded."""

    _is_recording = False

    def log(
        self, metrics: Mapping[str, Any], step: int | None = None, *, all_ranks: bool = False
    ) -> None:
        """Record nothing; with `all_ranks` a rank beside 0 records the values under its own rank.

        Raises:
            BadInput: with `all_ranks`, as that of a run.
        """
        if not all_ranks or self.layout is None or self._is_refused:
            return
        at = self.step if step is None else whole_step(step)
        log = self._rank_log(self.layout)
        if log is not None:
            log.log(metrics, at)

    def _rank_log(self, layout: RunLayout) -> RankLog | None:
        if self._log is None:
            try:
                writers.claim_rank(layout, self.attempt, self.rank)
                self._log = RankLog(layout, self.attempt, self.rank, on_trouble=self._say_trouble)
            except (OSError, Conflict) as error:
                why = reason(error) if isinstance(error, OSError) else error.message
                self._say_trouble(f"store: {why}; rank {self.rank} records nothing")
                self._is_refused = True
        return self._log

    def _say_trouble(self, message: str) -> None:
        Console(mode="quiet").warning(message)  # of this rank alone, so rank 0 cannot say it

    def log_text(self, key: str, text: str, step: int | None = None) -> None:
        """Record nothing."""

    def log_hist(self, key: str, values: Any, step: int | None = None, **facts: Any) -> None:
        """Record nothing."""

    def log_table(self, key: str, rows: Any = None, step: int | None = None, **facts: Any) -> None:
        """Record nothing."""

    def log_image(self, key: str, image: Any, step: int | None = None, **facts: Any) -> None:
        """Record nothing."""

    def log_eval(self, task: str, metrics: Mapping[str, Any], **facts: Any) -> None:
        """Record nothing."""

    def use_data(self, name: str, dataset: Any, **facts: Any) -> None:
        """Record nothing."""

    def took(self, step: int, first: int, last: int) -> None:
        """Look at nothing."""

    def note(self, message: str) -> None:
        """Record nothing."""

    def alert(self, text: str, *, level: str = "warn", step: int | None = None) -> None:
        """Record nothing."""

    def artifact(self, path: str | os.PathLike[str], *, name: str | None = None) -> None:
        """Copy nothing."""

    def event(
        self, step: int, severity: str, rule: str, message: str, runbook: str = "", **facts: Any
    ) -> None:
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
        from expdb.track.checkpoint import load_start

        layout = self.layout or RunLayout(Path())
        resumed_from = self.resumed_from if self.layout is not None else None
        self.step = load_start(layout, resumed_from, self._fork, state).step
        self.intervention.apply(state)
        return self.step

    def intervened(self, message: str, **facts: Any) -> None:
        """Record nothing: rank 0 speaks for all."""

    def go_back(self, at: int, change: Intervention, words: str = "", number: int = 0) -> int:
        """Belong to the attempt `number` from now on, which begins at a checkpoint, as rank 0 says.

        Raises:
            Corrupt: something of this rank is still unwritten.
        """
        self.finish()
        self._log, self._checkpointer = None, None
        self.attempt, self.resumed_from, self.intervention = number, at, change
        self.step = at
        return number

    def acted(self, due: Due, message: str, *, severity: str = "info") -> None:
        """Record nothing: rank 0 speaks for all."""

    def tag(self, step: int, why: str) -> str:
        """Tag nothing."""
        return ""

    def would_skip(self, step: int, keys: tuple[str, ...], values: Sequence[float]) -> bool:
        """Return False: rank 0 decides."""
        return False

    def best_steps(self, rule: str = "") -> set[int]:
        """Return nothing: rank 0 knows."""
        return set()

    def result(self) -> float:
        """Return NaN: nothing was recorded."""
        return float("nan")

    def finish(self) -> None:
        """Seal what this rank recorded.

        Raises:
            Corrupt: something is still unwritten.
        """
        if self._log is not None:
            self._log.close()

    def fail(self, why: str, *, error: BaseException | None = None) -> None:
        """Seal what this rank recorded."""
        self.finish()

    def preempt(self, why: str) -> None:
        """Seal what this rank recorded."""
        self.finish()

    def __enter__(self) -> QuietRun:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.finish()
        except ExpdbError as trouble:
            if error is None:
                raise
            self._say_trouble(trouble.message)  # the script has to hear what went wrong first
