"""`expdb.start`: everything that can go wrong goes wrong here, before GPU time is spent."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from expdb.errors import BadInput, Corrupt, ExpdbError, Refused
from expdb.git.stores import pinning
from expdb.git.worktree import WorkTree
from expdb.model import Attempt, Objective, Pin, Run, RunAt
from expdb.store.layout import RunLayout
from expdb.store.ops import find_unfinished
from expdb.store.runs import find_run_dir, read_run
from expdb.store.series import SeriesBook
from expdb.store.siblings import is_sibling
from expdb.store.status import Status, write_status
from expdb.store.store import reason
from expdb.track import launch, resume
from expdb.track.begin import Identity, begin_run, leave_folder
from expdb.track.console import Console
from expdb.track.held import held
from expdb.track.intervene import of_attempt
from expdb.track.opening import open_console
from expdb.track.parent import find_parent
from expdb.track.pin import pin_code
from expdb.track.prepare import Start, prepare
from expdb.track.quiet import QuietRun
from expdb.track.resumed import Resumed, find_resumed
from expdb.track.run import Run as Handle
from expdb.track.stopping import StoppingRun


def start(
    cfg: Any = None,
    *,
    name: str | None = None,
    store: str | Path | None = None,
    resume: str | None = None,
    fork: str | None = None,
    labels: Iterable[str] = (),
    objective: Objective | Mapping[str, Any] | str | None = None,
    seed: int | None = None,
    dirty: str | None = None,
    mode: str | None = None,
) -> Handle | QuietRun:
    """Start a run, or a further attempt of one, and return its handle (also a context manager).

    `cfg` is a DictConfig, mapping, dataclass or Namespace. Arguments left out are taken from its
    `expdb:` section, then from the defaults: `resume="auto"`, `dirty="snapshot"`, `mode="on"`.
    `objective` and `seed` are found in the config under `objective` and `expdb.seed_key`.
    In a job that `hydra/callbacks=expdb` has started a run for, it is that run.

    Raises:
        ExpdbError: of every kind, before anything is changed but the store's own set-up.
    """
    given = {"resume": resume, "fork": fork, "dirty": dirty, "mode": mode}
    if (of_job := held()) is not None:
        said: dict[str, Any] = {"name": name, "store": store, "objective": objective, "seed": seed}
        said |= {**given, "labels": labels or None}
        _say_unused(of_job, [key for key, value in said.items() if value is not None])
        return of_job
    begun = prepare(
        cfg, name=name, store=store, labels=labels, objective=objective, seed=seed, given=given
    )
    if begun is None:
        return QuietRun()
    if begun.launch.rank > 0:
        return _beside(begun)
    _require_finished_op(begun)
    found = find_resumed(begun)
    with _pinning(begun):
        pin = _pin(begun)
        try:
            return _new(begun, pin) if found is None else _resume(begun, found, pin)
        except OSError as error:
            raise Corrupt(
                f"cannot write to the store {begun.store.name}: {reason(error)}",
                hint="another place: python train.py ... expdb.store=DIR",
            ) from error


def _pinning(begun: Start) -> AbstractContextManager[None]:
    """Keep every pin of the repository until the run has a record of its own."""
    if isinstance(begun.worktree, WorkTree) and begun.probe is None:
        return pinning(begun.worktree, begun.store.id, begun.store.root)
    return nullcontext()


def _pin(begun: Start) -> Pin:
    if begun.probe is not None:
        return begun.probe.pin(begun.worktree)
    return pin_code(
        begun.worktree,
        store_root=begun.store.root,
        code=begun.settings["code"],
        dirty=begun.settings["dirty"],
    )


def _say_unused(run: Handle | QuietRun, names: list[str]) -> None:
    if names:
        run.console.warning(
            f"hydra/callbacks=expdb has started this run: {', '.join(names)} of start() not used"
        )


def _require_finished_op(begun: Start) -> None:
    if begun.git_dir is None:
        return
    op = find_unfinished(begun.git_dir, begun.store.layout)
    if op is not None:
        raise Refused(
            f"{op.what} stopped before its end (op {op.id})",
            hint="finish it: expdb rollback --continue       take it back: expdb rollback --abort",
        )


def _require_undisturbed(begun: Start, layout: RunLayout, attempt: Attempt) -> None:
    """End a run whose work tree began to be rolled back while it started.

    Rollback looks for live runs after it has set its mark, and a start looks for the mark after it
    has written its status: one of the two sees the other.

    Raises:
        Refused: the work tree is being rolled back.
    """
    try:
        _require_finished_op(begun)
    except Refused as error:
        _end_unstarted(layout, attempt, error.message)
        raise


def _end_unstarted(layout: RunLayout, attempt: Attempt, why: str) -> None:
    now = time.time_ns() // 1_000_000
    why = f"not started: {why}"
    ended = Status(state="failed", reason=why, attempt=attempt.number, ended_at_ms=now)
    write_status(layout, ended)


def _resume(begun: Start, found: Resumed, pin: Pin) -> Handle:
    run = found.run
    joined = resume.join_run(
        begun.store,
        run,
        pin,
        begun.work_tree,
        assume_dead=found.assume_dead,
        at=found.at,
        change=found.change,
        world_size=begun.launch.world_size,
    )
    leave_folder(begun.store, begun.job, instead=joined.layout.root)
    _require_undisturbed(begun, joined.layout, joined.attempt)
    _announce(begun, joined.layout)
    source = _source_of(begun, run)
    handle = _handle(begun, joined.layout, joined.attempt, joined.book, joined.status, source)
    parent = None
    if run.parent is not None:
        try:
            folder = find_run_dir(begun.store.root, run.parent.run)
            parent = read_run(folder, store_root=begun.store.root)
        except ExpdbError:
            parent = None  # removed since, or damaged: the run goes on without its measure
    open_console(begun, handle, joined.attempt, parent, fork="")
    for warning in joined.warnings:
        handle.console.warning(warning)
    return handle


def _new(begun: Start, pin: Pin) -> Handle:
    at = source = None
    if begun.settings["fork"]:
        at = resume.find_run(begun.store, str(begun.settings["fork"]), begun.head)
        source = resume.fork_source(begun.store, at)
        at = RunAt(run=at.run, step=source[1])
    elif begun.intervention:
        raise BadInput(
            "expdb.skip_batches and expdb.lr_scale change a run that goes on, and this one is new",
            hint="with expdb.resume=RUN or expdb.fork=RUN@STEP",
        )
    found = find_parent(
        begun.store,
        begun.git_dir,
        at,
        variant=begun.variant,
        is_sibling=lambda run: _is_sibling(begun, pin, run),
    )
    identity = Identity(
        experiment=begun.experiment,
        variant=begun.variant,
        seed=begun.seed,
        objective=begun.objective,
        parent=found[0] if found is not None else None,
        fork=at,
        settings=begun.settings,
        labels=begun.labels,
        intervention=begun.intervention,
    )
    layout, attempt = begin_run(
        begun.store,
        begun.job,
        identity,
        begun.composed,
        pin,
        begun.work_tree,
        world_size=begun.launch.world_size,
    )
    leave_folder(begun.store, begun.job, instead=layout.root)
    _require_undisturbed(begun, layout, attempt)
    _announce(begun, layout)
    status = Status(attempt=attempt.number)
    handle = _handle(begun, layout, attempt, SeriesBook(), status, source)
    fork = f"{at.run[:4]}@{at.step}" if at is not None else ""
    open_console(begun, handle, attempt, found[1] if found is not None else None, fork=fork)
    if (layout.root / ".hydra").is_dir():
        handle.console.warning(
            "Hydra keeps the config of this run, with its secrets, in .hydra;"
            " to stop it: hydra.output_subdir=null"
        )
    return handle


def _is_sibling(begun: Start, pin: Pin, run: Run) -> bool:
    """Tell whether a run differs from the one that starts in the seed alone."""
    return run.name == begun.name and is_sibling(
        run,
        seed=begun.seed,
        canonical=begun.composed.canonical,
        tree=pin.tree,
        ignore=begun.settings["digest"]["ignore"],
        seed_key=begun.settings["seed_key"],
    )


def _announce(begun: Start, layout: RunLayout) -> None:
    path = layout.root.relative_to(begun.store.root).as_posix()
    launch.announce(begun.store.layout, begun.launch, run=layout.id, path=path)


def _beside(begun: Start) -> QuietRun:
    """Return the handle of a rank beside rank 0."""
    root = begun.store.root

    def lives(path: str) -> bool:
        try:
            return read_run(root / path, store_root=root).state.is_alive
        except ExpdbError:
            return False

    found = launch.wait_for_rank_0(begun.store.layout, begun.launch, lives=lives)
    run = read_run(root / str(found["path"]), store_root=root)
    layout = RunLayout(root / run.path)
    leave_folder(begun.store, begun.job, instead=layout.root)
    last = run.attempt
    return QuietRun(
        layout=layout,
        rank=begun.launch.rank,
        attempt=last.number if last is not None else 1,
        resumed_from=last.resumed_from if last is not None else None,
        intervention=of_attempt(last),
        stop_at=begun.probe.stop_at if begun.probe is not None else None,
        fork=_source_of(begun, run),
        objective=begun.objective,
        settings=begun.settings,
        rules=begun.rules,
    )


def _source_of(begun: Start, run: Run) -> tuple[Path, int] | None:
    """Return the folder and step that a run was forked from."""
    if run.fork is None or run.fork.step is None:
        return None
    return find_run_dir(begun.store.root, run.fork.run), run.fork.step


def _handle(
    begun: Start,
    layout: RunLayout,
    attempt: Attempt,
    book: SeriesBook,
    status: Status,
    source: tuple[Path, int] | None,
) -> Handle:
    try:
        return _opened(begun, layout, attempt, book, status, source)
    except OSError as error:
        with suppress(OSError):
            _end_unstarted(layout, attempt, reason(error))
        raise


def _opened(
    begun: Start,
    layout: RunLayout,
    attempt: Attempt,
    book: SeriesBook,
    status: Status,
    source: tuple[Path, int] | None,
) -> Handle:
    console = Console(
        mode=begun.settings["print"],
        hints=begun.settings["hints"],
        log_path=layout.attempt(attempt.number) / "log.txt",
        redactor=begun.composed.redactor,
    )
    kind = Handle if begun.probe is None else StoppingRun
    handle = kind(
        begun.store,
        layout,
        experiment=begun.experiment,
        variant=begun.variant,
        seed=begun.seed,
        attempt=attempt,
        objective=begun.objective,
        settings=begun.settings,
        rules=begun.rules,
        fork=source,
        book=book,
        status=status,
        console=console,
        redactor=begun.composed.redactor,
        stop_at=begun.probe.stop_at if begun.probe is not None else None,
    )
    if begun.probe is not None and isinstance(handle, StoppingRun):
        handle.task = begun.probe.task
    return handle
