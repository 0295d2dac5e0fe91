"""`expdb probe repro`: the first steps of a run again, from its pin, and whether they are the same.

Invariant: `prepare` writes nothing; `reproduce` leaves the store, the work tree and the repository
of the user as they are.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

from expdb.actions import checks
from expdb.actions.naming import named
from expdb.actions.place import Place, throwaway
from expdb.actions.probe.again import last_lines, run_again
from expdb.actions.resume import require_command
from expdb.errors import BadInput, ExpdbError, NotFound, Refused
from expdb.git.worktree import WorkTree
from expdb.index.reader import Reader
from expdb.model import Attempt, Run
from expdb.query.compare_results import ConfigDiff, NamedDiff
from expdb.query.diffs import config_diff, data_diff, environment_diff
from expdb.query.series_match import SeriesMatch, match, points_of
from expdb.store import checkpoints
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.locate import PROBE
from expdb.store.packages import DIGEST
from expdb.store.resolve import Resolved
from expdb.store.runs import find_run_dir, read_run
from expdb.store.store import open_store
from expdb.text import plain, short_id

STEPS = 50
FEW = 5
"""At least so many recorded steps are repeated, however far apart they lie."""
DROPPED = frozenset({"expdb.resume", "expdb.assume_dead", "expdb.store", "expdb.print"})
TAIL = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproPlan:
    """What is repeated, and from what."""

    run: Run
    run_dir: Path
    store_root: Path
    attempt: Attempt
    commit: str
    """The commit whose tree is the code."""
    argv: tuple[str, ...]
    script: str
    stop_at: int
    """Steps below it are compared."""
    start: int
    """The step that the run began at: that of a fork, else 0."""
    source: Path | None
    """The folder of the run that it was forked from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repro:
    """What came of a repetition."""

    plan: ReproPlan
    match: SeriesMatch
    config: tuple[ConfigDiff, ...]
    environment: tuple[NamedDiff, ...]
    data: tuple[NamedDiff, ...]
    code: tuple[str, ...]
    """Files of the repository that both imported, with other content."""
    seconds: float
    kept: str = ""
    """The folder with work tree and store, where it was to stay."""


def prepare(
    reader: Reader, worktree: WorkTree, resolved: Resolved, *, steps: int | None = None
) -> ReproPlan:
    """Return what a repetition of the first `steps` steps of a run would do.

    Raises:
        Refused: the code is not pinned or not all there, the command was not recorded or cannot be
            run again, it ran in several processes, or it logged nothing.
        NotFound: the commit is not in this repository, or the run it was forked from is gone.
        BadInput: a step was named.
    """
    run = reader.run(resolved.run)
    who = named(run, reader.id_length)
    look = f"expdb show {short_id(run.id, reader.id_length)}"
    if resolved.step is not None:
        raise BadInput("a run is repeated from its first step: name it without a step")
    if not run.attempts:
        raise Refused(f"{who} has no record of its start", hint=look)
    first = run.attempts[0]
    commit, _ = checks.require_code(reader, worktree, run, first.pin)
    if not first.pin.reproducible:
        raise Refused(f"{who} cannot be repeated: {'; '.join(first.pin.reasons)}", hint=look)
    require_command(run, reader.id_length)
    ranks = first.environment.get("world_size", "1")
    if ranks != "1":
        raise Refused(f"{who} ran in {plain(ranks)} processes; its command starts one", hint=look)
    run_dir = reader.store.root / run.path
    start = (run.fork.step or 0) if run.fork is not None else 0
    return ReproPlan(
        run=run,
        run_dir=run_dir,
        store_root=reader.store.root,
        attempt=first,
        commit=commit,
        argv=_words(run),
        script=run.command[1],
        stop_at=_stop_at(run_dir, first.number, start, steps, who),
        start=start,
        source=_source(reader, run, who),
    )


def reproduce(
    worktree: WorkTree, plan: ReproPlan, *, rtol: float, keep: bool = False, here: Path
) -> Repro:
    """Do the first steps again, and compare; `here` is the folder that the command is found from.

    Raises:
        Refused: the script failed before it got there; the last lines it printed are named.
        KeyboardInterrupt: it was stopped by hand; nothing is left.
    """
    started = time.monotonic()
    with throwaway(worktree, plan.commit, prefix=PROBE, keep=keep) as place:
        open_store(place.store, create=True)
        cwd = _folder(worktree, plan, place, here)
        if plan.source is not None:
            _lend(plan.source, place.store)
        _lend_packages(plan, StoreLayout(place.store))
        output = place.folder / "output.txt"
        status = run_again(
            plan.argv, cwd=cwd, store=place.store, stop_at=plan.stop_at, output=output
        )
        again = _found(plan, place, status, output)
        first = points_of(plan.run_dir, attempt=plan.attempt.number, below=plan.stop_at)
        second = points_of(
            place.store / again.path, attempt=again.attempts[0].number, below=plan.stop_at
        )
        reached = max((step for step, _ in second), default=-1)
        if status != 0 and reached < max(step for step, _ in first):
            raise _failed(plan, status, output, f"after step {reached}" if second else "")
        return _result(plan, again, StoreLayout(place.store), match(first, second, rtol=rtol),
                       time.monotonic() - started, str(place.folder) if keep else "")  # fmt: skip


def _result(
    plan: ReproPlan, again: Run, store: StoreLayout, found: SeriesMatch, seconds: float, kept: str
) -> Repro:
    pair = (replace(plan.run, attempts=(plan.attempt,)), again)
    here, there = plan.attempt.pin.used, again.pin.used
    return Repro(
        plan=plan,
        match=found,
        config=tuple(diff for diff in config_diff(pair) if diff.differs),
        environment=tuple(d for d in environment_diff(pair, store) if len(set(d.values)) > 1),
        data=tuple(diff for diff in data_diff(pair) if len(set(diff.values)) > 1),
        code=tuple(sorted(path for path in here if there.get(path, here[path]) != here[path])),
        seconds=seconds,
        kept=kept,
    )


def _words(run: Run) -> tuple[str, ...]:
    """Return the recorded command without what says where it records; a fork by its full id."""
    words = []
    for word in run.command:
        name = word.lstrip("+~").partition("=")[0]
        if name in DROPPED:
            continue
        if name == "expdb.fork" and run.fork is not None:
            word = f"{word.partition('=')[0]}={run.fork.run}@{run.fork.step}"
        words.append(word)
    return tuple(words)


def _stop_at(run_dir: Path, attempt: int, start: int, steps: int | None, who: str) -> int:
    logged = sorted({step for step, _ in points_of(run_dir, attempt=attempt, below=2**62)})
    if not logged:
        raise Refused(f"{who} logged nothing to compare with")
    if steps is not None:
        stop_at = start + steps
        if stop_at <= logged[0]:
            raise BadInput(f"{who} logged nothing in its first {steps:,} steps")
        return min(stop_at, logged[-1] + 1)
    few = logged[min(FEW, len(logged)) - 1] + 1
    return min(max(start + STEPS, few), logged[-1] + 1)


def _source(reader: Reader, run: Run, who: str) -> Path | None:
    if run.fork is None or run.fork.step is None:
        return None
    try:
        folder = find_run_dir(reader.store.root, run.fork.run)
        checkpoints.verify(RunLayout(folder), run.fork.step)
    except ExpdbError as error:
        raise NotFound(f"what {who} was forked from is not there: {error.message}") from error
    return folder


def _folder(worktree: WorkTree, plan: ReproPlan, place: Place, here: Path) -> Path:
    """Return the folder of the fresh tree that the command is to run in.

    Raises:
        Refused: its script is not in the pinned code.
    """
    top = place.tree.top
    inside = here.resolve()
    if inside.is_relative_to(worktree.top.resolve()):
        inside = top / inside.relative_to(worktree.top.resolve())
        found = (inside / plan.script).resolve()
        if found.is_file() and found.is_relative_to(top.resolve()):
            return inside
    found = (top / plan.script).resolve()
    if found.is_file() and found.is_relative_to(top.resolve()):
        return top
    raise Refused(
        f"{plain(plan.script)} is not in the pinned code as seen from here",
        hint="go to the folder that the run was started in, then again",
    )


def _lend(source: Path, store: Path) -> None:
    """Let a store see the run of another one; it only reads from it."""
    there = store / source.parent.name / source.name
    there.parent.mkdir(parents=True, exist_ok=True)
    there.symlink_to(source, target_is_directory=True)


def _lend_packages(plan: ReproPlan, there: StoreLayout) -> None:
    named_by = DIGEST.fullmatch(plan.attempt.environment.get("packages", ""))
    if named_by is None:
        return
    source = StoreLayout(plan.store_root).packages(named_by[1])
    if source.is_file():
        there.packages(named_by[1]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, there.packages(named_by[1]))


def _found(plan: ReproPlan, place: Place, status: int, output: Path) -> Run:
    """Return the run that the repetition recorded."""
    folders = [
        path.parent for path in place.store.glob("exp=*/run=*/run.json")
        if not path.parent.is_symlink()
    ]  # fmt: skip
    if not folders:
        raise _failed(plan, status, output, "before its run began")
    runs = [read_run(folder, store_root=place.store) for folder in folders]
    return min(runs, key=lambda run: (run.name != plan.run.name, run.created_at_ms))


def _failed(plan: ReproPlan, status: int, output: Path, when: str) -> Refused:
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    return Refused(
        f"the script ended {how}{' ' if when else ''}{when}, so there is nothing to compare",
        details=tuple(map(plain, last_lines(output, TAIL))),
        hint="what git does not hold is not there: ignored files, data beside the code",
    )
