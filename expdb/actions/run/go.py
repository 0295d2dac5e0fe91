"""`expdb run`: the jobs of a plan are taken, their code is pinned once, and they are worked off.

Invariant: the work tree, git's index, HEAD, branch and stash of the user stay as they are; nobody
else trains what is taken here; what is not done can be done by the same command again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Literal

from expdb.actions.run.begun import Taken
from expdb.actions.run.gpus import Gpus, devices_for
from expdb.actions.run.process import Site, begin
from expdb.actions.run.results import Ended, Job, RunPlan, RunResult, Source
from expdb.actions.run.workers import Begin, Tell, Workers
from expdb.errors import Conflict, Refused
from expdb.git.stores import pinning
from expdb.git.worktree import Unavailable, WorkTree, find_worktree
from expdb.index.reader import open_reader
from expdb.store import jobs
from expdb.store.ops import find_unfinished
from expdb.store.store import Store
from expdb.text import plain
from expdb.track.pin import pin_code

IN_PLACE = "--in-place"
On = Literal["local", "slurm"]


def pin_jobs(
    store: Store, worktree: WorkTree | Unavailable, plan: RunPlan, *, in_place: bool = False
) -> Source:
    """Return the code of the jobs: a commit of the work tree as it stands, kept in git.

    Raises:
        Refused: a change of this work tree was cut off, its edits are not to be trained, or the
            code cannot be captured.
    """
    if isinstance(worktree, Unavailable):
        return Source(why_in_place=worktree.reason)
    op = find_unfinished(worktree.git_dir, store.layout)
    if op is not None:
        raise Refused(
            f"{op.what} stopped before its end (op {op.id})",
            hint="finish it: expdb rollback --continue       take it back: expdb rollback --abort",
        )
    if in_place:
        return Source(why_in_place=IN_PLACE)
    with pinning(worktree, store.id, store.root):
        pin = pin_code(worktree, store_root=store.root, code=plan.code, dirty=plan.dirty)
    if pin.tree is None or (pin.snapshot or pin.commit) is None:
        raise Refused(
            f"the code cannot be kept as a commit: {'; '.join(map(plain, pin.reasons))}",
            hint="train in this work tree as it stands: expdb run --in-place",
        )
    return Source(pin=pin)


def run_jobs(
    store: Store,
    plan: RunPlan,
    *,
    workers: int,
    in_place: bool = False,
    on: On = "local",
    announce: Callable[[Source], None],
    tell: Tell,
) -> RunResult:
    """Train what is planned, so many at once, and return what came of it.

    Args:
        store: where the runs go.
        plan: the jobs, in the order in which they are begun.
        workers: so many processes at once, or jobs in SLURM's queue.
        on: where: on this machine, or through SLURM.
        in_place: run them in the user's own work tree.
        announce: told once which code they run.
        tell: told of each beginning and end, and now and then how far it is.

    Raises:
        Refused, BadInput: see `pin_jobs` and `submit.require_slurm`; nothing was started.
    """
    started = time.monotonic()
    start: Begin = begin
    if on == "slurm":
        from expdb.actions.run.submit import require_slurm, submit

        require_slurm(
            {f"--slurm, or expdb.slurm of {plain(job.said)}": job.slurm for job in plan.jobs}
        )
        start = submit
    store.layout.jobs.mkdir(exist_ok=True)
    worktree = find_worktree(plan.folder)
    with ExitStack() as held:
        source = pin_jobs(store, worktree, plan, in_place=in_place)
        mine, others = _take(store, plan, worktree, source, held)
        announce(source)
        tree = worktree if isinstance(worktree, WorkTree) else None
        gpus = Gpus(devices_for(workers) if on == "local" else ())
        site = Site(store=store, folder=plan.folder, worktree=tree, source=source, gpus=gpus)
        leaves = on == "slurm"
        pool = Workers(site, start, workers=workers, tell=tell, hang_up_leaves=leaves)
        ended = pool.work(mine, before=others)
    order = {job.key: at for at, job in enumerate(plan.jobs)}
    return RunResult(
        source=source,
        ended=tuple(sorted(ended, key=lambda one: order[one.job.key])),
        seconds=time.monotonic() - started,
        was_stopped=pool.was_stopped,
    )


def _take(
    store: Store,
    plan: RunPlan,
    worktree: WorkTree | Unavailable,
    source: Source,
    held: ExitStack,
) -> tuple[list[Taken], list[Ended]]:
    """Claim the jobs; return mine with what gives each back, and those that others have or did."""
    here = isinstance(worktree, WorkTree) and bool(source.why_in_place)
    work_tree = str(worktree.git_dir) if here and isinstance(worktree, WorkTree) else ""
    mine: list[Taken] = []
    others: list[Ended] = []
    for job in plan.jobs:
        own = held.enter_context(ExitStack())
        try:
            claim = own.enter_context(jobs.claim(store.layout, job.key, work_tree=work_tree))
        except Conflict as error:
            others.append(Ended(job=job, end="taken", said=error.message))
        else:
            mine.append(Taken(job=job, claim=claim, own=own))
    if not mine:
        return mine, others
    # Whoever had one before may have come to its end since the plan was made.
    done = _done_since(store, [one.job for one in mine])
    for one in mine:
        if one.job.key in done:
            one.own.close()
            others.append(Ended(job=one.job, end="done before", run=done[one.job.key]))
    return [one for one in mine if one.job.key not in done], others


def _done_since(store: Store, planned: Sequence[Job]) -> dict[jobs.Key, str]:
    """Return the jobs whose declared run has a live or finished run that the plan did not know."""
    sql = """
        SELECT experiment, variant, seed, id FROM runs WHERE digest IN (SELECT unnest(?))
        AND state IN ('finished', 'running', 'paused', 'pending')
    """
    by_place = {(job.experiment, job.variant, job.seed): job for job in planned}
    found = {}
    with open_reader(store) as reader:
        for experiment, variant, seed, run in reader.rows(sql, [[job.digest for job in planned]]):
            job = by_place.get((experiment, variant, seed))
            if job is not None and run not in job.known and run != job.resumes:
                found[job.key] = run
    return found
