"""`expdb.attach`: a second process that adds to a run, finished or live, in files of its own.

It writes evaluations, points, notes, alerts, media and artifacts, and never the content of
status.json. Its points have a rank of their own, from 1000000 up; where they are at a step that the
run has too, they stand for it (docs/format.md, Other writers).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn

from expdb.errors import BadInput, Corrupt, ExpdbError, Refused
from expdb.git.worktree import WorkTree, find_worktree
from expdb.redact import Redactor
from expdb.store import attempts as attempt_files
from expdb.store import writers
from expdb.store.head import Head, read_head
from expdb.store.layout import RunLayout
from expdb.store.locate import find_store
from expdb.store.marks import touch_status
from expdb.store.recover import run_lock
from expdb.store.runs import find_run_dir, read_run, require_here
from expdb.store.runword import parse
from expdb.store.store import Store, open_store, reason
from expdb.track.console import Console
from expdb.track.logs import Logs
from expdb.track.rank_log import RankLog
from expdb.track.resume import find_run
from expdb.track.scalars import whole_step
from expdb.track.side import SideFiles

WAIT_S: Final = 60.0
"""How long a run may be locked by another process, which mends it, before this one gives up."""


class AttachedRun(Logs):
    """A run to which this process adds; also a context manager."""

    def __init__(self, store: Store, layout: RunLayout, *, attempt: int, rank: int, step: int):
        self.store, self.layout = store, layout
        self.id, self.dir = layout.id, layout.root
        self.attempt, self.rank, self.step = attempt, rank, step
        self.console = Console(mode="quiet")
        self._redactor = Redactor(environment=os.environ)
        self._log = RankLog(layout, attempt, rank, on_trouble=self.console.warning)
        self._media, self._queue = self._log.media, self._log.queue
        self._side = SideFiles(self._say_trouble)

    def log(
        self, metrics: Mapping[str, Any], step: int | None = None, *, all_ranks: bool = False
    ) -> None:
        """Record values at a step: without one that of the word that was attached to.

        Raises:
            BadInput: a name is empty or no text, or a value is no number; the good ones are
                recorded.
        """
        self._require_open()
        self._log.log(metrics, self.step if step is None else whole_step(step))

    def finish(self) -> None:
        """Seal what was added; a second call does nothing. The run keeps its state.

        Raises:
            Corrupt: something is still unwritten.
        """
        if not self._log.is_open or self._log.is_forked:
            return
        try:
            self._side.flush()
        except OSError as error:
            raise Corrupt(
                f"what was added to {self.id} is not all written: {reason(error)}",
                hint="free some space, and call finish() again",
            ) from error
        self._log.close()

    def _say_trouble(self, message: str) -> None:
        self._log.outage.trouble(message)

    def _require_open(self) -> None:
        if self._log.is_forked:
            raise BadInput(
                f"run {self.id} was attached to by another process, and this is a fork of it",
                hint="log from the parent process",
            )
        if not self._log.is_open:
            raise BadInput(f"run {self.id} is no longer attached", hint="log before finish()")

    def _changed(self, *, is_event: bool = False) -> None:
        self._side.attempt("the time of its status", lambda: touch_status(self.layout))

    def __enter__(self) -> AttachedRun:
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
            # What went wrong first is what the script has to hear of.
            self._say_trouble(trouble.message)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an attached run cannot be pickled: it belongs to the process that made it")


def attach(run: str, *, store: str | os.PathLike[str] | None = None) -> AttachedRun:
    """Attach this process to a run, and return a handle that adds to it.

    `run` is a word of the RUN grammar; its step (`exp01@300`) is the one at which things are logged
    unless another is said, else the run's last. The store is the one given, that of EXPDB_STORE, or
    the one found upward from the current folder.

    Raises:
        NotFound, Ambiguous, BadInput: the word names no run, or there is no store; or the run was
            removed at this moment.
        Refused: the run has no attempt to add to.
        Conflict: another process mends the run, and does so for a minute.
        Corrupt: the store cannot be written.
    """
    said = os.fspath(store) if store is not None else os.environ.get("EXPDB_STORE")
    opened = open_store(find_store(start=Path.cwd(), explicit=said))
    # A number needs no checkpoint: that of step 300 may be gone when its evaluation is done.
    word = parse(run)
    is_number = word.step is not None and word.step.isdigit()
    at = find_run(opened, str(word._replace(step=None)) if is_number else run, _head())
    layout = RunLayout(find_run_dir(opened.root, at.run))
    numbers = attempt_files.numbers(layout)
    if not numbers:
        require_here(layout)  # a run that is removed meanwhile shows none
        raise Refused(f"{at.run} has no attempt to add to", hint=f"expdb show {at.run[:4]}")
    step = int(word.step) if word.step and is_number else at.step
    if step is None:
        step = read_run(layout.root, store_root=opened.root).last_step or 0
    try:
        # `rm` looks for writers under this lock: it sees this one, or has moved the run before.
        with run_lock(opened.root, layout, wait_s=WAIT_S):
            require_here(layout)
            rank = writers.claim_attached(layout, numbers[-1])
        handle = AttachedRun(opened, layout, attempt=numbers[-1], rank=rank, step=step)
        touch_status(layout)
    except OSError as error:
        raise Corrupt(
            f"cannot write to the store {opened.name}: {reason(error)}",
            hint=f"the run: {layout.root}",
        ) from error
    return handle


def _head() -> Head | None:
    found = find_worktree(Path.cwd())
    return read_head(found.git_dir) if isinstance(found, WorkTree) else None
