"""The process of one job: its work tree, its environment, and where its output goes.

Invariant: what is made for a job is given back by its stack, in reverse: the work tree, the claim.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from expdb.actions.child import end_group, program, with_parent
from expdb.actions.place import Place, throwaway
from expdb.actions.run.recorded import Recorded, recorded_by
from expdb.actions.run.results import Job, Source
from expdb.errors import Refused
from expdb.git.worktree import WorkTree
from expdb.store import jobs, owner
from expdb.store.head import read_head, write_head
from expdb.store.locate import JOB
from expdb.store.probing import VARIABLE as PROBING
from expdb.store.store import Store

NOT_PASSED: Final = ("EXPDB_LAUNCH", PROBING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where jobs come from, and where their runs go."""

    store: Store
    folder: Path
    """Where the command is started, in the user's work tree."""
    worktree: WorkTree | None
    source: Source


@dataclass(slots=True, kw_only=True)
class Process:
    """A job that runs."""

    job: Job
    child: subprocess.Popen[bytes]
    start: int | None
    """When its process started, in clock ticks since boot."""
    place: Place | None
    own: ExitStack
    began: float
    """By the monotonic clock, in seconds."""
    log: Path

    def finish(self, store: Store) -> Recorded | None:
        """Give back what it had, once it has ended, and return the run that it recorded."""
        end_group(self.child.pid)
        self.child.wait()
        work_tree = "" if self.place is None else str(self.place.tree.git_dir)
        found = recorded_by(store, work_tree=work_tree, pid=self.child.pid, start=self.start)
        self.own.close()
        return found


def begin(site: Site, job: Job, own: ExitStack) -> Process:
    """Start the process of a job; what is made for it goes when `own` is closed.

    Raises:
        Refused: git cannot write all of the code, or does not hold the folder of the script.
        OSError: there is no room, or the program is not there.
    """
    log = jobs.log_path(site.store.layout, job.key)
    log.unlink(missing_ok=True)
    place = _place(site, own)
    # What a script prints is not redacted, as what a run keeps is: it is for its owner alone.
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        child = subprocess.Popen(
            program(job.argv),
            cwd=_folder(site, place),
            env=_environment(site, place),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=with_parent(signal.SIGTERM),
        )
    if place is not None:
        with suppress(OSError):  # a full disk stops no job
            place.hold(child.pid)
    return Process(
        job=job,
        child=child,
        start=owner.process_start(child.pid),
        place=place,
        own=own,
        began=time.monotonic(),
        log=log,
    )


def _place(site: Site, own: ExitStack) -> Place | None:
    """Make the work tree of a job; None where it runs in the user's own folder.

    Raises:
        Refused: git cannot write all of the code.
    """
    if site.worktree is None or site.source.commit is None:
        return None
    place = own.enter_context(throwaway(site.worktree, site.source.commit, prefix=JOB))
    # The parent of a new run is where the work tree came from.
    write_head(place.tree.git_dir, read_head(site.worktree.git_dir))
    return place


def _folder(site: Site, place: Place | None) -> Path:
    if place is None or site.worktree is None:
        return site.folder
    inside = site.folder.resolve().relative_to(site.worktree.top.resolve())
    folder = place.tree.top / inside
    if not folder.is_dir():
        raise Refused("git does not hold the folder of the script: is it ignored?")
    return folder


def _environment(site: Site, place: Place | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in NOT_PASSED}
    if place is not None and site.worktree is not None and kept.get("PYTHONPATH"):
        # What is imported from this work tree is to be the pinned code too.
        kept["PYTHONPATH"] = os.pathsep.join(
            _moved(entry, site.worktree.top, place.tree.top)
            for entry in kept["PYTHONPATH"].split(os.pathsep)
        )
    root = str(site.store.root.absolute())
    return {**kept, "EXPDB_STORE": root, jobs.VARIABLE: root}


def _moved(entry: str, top: Path, to: Path) -> str:
    """Return a folder of one work tree as it lies in another; what lies elsewhere as it is."""
    path = Path(entry).absolute()
    if not entry or not path.is_relative_to(top):
        return entry
    return str(to / path.relative_to(top))
