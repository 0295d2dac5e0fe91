"""`expdb resume RUN`: the recorded command again, with `expdb.resume=<id>`."""

from __future__ import annotations

import shlex
from pathlib import Path

from expdb.actions.naming import named, short
from expdb.actions.results import ResumePlan
from expdb.errors import Refused
from expdb.index.reader import Reader
from expdb.model import Run, RunState
from expdb.redact import MARK
from expdb.store.resolve import Resolved
from expdb.store.store import Store

OWN = ("expdb.resume=", "expdb.fork=")
SWEEP = frozenset({"-m", "--multirun"})


def plan_resume(reader: Reader, resolved: Resolved) -> ResumePlan:
    """Return the command that takes up a run again from its newest good checkpoint.

    Another config digest is refused by the run itself, at its start.

    Raises:
        Refused: the run is finished or alive, or its command was recorded without a secret or as a
            sweep, or its script is not found.
    """
    store, run = reader.store, reader.run(resolved.run)
    _check(store, run)
    words = [word for word in run.command if not word.lstrip("+~").startswith(OWN)]
    steps = [item.step for item in run.checkpoints if item.complete]
    step = steps[-1] if steps else None
    broken = [item.step for item in run.checkpoints if not item.complete]
    note = "no checkpoint: starts from scratch" if step is None else f"resumes at step {step}"
    if broken and (step is None or broken[-1] > step):
        note += f" (checkpoint {broken[-1]} is not complete)"
    question = ""
    if run.state is RunState.LOST:
        question = (
            f"{named(store, run)} ran on another host and gave no sign for 10 minutes;"
            " resume it here?"
        )
    return ResumePlan(
        argv=(*words, f"expdb.resume={run.id}"),
        cwd=_cwd(run),
        run=run,
        step=step,
        note=note,
        question=question,
    )


def _check(store: Store, run: Run) -> None:
    who = short(store, run.id)
    if run.state is RunState.FINISHED:
        raise Refused(
            f"{named(store, run)} is finished: there is nothing to resume",
            hint=f"go on from it in a new run: {shlex.join([*run.command, f'expdb.fork={who}'])}",
        )
    if run.state in (RunState.RUNNING, RunState.PENDING):
        raise Refused(
            f"{named(store, run)} is {run.state}",
            hint="wait for its end, or stop it: SIGTERM saves a checkpoint first",
        )
    if not run.command:
        raise Refused(
            f"{named(store, run)} has no recorded command",
            hint=f"start it yourself with expdb.resume={who}",
        )
    if any(MARK in word for word in run.command):
        raise Refused(
            f"the command of {named(store, run)} was recorded without its secret",
            hint=f"give it again yourself, with expdb.resume={who}: expdb show {who}",
        )
    if any(word in SWEEP for word in run.command):
        raise Refused(
            f"{named(store, run)} was one job of a sweep; its command would start the whole sweep",
            hint=f"start it yourself with its overrides and expdb.resume={who}: expdb show {who}",
        )


def _cwd(run: Run) -> str:
    """Return the folder that the command's script is found from; empty for the current one.

    Raises:
        Refused: the script is found from none that is known.
    """
    script = next((word for word in run.command[1:] if not word.startswith("-")), "")
    if not script.endswith(".py") or Path(script).is_file():
        return ""
    attempt = run.attempt
    work_tree = "" if attempt is None else attempt.work_tree
    top = _top_of(Path(work_tree)) if work_tree else None
    if top is not None and (top / script).is_file():
        return str(top)
    raise Refused(
        f"{script} is not found from here; the run was started in another folder",
        hint="go to the folder it was started in, then again",
    )


def _top_of(git_dir: Path) -> Path | None:
    """Return the top of the work tree whose git directory this is."""
    if git_dir.name == ".git":
        return git_dir.parent
    try:
        return Path((git_dir / "gitdir").read_text().strip()).parent
    except OSError:
        return None
