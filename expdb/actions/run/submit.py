"""Jobs in SLURM's queue, put there by submitit.

A job has its work tree in the store (`.expdb/jobs/`), as every node has to see it. Its claim and
its place name it, so that they hold as long as it is in the queue, also if this process is gone.

Invariant: a job has left the queue before its work tree goes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Mapping
from contextlib import redirect_stderr, suppress
from difflib import get_close_matches
from io import StringIO
from pathlib import Path
from typing import Any, Final

from expdb.actions.place import OWNER, Place
from expdb.actions.run import on_node
from expdb.actions.run.begun import Exit, Taken
from expdb.actions.run.process import NOT_PASSED, Site, folder_of, place_of, said_of, variables_of
from expdb.actions.run.recorded import Recorded, recorded_by
from expdb.errors import BadInput, Corrupt, Refused
from expdb.store import jobs, owner, programs, slurm
from expdb.store.files import read_json, write_json
from expdb.store.locate import JOB
from expdb.store.store import Store
from expdb.text import plain

FOLDER: Final = "slurm"
SIGNAL_VARIABLE: Final = "SUBMITIT_PREEMPT_SIGNAL"
WARNING_SIGNAL: Final = "USR1"
"""What SLURM sends before the time of a job is over: at it training saves and ends."""


def require_slurm(asked: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse before anything is begun what cannot be put into a queue.

    Args:
        asked: who asks (a flag, an experiment) -> what it asks of SLURM.

    Raises:
        BadInput: submitit is not installed, or knows no such setting.
        Refused: this machine has no SLURM.
    """
    known = _submitit().SlurmExecutor._valid_parameters()
    for who, settings in asked.items():
        for name in settings:
            if name not in known:
                near = get_close_matches(str(name), known, n=1)
                hint = f"nearest: {near[0]}" if near else f"known: {' '.join(sorted(known))}"
                said = f"submitit has no setting {plain(str(name))} ({who})"
                raise BadInput(said, hint=hint)
    if shutil.which("sbatch") is None or shutil.which("srun") is None:
        raise Refused(
            "this machine has no SLURM: sbatch and srun are not there",
            hint="on this machine itself: expdb run",
        )


def _submitit() -> Any:
    """Return submitit.

    Raises:
        BadInput: it is not installed.
    """
    # It reads this when it is loaded, here and on the node.
    os.environ.setdefault(SIGNAL_VARIABLE, WARNING_SIGNAL)
    try:
        import submitit
    except ImportError as error:
        raise BadInput(
            "submitit is not installed in this environment",
            hint="pip install 'expdb-ml[slurm]'",
        ) from error
    return submitit


class Submitted:
    """A job in SLURM's queue; see `begun.Begun`."""

    def __init__(
        self, taken: Taken, place: Place | None, folder: Path, log: Path, job: Any
    ) -> None:
        self.job, self.log = taken.job, log
        self._taken, self._place, self._folder = taken, place, folder
        self._id, self._num_tasks = str(job.job_id), int(job.num_tasks)
        self._began: float | None = None

    @property
    def queued_as(self) -> str:
        """What it is called in the queue."""
        return f"SLURM {self._id}"

    def began(self) -> float | None:
        """Return when it was first seen to run; None while it waits."""
        state = (slurm.states() or {}).get(self._id)
        if self._began is None and state not in (None, slurm.PENDING, "CONFIGURING"):
            self._began = time.monotonic()
        return self._began

    def exit(self) -> Exit | None:
        """Return how it ended; None before that."""
        known = slurm.states()
        if known is None or self._id in known:
            return None
        names = self._names()
        ends = [f"{on_node.END}{task}.json" for task in range(self._num_tasks)]
        found = [self._status(name) for name in ends if name in names]
        if None not in found and len(found) == self._num_tasks:
            status = next((one for one in found if one), 0)
            return Exit(status=status, said=said_of(status or 0))
        said = f"SLURM says {slurm.end_of(self._id) or 'nothing more of it'}"
        if on_node.BEGAN in names:
            return Exit(status=None, said=said)
        if not self._taken.claim.is_held:
            return Exit(status=None, said="another process has it", how="taken")
        return Exit(status=None, said=said, how="not begun")

    def _names(self) -> set[str]:
        try:
            return {path.name for path in self._folder.iterdir()}
        except OSError:
            return set()

    def _status(self, name: str) -> int | None:
        try:
            status = read_json(self._folder / name).get("status")
        except (OSError, Corrupt):
            return None
        return status if isinstance(status, int) else None

    def finish(self, store: Store) -> Recorded | None:
        """Give back what it had, once it has ended, and return the run that it recorded."""
        try:
            who: Mapping[str, Any] = read_json(self._folder / on_node.BEGAN)
        except (OSError, Corrupt):
            who = {}
        work_tree = "" if self._place is None else str(self._place.tree.git_dir)
        found = recorded_by(store, work_tree=work_tree, who=who)
        self._taken.own.close()
        return found

    def stop(self, *, at_once: bool) -> None:
        """Have it save and end where it runs, and take it out of the queue else."""
        with suppress(OSError):
            (self._folder / on_node.STOP).touch()
        if at_once:
            slurm.cancel(self._id)
        else:
            slurm.ask_to_end(self._id)
        slurm.forget()

    def leave(self) -> None:
        """Let it go on without this process: its claim and its place are its own."""
        self._taken.claim.is_left = True
        if self._place is not None:
            self._place.is_left = True
        self._taken.own.pop_all()

    def abandon(self, store: Store) -> None:
        """End it at once, and give back what it had."""
        self.stop(at_once=True)
        until = time.monotonic() + programs.TIMEOUT_S
        while self.exit() is None and time.monotonic() < until:
            time.sleep(0.1)
        self.finish(store)


def submit(site: Site, taken: Taken) -> Submitted:
    """Put a job into the queue; what is made for it goes when its stack is closed.

    Raises:
        Refused: git cannot write all of the code, or SLURM does not take it.
        OSError: there is no room.
    """
    layout = site.store.layout
    log = jobs.log_path(layout, taken.job.key).absolute()
    log.unlink(missing_ok=True)
    within = layout.jobs.absolute()
    place = place_of(site, taken, within=within)
    top = _folder(within, taken) if place is None else place.folder
    folder = top / FOLDER
    folder.mkdir()
    told = on_node.Told(
        argv=taken.job.argv,
        cwd=str(folder_of(site, place).absolute()),
        environment=variables_of(site, place),
        without=tuple(NOT_PASSED),
        log=str(log),
        claim=str(taken.claim.path.absolute()),
        token=taken.claim.token,
        folder=str(folder),
    )
    job = _put(told, folder, taken.job.said, taken.job.slurm)
    slurm.forget()
    queued = slurm.describe(str(job.job_id))
    taken.claim.add({owner.QUEUED_AS: queued})
    if place is None:
        write_json(top / OWNER, {**owner.describe(), owner.QUEUED_AS: queued}, durable=False)
    else:
        place.hold_for(queued)
    return Submitted(taken, place, folder, log, job)


def _put(told: on_node.Told, folder: Path, name: str, settings: Mapping[str, Any]) -> Any:
    submitit = _submitit()
    # submitit has a time of its own, five minutes; without one the cluster's holds.
    asked = {"job_name": name, "time": None, **settings}
    try:
        executor = submitit.SlurmExecutor(folder)
        executor.update_parameters(**asked)
        # What sbatch says is in the error too.
        with redirect_stderr(StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return executor.submit(on_node.begin, on_node.plain(told))
    except (
        submitit.core.utils.FailedJobError,
        submitit.core.utils.FailedSubmissionError,
        subprocess.CalledProcessError,
        TypeError,
        ValueError,
    ) as error:
        lines = [line for line in str(error).splitlines() if line.strip()] or ["it says nothing"]
        raise Refused(f"SLURM does not take it: {lines[-1].strip()}") from error


def _folder(within: Path, taken: Taken) -> Path:
    """Make a folder for a job without a work tree of its own."""
    folder = Path(tempfile.mkdtemp(prefix=JOB, dir=within))
    taken.own.callback(shutil.rmtree, folder, ignore_errors=True)
    write_json(folder / OWNER, owner.describe(), durable=False)
    return folder
