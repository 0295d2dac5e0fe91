"""Joining a run that stopped: a new attempt of it, from its last good checkpoint.

Invariant: the config must be the run's own (equal digest and seed); other code is allowed, recorded
and said.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from expdb import digest, text
from expdb.errors import Corrupt, ExpdbError, NotFound, Refused
from expdb.model import Attempt, Pin, Run, RunAt, RunState
from expdb.model_run import left_by
from expdb.store import attempts as attempt_files
from expdb.store import resolve
from expdb.store.checkpoints import read_checkpoint, read_manifests, verify
from expdb.store.checkpoints import recover as recover_checkpoints
from expdb.store.head import Head
from expdb.store.ids import is_id
from expdb.store.layout import RunLayout
from expdb.store.marks import touch_status
from expdb.store.recover import recount, recover, run_lock
from expdb.store.refs import read_refs
from expdb.store.remote_refs import named_refs, pulled_remotes
from expdb.store.runs import find_run_dir, read_run, require_here, run_dirs
from expdb.store.series import SeriesBook
from expdb.store.status import Status, write_status
from expdb.store.store import Store
from expdb.track.config import Composed
from expdb.track.environment import describe
from expdb.track.intervene import NONE, Intervention, of_attempt

WAIT_S: Final = 10.0
"""How long another process may hold the run's lock: one that attaches does for some milliseconds.
"""
STEP_DIGITS: Final = 19


@dataclass(frozen=True, slots=True)
class Joined:
    """A run with the attempt that was just added to it."""

    run: Run
    layout: RunLayout
    attempt: Attempt
    book: SeriesBook
    status: Status
    warnings: tuple[str, ...]


def find_run(store: Store, word: str, head: Head | None) -> RunAt:
    """Return the run (and step) that a word of the RUN grammar names, read from the run folders.

    Raises:
        NotFound, Ambiguous, BadInput: as the grammar says.
    """
    name, at, step = word.partition("@")
    if is_id(name) and (not at or (step.isascii() and step.isdigit() and len(step) < STEP_DIGITS)):
        find_run_dir(store.root, name)
        return RunAt(run=name, step=int(step) if at else None)
    rows: list[resolve.ResolveRow] = []
    for _, folder, _ in run_dirs(store.root):
        try:
            rows.append(_row(read_run(folder, store_root=store.root)))
        except ExpdbError:
            continue  # damaged, half made or newer: no word names it
    remotes = named_refs(store.layout, pulled_remotes(store.layout))
    refs = {**remotes, **read_refs(store.layout, problems=[])}
    found = resolve.resolve(word, rows, refs, head=head.at if head is not None else None)
    return RunAt(run=found.run, step=found.step)


def _row(run: Run) -> resolve.ResolveRow:
    value = run.value()
    return resolve.ResolveRow(
        id=run.id,
        experiment=run.experiment,
        variant=run.variant,
        seed=run.seed,
        state=run.state,
        created_at_ms=run.created_at_ms,
        objective=run.objective,
        value=None if value is None else value[0],
        parent=run.parent.run if run.parent is not None else None,
        checkpoints=tuple(item.step for item in run.usable),
        best_step=run.best_step(),
        does_count=not run.lacks,
    )


def require_same_config(
    run: Run, composed: Composed, settings: Mapping[str, Any], seed: int | None
) -> None:
    """Refuse to go on with another config.

    Raises:
        Refused: it names the first key that differs.
    """
    ignore, seed_key = settings["digest"]["ignore"], settings["seed_key"]
    keys = digest.differing(run.canonical, composed.canonical, ignore=ignore, seed_key=seed_key)
    short = run.id[:4]
    for key, (old, new) in keys.items():
        more = f" (and {len(keys) - 1} more)" if len(keys) > 1 else ""
        raise Refused(
            f"{short} {text.plain(run.name)} cannot be resumed with another config:"
            f" {key} was {text.config_value(old)}, is {text.config_value(new)}{more}",
            hint=f"start a new run from its weights: expdb.fork={short}@last",
        )
    if seed != run.seed:
        raise Refused(
            f"{short} {text.plain(run.name)} has seed {run.seed}, not {seed}",
            hint=f"start a new run from its weights: expdb.fork={short}@last",
        )


def require_can_resume(run: Run, *, assume_dead: bool = False, at: int | None = None) -> None:
    """Refuse to add an attempt to a run that is alive, may be alive elsewhere, or is at its end.

    A finished run can be taken up again from an earlier step, `at`.

    Raises:
        Refused: it says what can be done instead.
    """
    short = f"{run.id[:4]} {text.plain(run.name)}"
    if run.state.is_alive:
        raise Refused(f"{short} is {run.state}", hint=f"look at it: expdb show {run.id[:4]}")
    if run.state is RunState.LOST and not assume_dead:
        raise Refused(
            f"{short} ran on another host and gave no sign for 10 minutes",
            hint=f"if that process is surely gone: expdb resume {run.id[:4]}",
        )
    if run.state is RunState.FINISHED and (at is None or at >= (run.last_step or 0)):
        raise Refused(
            f"{short} is finished; there is nothing to resume",
            hint=f"go on from its weights with a larger max_steps: expdb.fork={run.id[:4]}@last",
        )


def join_run(
    store: Store,
    run: Run,
    pin: Pin,
    work_tree: str,
    *,
    assume_dead: bool,
    at: int | None = None,
    change: Intervention = NONE,
    world_size: int = 1,
) -> Joined:
    """Add an attempt to a run that stopped, from the checkpoint at `at`, else from the last good.

    What the attempt before it changed is done again if that is in no checkpoint yet, and nobody
    asks for another step or change.

    Raises:
        Refused: the run is alive or finished, or another process resumes it at this moment.
        NotFound: another process removed it at this moment.
    """
    layout = RunLayout(store.root / run.path)
    if not (assume_dead and run.state.is_alive):
        require_can_resume(run, assume_dead=assume_dead, at=at)
    recover(store.root, layout, assume_dead=assume_dead)
    with run_lock(store.root, layout, wait_s=WAIT_S):
        require_here(layout)
        number = _claim(store, run, layout)
        # Should it die before its status, the index has to look at what it changed.
        touch_status(layout)
        # A save cut off between its two renames left a whole checkpoint under another name.
        recover_checkpoints(layout)
        step, warnings = last_good(layout) if at is None else (at, ())
        if at is None and not change:
            change = _unsaved(run, layout, step)
        attempt = Attempt(
            number=number,
            pin=pin,
            started_at_ms=time.time_ns() // 1_000_000,
            resumed_from=step,
            environment=describe(store.layout, world_size),
            work_tree=work_tree,
            intervention=change.to_plain(),
        )
        joined = _begin_attempt(run, layout, attempt, warnings)
    before = run.pin.tree
    if before is not None and pin.tree is not None and before != pin.tree:
        said = f"the code has changed since attempt {number - 1}"
        return replace(joined, warnings=(*joined.warnings, said))
    return joined


def go_back(store: Store, run: Run, own: Attempt, at: int, change: Intervention) -> Joined:
    """Add an attempt to a run of this process, which has closed the attempt `own`, from the
    checkpoint at `at`.

    Raises:
        Refused, NotFound: as `join_run`.
        OSError: the store cannot be written.
    """
    layout = RunLayout(store.root / run.path)
    with run_lock(store.root, layout, wait_s=WAIT_S):
        require_here(layout)
        attempt = replace(
            own,
            number=_claim(store, run, layout),
            started_at_ms=time.time_ns() // 1_000_000,
            resumed_from=at,
            intervention=change.to_plain(),
        )
        touch_status(layout)
        return _begin_attempt(run, layout, attempt, ())


def _begin_attempt(
    run: Run, layout: RunLayout, attempt: Attempt, warnings: tuple[str, ...]
) -> Joined:
    """Write what a claimed attempt stands on, and count the run again as it is from there."""
    attempt_files.write_pin(layout, attempt)
    # From here on points after its step of earlier attempts are superseded: counted again.
    unread: list[str] = []
    book = recount(layout, problems=unread)
    step = attempt.resumed_from or None
    status = Status(attempt=attempt.number, last_step=step, max_steps=run.max_steps)
    write_status(layout, status)
    return Joined(run, layout, attempt, book, status, (*warnings, *unread))


def _unsaved(run: Run, layout: RunLayout, step: int) -> Intervention:
    """Return what the attempt before changed, if the checkpoint at `step` was written before it."""
    before = run.attempt
    if before is None or (before.resumed_from or _forked_at(run)) != (step or _forked_at(run)):
        return NONE
    if step and read_checkpoint(layout, step).attempt >= before.number:
        return NONE
    return of_attempt(before)


def _forked_at(run: Run) -> int:
    return run.fork.step or 0 if run.fork is not None else 0


def _claim(store: Store, run: Run, layout: RunLayout) -> int:
    """Claim the next attempt; of several processes that do this at once the first one goes on."""
    number = attempt_files.claim(layout)
    known = run.attempt.number if run.attempt is not None else 0
    for other in range(known + 1, number):
        if attempt_files.life(layout, other, store_meta=store.layout.meta) == "alive":
            shutil.rmtree(layout.attempt(number))
            raise Refused(
                f"{run.id[:4]} {text.plain(run.name)} is being resumed by another process",
                hint=f"look at it: expdb show {run.id[:4]}",
            )
    return number


def last_good(layout: RunLayout, *, most: int | None = None) -> tuple[int, tuple[str, ...]]:
    """Return the newest step, up to `most`, whose checkpoint is whole by its hashes (0 for none),
    and what was passed over; those that a later attempt has left behind do not count.
    """
    warnings: list[str] = []
    resumed = attempt_files.resumed_steps(layout)
    for item in sorted(read_manifests(layout), key=lambda one: one.step, reverse=True):
        if left_by(item, resumed) is not None or (most is not None and item.step > most):
            continue
        if not item.complete:
            warnings.append(f"checkpoint {item.step} is not used: {item.problem}")
            continue
        try:
            verify(layout, item.step)
            return item.step, tuple(warnings)
        except Corrupt as error:
            warnings.append(f"checkpoint {item.step} is not used: {error.message}")
    return 0, tuple(warnings)


def fork_source(store: Store, at: RunAt) -> tuple[Path, int]:
    """Return the folder and step that a fork starts from: the step named, else the last good
    checkpoint.

    Raises:
        NotFound: the run has no checkpoint.
    """
    folder = find_run_dir(store.root, at.run)
    if at.step is not None:
        verify(RunLayout(folder), at.step)
        return folder, at.step
    step, _ = last_good(RunLayout(folder))
    if not step:
        raise NotFound(
            f"{at.run[:4]} has no checkpoint to start from", hint=f"expdb show {at.run[:4]}"
        )
    return folder, step
