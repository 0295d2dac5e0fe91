"""`expdb probe throughput|loader|memory|lr`: the user's script, measured inside its `expdb.Loop`.

The script runs in the work tree as it stands, so that data which git does not hold are there, with
its store in a folder for temporary files:

    <temp>/expdb-probe-<random>/owner.json     who made it
    <temp>/expdb-probe-<random>/task.json      what to measure: store/probing.py
    <temp>/expdb-probe-<random>/store/

Invariant: `plan_probe` starts nothing; nothing of a probe is in the user's store or repository, and
its folder is gone when it ends. What SIGKILL left is removed by the next probe.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expdb.actions.place import OWNER
from expdb.actions.probe.again import last_lines, run_again
from expdb.actions.rerun import plan_rerun
from expdb.errors import BadInput, Corrupt, NotFound, Refused
from expdb.index.reader import Reader
from expdb.model import Run
from expdb.store import owner, probing
from expdb.store.files import read_json, write_json
from expdb.store.locate import PROBE
from expdb.store.resolve import Resolved
from expdb.store.store import open_store
from expdb.text import plain

STOP_AT = 20
"""A loop that is none of ours ends when it logs at this step; ours when all is measured."""
TAIL = 8
NOT_TAKEN = ("expdb.resume", "expdb.fork", "expdb.store", "expdb.mode")
"""Overrides that would have a probe start from elsewhere, or record elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlan:
    """The command that is measured."""

    argv: tuple[str, ...]
    cwd: Path
    name: str
    """What people call it: an experiment, or a run with its id."""
    code: str = ""
    """How the code has changed since the run, where it is of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came of it."""

    plan: ProbePlan
    found: Mapping[str, Any]
    seconds: float


def plan_declared(
    name: str, command: str, places: Sequence[Path], overrides: Sequence[str]
) -> ProbePlan:
    """Return the probe of a declared experiment, by the command that trains it.

    Raises:
        BadInput: an override makes no sense here.
        NotFound: its script is in none of the places.
    """
    _check(overrides)
    argv = shlex.split(command)
    for place in places:
        if (place / argv[1]).is_file():
            return ProbePlan(argv=(*argv, *overrides), cwd=place, name=name)
    raise NotFound(f"{plain(argv[1])} is not found from here", hint="go to the folder it lies in")


def plan_run(reader: Reader, resolved: Resolved, overrides: Sequence[str], here: Path) -> ProbePlan:
    """Return the probe of a run, by its recorded command and the code of now.

    Raises:
        BadInput, Refused: as of `rerun`.
    """
    _check(overrides)
    plan = plan_rerun(reader, resolved, overrides)
    return ProbePlan(
        argv=plan.argv,
        cwd=Path(plan.cwd) if plan.cwd else here,
        name=_name(plan.run),
        code=plan.code,
    )


def measure(
    plan: ProbePlan, task: Mapping[str, Any], *, tell: Callable[[int | None], None] | None = None
) -> Measured:
    """Run the script until what the task asks for is measured.

    `tell` is given the updates done so far, None before the first, twice a second.

    Raises:
        Refused: the script ended before; the last lines it printed are named.
        KeyboardInterrupt: it was stopped by hand; nothing is left.
    """
    began = time.monotonic()
    with _folder() as folder:
        store, output = folder / "store", folder / "output.txt"
        open_store(store, create=True)
        probing.write_task(store, task)

        def tick() -> None:
            if tell is not None:
                tell(probing.read_progress(store))

        status = run_again(
            plan.argv, cwd=plan.cwd, store=store, stop_at=STOP_AT, output=output, tick=tick
        )
        found = probing.read_found(store)
        if found is None:
            raise _failed(status, output, has_run=any(store.glob("exp=*/run=*")))
    return Measured(plan=plan, found=found, seconds=time.monotonic() - began)


def _check(overrides: Sequence[str]) -> None:
    for word in overrides:
        key = word.lstrip("+~").partition("=")[0]
        if key in NOT_TAKEN:
            raise BadInput(
                f"{plain(key)} has no place in a probe: it starts from scratch, elsewhere"
            )
        if word.startswith("-") or ("=" not in word and not word.startswith("~")):
            raise BadInput(
                f"{plain(word)} is no override", hint="an override is KEY=VALUE, +KEY=VALUE or ~KEY"
            )


def _name(run: Run) -> str:
    return f"{run.id} {run.name}"


def _failed(status: int, output: Path, *, has_run: bool) -> Refused:
    lines = tuple(map(plain, last_lines(output, TAIL)))
    if status == 0:
        what = "trained" if has_run else "ended"
        return Refused(
            f"the script {what} without an expdb.Loop, so there was nothing to measure in it",
            details=lines,
            hint="for update in expdb.Loop(run, state, ...): a probe looks at its updates",
        )
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    return Refused(
        f"the script ended {how} before all was measured",
        details=lines,
        hint="run it as it is and see: what fails there fails here",
    )


@contextmanager
def _folder() -> Iterator[Path]:
    """Make the folder of a probe; it is gone when the block ends."""
    _clear(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PROBE))
    try:
        write_json(folder / OWNER, owner.describe(), durable=False)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _clear(within: Path) -> None:
    """Remove what killed probes have left; one with a work tree is git's to remove first."""
    for folder in within.glob(f"{PROBE}*"):
        try:
            known = read_json(folder / OWNER)
        except (OSError, Corrupt):
            continue
        if not (folder / folder.name).exists() and not known.get("kept") and owner.is_dead(known):
            shutil.rmtree(folder, ignore_errors=True)
