"""What a job of SLURM does on its node: it starts the command of a declared run and waits for it.

submitit calls `work` there, once for each task. What it tells the process that put it into the
queue are files in a folder that both see:

    slurm/stop                 made by that one: begin nothing any more
    slurm/began.json           who trains: host, boot, pid, process start; of the first task
    slurm/end-<task>.json      how its process ended: {"status"}

Invariant: a job whose claim is another's by now trains nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from expdb.actions.child import program, with_parent
from expdb.errors import Corrupt
from expdb.store import owner
from expdb.store.files import read_json, write_json

STOP, BEGAN, END = "stop", "began.json", "end-"
HEEDED = (signal.SIGTERM, signal.SIGCONT, signal.SIGUSR1, signal.SIGUSR2)
"""SLURM sends them to every process of a job: they are for the one that trains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a job has to know on its node; paths are absolute."""

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    """Variables to set, over those of the job."""
    without: tuple[str, ...]
    """Variables to take away."""
    log: str
    claim: str
    token: str
    """By which the claim is this job's."""
    folder: str
    """Where the files above are."""


def work(told: Told) -> None:
    """Run the command to its end.

    Raises:
        OSError: the folder or the program is not there.
    """
    task = int(os.environ.get("SLURM_PROCID", "0"))
    folder = Path(told.folder)
    noted: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        noted.append(number)

    for number in HEEDED:
        signal.signal(number, note)
    if (folder / STOP).exists() or not _is_ours(told):
        return
    with os.fdopen(os.open(told.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as out:
        child = subprocess.Popen(
            program(told.argv),
            cwd=told.cwd,
            env=_environment(told),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            preexec_fn=with_parent(signal.SIGTERM),
        )
    if task == 0:
        who = {**owner.describe(), "pid": child.pid, "start": owner.process_start(child.pid)}
        write_json(folder / BEGAN, who, durable=False)
    if signal.SIGTERM in noted:  # it came before there was anyone to hear it
        with suppress(ProcessLookupError):
            child.terminate()
    write_json(folder / f"{END}{task}.json", {"status": child.wait()}, durable=False)


def plain(told: Told) -> dict[str, object]:
    """Return it as it is sent: a class of one's own need not be the same on the node."""
    return asdict(told)


def begin(told: Mapping[str, object]) -> None:
    """Do what `plain` was sent for; what submitit calls."""
    work(Told(**told))  # type: ignore[arg-type]


def _is_ours(told: Told) -> bool:
    try:
        return read_json(Path(told.claim)).get("token") == told.token
    except (OSError, Corrupt):
        return False


def _environment(told: Told) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in told.without}
    return {**kept, **told.environment}
