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
from expdb.actions.run.begun import Exit, Taken
from expdb.actions.run.gpus import Gpus
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
    gpus: Gpus


class Process:
    """A job that runs in a process of this one; see `begun.Begun`."""

    queued_as = ""

    def __init__(
        self,
        job: Job,
        child: subprocess.Popen[bytes],
        place: Place | None,
        own: ExitStack,
        log: Path,
    ) -> None:
        self.job, self.log = job, log
        self._child, self._place, self._own = child, place, own
        self._start = owner.process_start(child.pid)
        self._began = time.monotonic()

    def began(self) -> float:
        """Return when it began to run, by the monotonic clock."""
        return self._began

    def exit(self) -> Exit | None:
        """Return how it ended; None before that."""
        status = self._child.poll()
        if status is None:
            return None
        return Exit(status=status, said=said_of(status))

    def finish(self, store: Store) -> Recorded | None:
        """Give back what it had, once it has ended, and return the run that it recorded."""
        end_group(self._child.pid)
        self._child.wait()
        who = {**owner.describe(), "pid": self._child.pid, "start": self._start}
        work_tree = "" if self._place is None else str(self._place.tree.git_dir)
        found = recorded_by(store, work_tree=work_tree, who=who)
        self._own.close()
        return found

    def stop(self, *, at_once: bool) -> None:
        """Have it save and end, or end it."""
        with suppress(ProcessLookupError):
            self._child.send_signal(signal.SIGKILL if at_once else signal.SIGTERM)

    def leave(self) -> None:
        """Have it save and end: it cannot go on without this process."""
        self.stop(at_once=False)

    def abandon(self, store: Store) -> None:
        """End it at once, and give back what it had."""
        self.finish(store)


def said_of(status: int) -> str:
    """Return an exit status in words."""
    return f"ended by signal {-status}" if status < 0 else f"exit {status}"


def begin(site: Site, taken: Taken) -> Process:
    """Start the process of a job; what is made for it goes when its stack is closed.

    Raises:
        Refused: git cannot write all of the code, or does not hold the folder of the script.
        OSError: there is no room, or the program is not there.
    """
    job = taken.job
    log = jobs.log_path(site.store.layout, job.key)
    log.unlink(missing_ok=True)
    place = place_of(site, taken)
    device = taken.own.enter_context(site.gpus.one())
    # What a script prints is not redacted, as what a run keeps is: it is for its owner alone.
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        child = subprocess.Popen(
            program(job.argv),
            cwd=folder_of(site, place),
            env={**_environment(site, place), **device},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=with_parent(signal.SIGTERM),
        )
    if place is not None:
        with suppress(OSError):  # a full disk stops no job
            place.hold(child.pid)
    return Process(job, child, place, taken.own, log)


def place_of(site: Site, taken: Taken, *, within: Path | None = None) -> Place | None:
    """Make the work tree of a job; None where it runs in the user's own folder.

    `within` is the folder it is made in, else that for temporary files.

    Raises:
        Refused: git cannot write all of the code.
    """
    if site.worktree is None or site.source.commit is None:
        return None
    made = throwaway(site.worktree, site.source.commit, prefix=JOB, within=within)
    place = taken.own.enter_context(made)
    # The parent of a new run is where the work tree came from.
    write_head(place.tree.git_dir, read_head(site.worktree.git_dir))
    return place


def folder_of(site: Site, place: Place | None) -> Path:
    """Return the folder that the command of a job is started in.

    Raises:
        Refused: git does not hold it.
    """
    if place is None or site.worktree is None:
        return site.folder
    inside = site.folder.resolve().relative_to(site.worktree.top.resolve())
    folder = place.tree.top / inside
    if not folder.is_dir():
        raise Refused("git does not hold the folder of the script: is it ignored?")
    return folder


def _environment(site: Site, place: Place | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in NOT_PASSED}
    return {**kept, **variables_of(site, place)}


def variables_of(site: Site, place: Place | None) -> dict[str, str]:
    """Return the variables that a job has other than this process."""
    root = str(site.store.root.absolute())
    found = {"EXPDB_STORE": root, jobs.VARIABLE: root}
    paths = os.environ.get("PYTHONPATH")
    if place is not None and site.worktree is not None and paths:
        # What is imported from this work tree is to be the pinned code too.
        found["PYTHONPATH"] = os.pathsep.join(
            _moved(entry, site.worktree.top, place.tree.top) for entry in paths.split(os.pathsep)
        )
    return found


def _moved(entry: str, top: Path, to: Path) -> str:
    """Return a folder of one work tree as it lies in another; what lies elsewhere as it is."""
    path = Path(entry).absolute()
    if not entry or not path.is_relative_to(top):
        return entry
    return str(to / path.relative_to(top))
