"""Whether a run is alive in a work tree; its files must not change under it."""

from __future__ import annotations

from pathlib import Path

from expdb.actions.naming import named
from expdb.errors import Corrupt, ExpdbError, Refused
from expdb.index.reader import Reader
from expdb.model import Run, RunState
from expdb.query.runs import run_rows
from expdb.store import owner
from expdb.store.files import read_json
from expdb.store.layout import RunLayout
from expdb.store.runs import read_run, run_dirs
from expdb.store.store import Store

LIVE = frozenset({RunState.RUNNING, RunState.PENDING})


def require_idle(reader: Reader, git_dir: Path, *, aside: str = "") -> None:
    """Refuse while a run of this work tree is alive or pending; `aside` is for a hint.

    Raises:
        Refused: one is.
    """
    for row in run_rows(reader):
        if row.state in LIVE:
            run = reader.run(row.id)
            if _is_here(run, git_dir):
                _refuse(reader.store, run, aside)


def require_none_started(store: Store, git_dir: Path, *, since_ns: int, aside: str = "") -> None:
    """Refuse when a run of this work tree has changed its status since, and is alive.

    Called once the mark of an op is set: a run that starts later sees the mark and stops.

    Raises:
        Refused: one is.
    """
    for _, path, version in run_dirs(store.root):
        if version[0] < since_ns:
            continue
        try:
            run = read_run(path, store_root=store.root)
        except ExpdbError:  # being made: without a pin it runs nothing of this work tree yet
            continue
        if _is_here(run, git_dir):
            _refuse(store, run, aside)


def _is_here(run: Run, git_dir: Path) -> bool:
    attempt = run.attempt
    return run.state in LIVE and attempt is not None and attempt.work_tree == str(git_dir)


def _refuse(store: Store, run: Run, aside: str) -> None:
    steps = f"{run.last_step or 0}" + (f"/{run.max_steps}" if run.max_steps else "")
    hints = [f"stop it (it saves a checkpoint first): {_kill(store, run)}"]
    if aside:
        hints.append(f"leave this work tree alone: expdb rollback --worktree {aside}")
    raise Refused(
        f"{named(store, run)} is {run.state} from this work tree (step {steps}); nothing written",
        hint=tuple(hints),
    )


def _kill(store: Store, run: Run) -> str:
    """Return the command that stops a run."""
    attempt = RunLayout(store.root / run.path).attempt(run.attempts[-1].number)
    try:
        who = read_json(attempt / "owner.json")
    except (FileNotFoundError, Corrupt):
        return "kill its process"
    there = "" if owner.same_host(who) else " on its host"
    return f"kill {who.get('pid')}{there}"
