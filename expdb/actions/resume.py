"""`expdb resume RUN`: the recorded command again, with `expdb.resume=<id>`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from expdb.actions.naming import named
from expdb.actions.results import ResumePlan
from expdb.errors import Refused
from expdb.index.reader import Reader
from expdb.model import Run, RunState
from expdb.redact import MARK
from expdb.store.going_on import require_step
from expdb.store.resolve import Resolved
from expdb.text import plain, short_id

OWN = frozenset(
    f"expdb.{name}" for name in ("resume", "fork", "assume_dead", "skip_batches", "lr_scale")
)
"""Overrides that say where a run starts from, and what changes there; each command has its own."""
SWEEP = frozenset({"-m", "--multirun"})


def plan_resume(
    reader: Reader, resolved: Resolved, *, skip_batches: int = 0, lr_scale: float = 1.0
) -> ResumePlan:
    """Return the command that takes up a run again, from the step named, else from its newest good
    checkpoint.

    `skip_batches` leaves out the data of so many updates there, `lr_scale` multiplies every
    learning rate from there on. Another config digest is refused by the run itself, at its start.

    Raises:
        Refused: the run is alive, or finished and no earlier step is named, or the checkpoint is
            damaged, or its command was recorded without a secret or as a sweep, or is no Python
            script, or its script is not found.
    """
    run, at = reader.run(resolved.run), resolved.step
    _check(run, reader.id_length, at=at)
    words = own_words(run.command)
    if at is not None:
        require_step(reader.store, run, at)
    step, note = _start(run, at)
    question = ""
    own = [f"expdb.resume={run.id}" + (f"@{at}" if at is not None else "")]
    if skip_batches:
        own.append(f"expdb.skip_batches={skip_batches}")
        noun = "1 update" if skip_batches == 1 else f"{skip_batches:,} updates"
        note += f", without the data of {noun}"
    if lr_scale != 1.0:
        own.append(f"expdb.lr_scale={lr_scale!r}")
        note += f", learning rate times {lr_scale:.6g}"
    if run.state is RunState.LOST:
        own.append("expdb.assume_dead=true")  # what a yes to the question says
        question = (
            f"{named(run, reader.id_length)} ran on another host and gave no sign for 10 minutes;"
            " resume it here?"
        )
    return ResumePlan(
        argv=(*words, *own),
        cwd=start_folder(run, reader.store.root, again=f"expdb.resume={run.id}"),
        run=run,
        step=step,
        note=note,
        question=question,
    )


def _start(run: Run, at: int | None) -> tuple[int | None, str]:
    """Return the step that a run goes on from, and a line about it."""
    if at is not None:
        hidden = (run.last_step or 0) > at
        later = f"; what it logged after step {at} will be hidden, and kept" if hidden else ""
        return at, f"resumes at step {at}{later}"
    step = run.usable[-1].step if run.usable else None
    broken = [item.step for item in run.checkpoints if not item.complete]
    note = "no checkpoint: starts from scratch" if step is None else f"resumes at step {step}"
    if broken and (step is None or broken[-1] > step):
        note += f" (checkpoint {broken[-1]} is not complete)"
    return step, note


def _check(run: Run, id_cells: int, *, at: int | None) -> None:
    who, name = short_id(run.id, id_cells), named(run, id_cells)
    if run.state is RunState.FINISHED and (at is None or at >= (run.last_step or 0)):
        earlier = [item.step for item in run.usable if item.step < (run.last_step or 0)]
        back = f"expdb resume {who}@{earlier[-1]}" if earlier else ""
        raise Refused(
            f"{name} is finished: there is nothing to resume",
            hint=(
                f"go on from it in a new run: {shlex.join([*run.command, f'expdb.fork={who}'])}",
                *([f"go back to an earlier step of it: {back}"] if back else []),
            ),
        )
    if run.state.is_live:
        if run.state is RunState.PAUSED:
            raise Refused(f"{name} is paused", hint=f"let it go on: expdb ctl {who} go")
        raise Refused(
            f"{name} is {run.state}",
            hint=f"wait for its end, or stop it (it saves first): expdb ctl {who} stop",
        )
    require_command(run, id_cells, again=f"expdb.resume={who}")


def own_words(command: Sequence[str]) -> tuple[str, ...]:
    """Return a recorded command without what says where the run starts from."""
    return tuple(word for word in command if word.lstrip("+~").partition("=")[0] not in OWN)


def require_command(run: Run, id_cells: int, *, again: str = "") -> None:
    """Refuse a recorded command that cannot be run again as it stands.

    `again` is the override that a person adds who starts it by hand.

    Raises:
        Refused: there is none, it was recorded without a secret or as a sweep, or it is no Python
            script.
    """
    who, name = short_id(run.id, id_cells), named(run, id_cells)
    with_it = f" with {again}" if again else ""
    look = f"expdb show {who}"
    if not run.command:
        raise Refused(f"{name} has no recorded command", hint=f"start it yourself{with_it}: {look}")
    if not _is_script(run.command):
        raise Refused(
            f"the recorded command of {name} is no Python script: {plain(run.command[0])}",
            hint=f"look at it, then run it yourself{with_it}: {look}",
        )
    if any(MARK in word for word in run.command):
        raise Refused(
            f"the command of {name} was recorded without its secret",
            hint=f"give it again yourself{with_it.replace(' with', ', with')}: {look}",
        )
    if any(word in SWEEP for word in run.command):
        raise Refused(
            f"{name} was one job of a sweep; its command would start the whole sweep",
            hint="start it yourself with its overrides"
            + (f" and {again}" if again else "")
            + f": {look}",
        )


def _is_script(command: Sequence[str]) -> bool:
    """Tell whether a command is one that `start()` records: `python SCRIPT.py ...`.

    A store may come from elsewhere, and what it says must not run as any other program.
    """
    return len(command) > 1 and command[0] == "python" and _is_file_name(command[1])


def _is_file_name(word: str) -> bool:
    return word.endswith(".py") and not word.startswith("-")


def start_folder(run: Run, root: Path, *, again: str = "") -> str:
    """Return the folder that the command's script is found from; empty for the current one.

    `again` is the override that a person adds who starts it by hand.

    Raises:
        Refused: the script is found from none that is known, or lies in the store itself.
    """
    script = run.command[1]
    attempt = run.attempt
    work_tree = "" if attempt is None else attempt.work_tree
    top = _top_of(Path(work_tree)) if work_tree else None
    for folder in (Path(), top):
        if folder is None or not (folder / script).is_file():
            continue
        if (folder / script).resolve().is_relative_to(root.resolve()):
            raise Refused(
                f"{plain(script)} lies in the store itself; a script from there is not run",
                hint="start the run's own script yourself" + (f", with {again}" if again else ""),
            )
        return "" if folder == Path() else str(folder)
    raise Refused(
        f"{plain(script)} is not found from here; the run was started in another folder",
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
