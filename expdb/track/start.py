"""`expdb.start`: everything that can go wrong goes wrong here, before GPU time is spent."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.errors import Corrupt, NotFound, Refused
from expdb.git.snapshot import take_pin
from expdb.git.worktree import Unavailable, WorkTree, find_worktree
from expdb.model import Attempt, Objective, Pin, Run, RunAt, RunState
from expdb.store import points
from expdb.store.head import Head, read_head
from expdb.store.layout import RunLayout
from expdb.store.locate import store_for_script
from expdb.store.ops import find_unfinished
from expdb.store.runs import find_run_dir, read_run
from expdb.store.series import SeriesBook
from expdb.store.status import Status
from expdb.store.store import Store, open_store
from expdb.track import intro, launch, resume
from expdb.track.begin import Identity, begin_run, leave_folder
from expdb.track.config import Composed, plain_section, read_config
from expdb.track.console import Console
from expdb.track.folder import entry_script, store_of_run_dir
from expdb.track.job import Job, added_keys, current_job, experiment, variant_of
from expdb.track.parent import ABSENT, differing_keys, find_parent
from expdb.track.quiet import QuietRun
from expdb.track.run import Run as Handle
from expdb.track.settings import effective, objective_of
from expdb.track.used import imported_files


@dataclass(frozen=True, slots=True)
class Start:
    """What a start knows before anything is written."""

    job: Job
    composed: Composed
    settings: Mapping[str, Any]
    store: Store
    worktree: WorkTree | Unavailable
    launch: launch.Launch
    experiment: str
    variant: str
    seed: int | None
    objective: Objective | None
    labels: tuple[str, ...]

    @property
    def git_dir(self) -> Path | None:
        """The git directory of the work tree, where there is one."""
        return self.worktree.git_dir if isinstance(self.worktree, WorkTree) else None

    @property
    def work_tree(self) -> str:
        """The work tree as attempts record it."""
        return str(self.git_dir or "")

    @property
    def head(self) -> Head | None:
        """HEAD of the work tree."""
        return read_head(self.git_dir) if self.git_dir is not None else None

    @property
    def name(self) -> str:
        """The experiment with its variant."""
        return self.experiment + self.variant


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

    `cfg` is a DictConfig, mapping, dataclass or Namespace. Arguments left out are taken from its `expdb:` section, then from
    the defaults: `resume="auto"`, `dirty="snapshot"`, `mode="on"`. `objective` and `seed` are found in the config under
    `objective` and `expdb.seed_key`.

    Raises:
        ExpdbError: of every kind, before anything is changed but the store's own set-up.
    """
    given = {"resume": resume, "fork": fork, "dirty": dirty, "mode": mode}
    begun = _prepare(cfg, name, store, labels, objective, seed, given)
    if begun is None:
        return QuietRun()
    if begun.launch.rank > 0:
        return _beside(begun)
    _require_finished(begun)
    pin = _take_pin(begun)
    joined = _find_resumed(begun)
    if joined is not None:
        return _resume(begun, joined, pin)
    return _new(begun, pin)


def _prepare(
    cfg: Any,
    name: str | None,
    store: str | Path | None,
    labels: Iterable[str],
    objective: Objective | Mapping[str, Any] | str | None,
    seed: int | None,
    given: Mapping[str, str | None],
) -> Start | None:
    job, composed = current_job(), read_config(cfg)
    section = dict(plain_section(composed.tree, "expdb") or {})
    section.update({key: value for key, value in given.items() if value is not None})
    settings = effective(section)
    if settings["mode"] == "off":
        return None
    found = objective if objective is not None else plain_section(composed.tree, "objective")
    chosen = seed if seed is not None else composed.flat.get(settings["seed_key"])
    opened = _open(_store_root(store, settings, job))
    return Start(
        job=job,
        composed=composed,
        settings=settings,
        store=opened,
        worktree=find_worktree(entry_script().parent),
        launch=launch.find_launch(),
        experiment=composed.redactor.text(experiment(job, name, settings["experiment_key"])),
        variant=composed.redactor.text(_variant(job, settings)),
        seed=chosen if isinstance(chosen, int) else None,
        objective=objective_of(found),
        labels=(*labels, *settings["labels"]),
    )


def _variant(job: Job, settings: Mapping[str, Any]) -> str:
    if not job.overrides:
        return ""
    return variant_of(
        job.overrides,
        experiment_key=settings["experiment_key"],
        seed_key=settings["seed_key"],
        ignore=settings["digest"]["ignore"],
    )


def _store_root(store: str | Path | None, settings: Mapping[str, Any], job: Job) -> Path:
    if store is not None:
        return Path(store).expanduser().absolute()
    if job.run_dir is not None:
        # Hydra's folder was made by the same rule in this job, or by the launcher that started it.
        own = store_of_run_dir(job.run_dir)
        if own is not None:
            return own
    return store_for_script(entry_script(), os.environ.get("EXPDB_STORE") or settings["store"])


def _open(root: Path) -> Store:
    store = open_store(root, create=True)
    if not store.writable:
        raise Corrupt(
            f"cannot write to the store {store.name}: no permission",
            hint="another place: python train.py ... expdb.store=DIR",
        )
    return store


def _require_finished(begun: Start) -> None:
    if begun.git_dir is None:
        return
    op = find_unfinished(begun.git_dir, begun.store.layout)
    if op is not None:
        raise Refused(
            f"{op.what} stopped before its end (op {op.id})",
            hint="finish it: expdb rollback --continue       take it back: expdb rollback --abort",
        )


def _take_pin(begun: Start) -> Pin:
    code, how = begun.settings["code"], begun.settings["dirty"]
    pin = take_pin(
        begun.worktree,
        store_root=begun.store.root,
        exclude=code["exclude"],
        secret_files=code["secret_files"],
        used=imported_files(),
    )
    if pin.dirty and how == "refuse":
        raise Refused(
            f"the work tree has {pin.num_edits} edits and expdb.dirty=refuse",
            hint="commit them, or: expdb.dirty=snapshot",
        )
    return pin


def _find_resumed(begun: Start) -> tuple[Run, bool] | None:
    """Return the run that this start resumes, and whether its owner is known to be dead."""
    wanted = begun.settings["resume"]
    if wanted in (None, False, "never", "off"):
        return None
    if wanted != "auto":
        at = resume.find_run(begun.store, str(wanted), begun.head)
        folder = find_run_dir(begun.store.root, at.run)
        return read_run(folder, store_root=begun.store.root), False
    found = launch.announced(begun.store.layout, begun.launch)
    if found is None or begun.launch.restart <= int(found.get("restart", 0)):
        return None
    try:
        folder = find_run_dir(begun.store.root, str(found.get("run")))
        run = read_run(folder, store_root=begun.store.root)
        resume.require_same_config(run, begun.composed, begun.settings, begun.seed)
    except (NotFound, Refused):
        return None
    return (run, True) if run.state is not RunState.FINISHED else None


def _resume(begun: Start, found: tuple[Run, bool], pin: Pin) -> Handle:
    run, assume_dead = found
    resume.require_same_config(run, begun.composed, begun.settings, begun.seed)
    source = None
    if run.fork is not None and run.fork.step is not None:
        source = (find_run_dir(begun.store.root, run.fork.run), run.fork.step)
    leave_folder(begun.store, begun.job)
    joined = resume.join_run(begun.store, run, pin, begun.work_tree, assume_dead=assume_dead)
    _announce(begun, joined.layout)
    handle = _handle(begun, joined.layout, joined.attempt, joined.book, joined.status, source)
    parent = None
    if run.parent is not None:
        try:
            folder = find_run_dir(begun.store.root, run.parent.run)
            parent = read_run(folder, store_root=begun.store.root)
        except (NotFound, Corrupt):
            parent = None  # removed since: the run goes on without its measure
    _introduce(begun, handle, joined.attempt, parent, fork="")
    for warning in joined.warnings:
        handle.console.warning(warning)
    return handle


def _new(begun: Start, pin: Pin) -> Handle:
    at = source = None
    if begun.settings["fork"]:
        at = resume.find_run(begun.store, str(begun.settings["fork"]), begun.head)
        source = resume.fork_source(begun.store, at)
        at = RunAt(run=at.run, step=source[1])
    found = find_parent(begun.store, begun.git_dir, at)
    identity = Identity(
        experiment=begun.experiment,
        variant=begun.variant,
        seed=begun.seed,
        objective=begun.objective,
        parent=found[0] if found is not None else None,
        fork=at,
        settings=begun.settings,
        labels=begun.labels,
    )
    layout, attempt = begin_run(
        begun.store, begun.job, identity, begun.composed, pin, begun.work_tree
    )
    _remove_sweep_file(begun)
    _announce(begun, layout)
    status = Status(attempt=attempt.number)
    handle = _handle(begun, layout, attempt, SeriesBook(), status, source)
    fork = f"{at.run[:4]}@{at.step}" if at is not None else ""
    _introduce(begun, handle, attempt, found[1] if found is not None else None, fork=fork)
    return handle


def _remove_sweep_file(begun: Start) -> None:
    """Remove multirun.yaml, which Hydra writes unredacted into the folder of a sweep."""
    if begun.job.is_sweep:
        (begun.store.root / "multirun.yaml").unlink(missing_ok=True)


def _announce(begun: Start, layout: RunLayout) -> None:
    path = layout.root.relative_to(begun.store.root).as_posix()
    launch.announce(begun.store.layout, begun.launch, run=layout.id, path=path)


def _beside(begun: Start) -> QuietRun:
    """Return the handle of a rank beside rank 0."""
    found = launch.wait_for_rank_0(begun.store.layout, begun.launch)
    run = read_run(begun.store.root / str(found["path"]), store_root=begun.store.root)
    leave_folder(begun.store, begun.job)
    source = None
    if run.fork is not None and run.fork.step is not None:
        source = (find_run_dir(begun.store.root, run.fork.run), run.fork.step)
    last = run.attempt
    return QuietRun(
        layout=RunLayout(begun.store.root / run.path),
        rank=begun.launch.rank,
        attempt=last.number if last is not None else 1,
        resumed_from=last.resumed_from if last is not None else None,
        fork=source,
        objective=begun.objective,
        settings=begun.settings,
    )


def _handle(
    begun: Start,
    layout: RunLayout,
    attempt: Attempt,
    book: SeriesBook,
    status: Status,
    source: tuple[Path, int] | None,
) -> Handle:
    console = Console(
        mode=begun.settings["print"],
        log_path=layout.attempt(attempt.number) / "log.txt",
        redactor=begun.composed.redactor,
    )
    return Handle(
        begun.store,
        layout,
        experiment=begun.experiment,
        variant=begun.variant,
        seed=begun.seed,
        attempt=attempt,
        objective=begun.objective,
        settings=begun.settings,
        fork=source,
        book=book,
        status=status,
        console=console,
        redactor=begun.composed.redactor,
    )


def _introduce(
    begun: Start, handle: Handle, attempt: Attempt, parent: Run | None, *, fork: str
) -> None:
    settings, seed_key = begun.settings, begun.settings["seed_key"]
    keys: list[tuple[str, object, object]] = []
    if parent is not None:
        ignore = settings["digest"]["ignore"]
        keys = differing_keys(begun.composed.canonical, parent, ignore=ignore, seed_key=seed_key)
    lines = [
        intro.head_line(
            begun.name,
            handle.id,
            begun.seed,
            attempt=attempt.number,
            resumed_from=attempt.resumed_from,
            fork=fork,
        ),
        *intro.parent_lines(
            parent,
            keys,
            run=handle.id,
            same_seed=parent is not None and parent.seed == begun.seed,
        ),
        intro.code_line(attempt.pin),
        intro.objective_line(begun.objective, parent, settings["noise"]),
        intro.path_line(handle.dir),
    ]
    handle.console.introduce(
        lines,
        experiment=begun.name,
        run=handle.id[:4],
        objective=begun.objective,
        base_name=parent.id[:4] if parent is not None else "",
        base_values=_base_values(begun, parent),
        latest=handle.latest,
    )
    for why in attempt.pin.reasons if attempt.pin.commit or attempt.pin.snapshot else ():
        handle.console.warning(why)
    added = [key for key, old, _ in keys if old is ABSENT] if parent is not None else None
    _warn_of_added(begun, handle, added)


def _base_values(begun: Start, parent: Run | None) -> dict[int, float]:
    if parent is None or begun.objective is None:
        return {}
    problems: list[str] = []
    table = points.read_series(
        begun.store.root / parent.path, [begun.objective.metric], problems=problems
    )
    return dict(zip(table["step"].to_pylist(), table["value"].to_pylist(), strict=True))


def _warn_of_added(begun: Start, handle: Handle, added: list[str] | None) -> None:
    """Warn of keys that no base config knows; a parent that has them too says nothing about a typo."""
    keys = list(begun.composed.flat) if added is None else added
    if not keys:
        return
    for key, near in added_keys(begun.job, keys, begun.settings["experiment_key"]).items():
        guess = f": a typo of {near}?" if near else ": a typo?"
        handle.console.warning(f"this run ADDS {key}, which its base lacks{guess}")
