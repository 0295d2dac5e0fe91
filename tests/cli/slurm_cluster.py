"""A SLURM of two virtual nodes on this machine, started by hand in a folder of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd")
COMMANDS = ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
CONF = """\
ClusterName=expdbtest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
KillWait=20
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 State=UNKNOWN
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=60 State=UP
"""


def lacking() -> str:
    """Return why there can be none here; empty where there can."""
    gone = [name for name in (*DAEMONS, *COMMANDS) if shutil.which(name, path=PATH) is None]
    return f"no {' '.join(gone)} (Debian: slurm-wlm munge)" if gone else ""


@contextmanager
def cluster() -> Iterator[Path]:
    """Start it, and yield its slurm.conf.

    Raises:
        RuntimeError: it does not start.
    """
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))  # a socket's path has to be short
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        (folder / "state").mkdir()
        (folder / "key").write_bytes(os.urandom(128))
        (folder / "key").chmod(0o600)
        conf = folder / "slurm.conf"
        here = {"host": socket.gethostname(), "user": getpass.getuser()}
        conf.write_text(CONF.format(folder=folder, ports=_ports(3), **here))
        munge = [f"--{name}={folder}/{name}" for name in ("pid-file", "log-file", "seed-file")]
        munge += [f"--key-file={folder}/key", f"--socket={folder}/munge.socket"]
        _start(stack, conf, "munged", "--foreground", "--force", *munge)
        _until(lambda: (folder / "munge.socket").exists(), folder)
        _start(stack, conf, "slurmctld", "-D")
        for node in ("n1", "n2"):
            (folder / f"spool-{node}").mkdir()
            _start(stack, conf, "slurmd", "-D", "-N", node)
        _until(lambda: _said(conf, "sinfo", "-h", "-o", "%T %D") == "idle 2", folder)
        yield conf
        _said(conf, "scancel", f"--user={getpass.getuser()}")
        _until(lambda: _said(conf, "squeue", "-h") == "", folder)


def _start(stack: ExitStack, conf: Path, name: str, *words: str) -> None:
    program = shutil.which(name, path=PATH)
    assert program is not None
    child = subprocess.Popen(
        [program, *words], env=_env(conf), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    stack.callback(child.wait)
    stack.callback(child.terminate)


def _said(conf: Path, *argv: str) -> str:
    done = subprocess.run(argv, env=_env(conf), capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else f"exit {done.returncode}"


def _env(conf: Path) -> dict[str, str]:
    return {**os.environ, "PATH": PATH, "SLURM_CONF": str(conf)}


def _ports(number: int) -> list[int]:
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]


def _until(holds, folder: Path) -> None:
    limit = time.monotonic() + 20
    while not holds():
        if time.monotonic() > limit:
            logs = "\n".join(path.read_text()[-500:] for path in folder.glob("*.log"))
            raise RuntimeError(f"SLURM does not start: {logs}")
        time.sleep(0.1)
