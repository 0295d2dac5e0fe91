"""Whether a run is alive in a work tree; its files must not change under it.

Invariant: no clocks are compared. What was found idle is known by its version and the number of its
attempts; anything else is looked at again once the mark of an op stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from expdb import text
from expdb.actions.naming import named
from expdb.errors import Corrupt, ExpdbError, Refused
from expdb.index.reader import Reader
from expdb.model import Run, RunState
from expdb.store import attempts, jobs, owner
from expdb.store.files import read_json
from expdb.store.layout import RunLayout
from expdb.store.runs import Version, read_run, run_dirs
from expdb.store.store import Store

LIVE = frozenset(state for state in RunState if state.is_live)
NO_STATUS: Version = (0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """The runs that a look found idle; by default none, so that every run is looked at."""

    versions: Mapping[str, Version] = field(default_factory=dict)
    num_attempts: Mapping[str, int] = field(default_factory=dict)
    """Of each run that can be resumed: one more attempt may be alive under the same version."""
    id_cells: int = 4


def require_idle(reader: Reader, git_dir: Path, *, aside: str = "") -> Idle:
    """Refuse while a run of this work tree is alive or pending, else return what was seen.

    Jobs of `expdb run` have work trees of their own, so that they are no matter here, unless they
    were asked to run in this one. `aside` is a folder for a hint.

    Raises:
        Refused: one is.
    """
    sql = """
        SELECT DISTINCT r.id FROM runs r JOIN attempts a ON a.run = r.id
        WHERE r.state IN (SELECT unnest(?)) AND a.work_tree = ?
    """
    for (found,) in reader.rows(sql, [[str(state) for state in LIVE], str(git_dir)]):
        run = reader.run(str(found))
        if _is_here(run, git_dir):
            _refuse(run, aside, reader.id_length)
    _require_none_queued(reader.store, git_dir)
    unfinished = reader.rows("SELECT id, num_attempts FROM runs WHERE state != 'finished'")
    return Idle(versions=reader.versions, num_attempts=dict(unfinished), id_cells=reader.id_length)


def require_none_started(
    store: Store, git_dir: Path, *, idle: Idle | None = None, aside: str = ""
) -> None:
    """Refuse when a run of this work tree is alive that was not found idle before.

    Called once the mark of an op is set: a run that starts later sees the mark and stops.

    Raises:
        Refused: one is.
    """
    idle = idle or Idle()
    _require_none_queued(store, git_dir)
    for run_id, path, version in run_dirs(store.root):
        layout = RunLayout(path)
        if version != NO_STATUS and idle.versions.get(run_id) == version:
            before = idle.num_attempts.get(run_id)
            if before is None or before == len(attempts.numbers(layout)):
                continue
        try:
            run = read_run(path, store_root=store.root)
        except ExpdbError:
            _require_not_starting(store, layout, git_dir)
            continue
        if _is_here(run, git_dir):
            _refuse(run, aside, idle.id_cells)
        if run.state in LIVE:  # a fresh attempt may have no pin yet
            _require_not_starting(store, layout, git_dir)


def _require_none_queued(store: Store, git_dir: Path) -> None:
    """Refuse while a job waits that is to run in this work tree.

    Raises:
        Refused: one does.
    """
    found = [name for name, where in jobs.pending(store.layout).items() if where == str(git_dir)]
    if found:
        count = "1 job waits" if len(found) == 1 else f"{len(found):,} jobs wait"
        raise Refused(
            f"{count} to run in this work tree (expdb run --in-place); nothing written",
            hint="stop that command: Ctrl-C",
        )


def _require_not_starting(store: Store, layout: RunLayout, git_dir: Path) -> None:
    """Refuse while the process that makes this folder is alive, and may run code of the work tree.

    Raises:
        Refused: it is; its pin says so, or is not written yet.
    """
    numbers = attempts.numbers(layout)
    if not numbers or attempts.life(layout, numbers[-1], store_meta=store.layout.meta) != "alive":
        return
    if (layout.attempt(numbers[-1]) / "pin.json").exists():
        try:
            if attempts.read_pin(layout, numbers[-1]).work_tree != str(git_dir):
                return
        except Corrupt:
            pass  # it may be of this work tree
    raise Refused(
        f"run {layout.id} is just starting; nothing written",
        hint=f"wait a moment, then again; or stop it: {_kill(layout, numbers[-1])}",
    )


def _is_here(run: Run, git_dir: Path) -> bool:
    attempt = run.attempt
    return run.state in LIVE and attempt is not None and attempt.work_tree == str(git_dir)


def _refuse(run: Run, aside: str, id_cells: int) -> None:
    steps = f"{run.last_step or 0}" + (f"/{run.max_steps}" if run.max_steps else "")
    stop = f"expdb ctl {run.id[:id_cells]} stop"
    hints = [f"stop it (it saves a checkpoint first): {stop}"]
    if aside:
        hints.append(f"leave this work tree alone: expdb rollback --worktree {aside}")
    who = named(run, id_cells)
    raise Refused(
        f"{who} is {run.state} from this work tree (step {steps}); nothing written",
        hint=tuple(hints),
    )


def _kill(layout: RunLayout, attempt: int) -> str:
    """Return the command that stops a run."""
    try:
        who = read_json(layout.attempt(attempt) / "owner.json")
    except (FileNotFoundError, NotADirectoryError, Corrupt):
        return "kill its process"
    there = "" if owner.same_host(who) else " on its host"
    return f"kill {text.plain(str(who.get('pid')))}{there}"
