"""Write the small store that is kept for the present format: `python -m tests.formats.make`.

Run once when a format is new, never again for it: what stands in `v<format>/` is how that version
wrote, and every later version has to read it. No name or path of the machine gets into it: host,
user, process and hardware are made up, and the work tree is `/tmp/lab`.
"""

from __future__ import annotations

import getpass
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

import expdb
from expdb.cli.main import main as cli
from expdb.model import FORMAT
from expdb.store import owner
from expdb.track import folder, job, machine, prepare

LAB = Path("/tmp/lab")
HERE = Path(__file__).parent
NONE = {"host": "lab", "boot": "boot-1", "pid_space": 1, "pid": 4_000_000, "start": 1}
"""Who owned the runs: a process that is gone."""


def pretend() -> None:
    """Make up what is recorded of machine and user."""
    socket.gethostname = lambda: "lab"
    getpass.getuser = lambda: "ada"
    owner.boot_id = lambda: "boot-1"  # type: ignore[assignment]
    owner.describe = lambda: dict(NONE)  # type: ignore[assignment]
    for module in (job, folder, prepare):
        module.entry_script = lambda: LAB / "train.py"
    machine.cpu = lambda path=Path(): "A Processor"
    machine.installed = lambda paths=None: {"numpy": "2.0.0", "torch": "2.5.0"}


def in_a_child(work: Callable[[], object]) -> int:
    """Do it in a process of its own, and return how that ended."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except SystemExit as stop:
            status = int(stop.code or 0)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def train(
    name: str, lr: float, *, resume: str | None = None, end: str = "", last: int = 40
) -> None:
    """A training whose curves are known: val/loss is 2 / (1 + lr * step / 10), to the last bit."""
    sys.argv = ["train.py", f"+exp={name}", f"optim.lr={lr}"]
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    optim = torch.optim.AdamW(model.parameters(), lr=lr)
    state = expdb.State(model=model, optim=optim, extra={"phase": {"name": "warm"}})
    config = {
        "optim": {"lr": lr},
        "seed": 0,
        "data": {"name": "micro"},
        "expdb": {"print": "quiet"},
    }
    objective = {"metric": "val/loss", "mode": "min"}
    run = expdb.start(config, name=name, objective=objective, resume=resume)
    run.use_data("train", "micro", digest="sha256:" + "1" * 64, num_bytes=1000)
    first = run.restore(state) if resume else 0
    for step in range(first, last):
        run.log({"train/loss": 3.0 - step / 64, "train/lr": lr}, step=step)
        if step % 10 == 0:
            run.log({"val/loss": 2 / (1 + lr * step / 10)}, step=step)
        if step == 20:
            run.checkpoint(20, state)
            run.settle(wait=True)
        if end and step == 25:
            run.log({"odd/nan": math.nan, "odd/inf": math.inf, "odd/zero": -0.0}, step=step)
            run.log_text("sample", "Größe ≤ 1", step=step)
            run.event(step, "warn", "made_up", "a rule has fired")
        if end == "stop" and step == 25:
            run.preempt("SIGTERM at step 25")
            sys.exit(143)
        if end == "kill" and step == 30:
            os.kill(os.getpid(), signal.SIGKILL)
    run.log({"val/loss": 2 / (1 + lr * last / 10)}, step=last)
    run.log_eval("cloze", {"acc": 0.25, "acc_stderr": 0.0625}, step=20, n=64, shots=0, scorer="x")
    run.finish()


NAMES = (
    ("baseline", "exp00"),
    ("tag", "v1", "exp01@20"),
    ("label", "exp01", "keep"),
    ("note", "exp01", "größer is better"),
    ("rm", "exp03"),
)
"""What is typed after the trainings: a ref, a tag, a label, a note, a run in the trash."""


def names() -> None:
    """Type all of `NAMES`."""
    for words in NAMES:
        code = cli([*words, "-q"])
        assert code == 0, words


def main() -> None:
    """Make the work tree and the store, and put the store in its place."""
    target = HERE / f"v{FORMAT}" / "runs"
    if target.exists():
        sys.exit(f"{target} is there; it is never written again")
    shutil.rmtree(LAB, ignore_errors=True)
    LAB.mkdir()
    os.chdir(LAB)
    (LAB / "train.py").write_text("print(1)\n")
    (LAB / ".gitignore").write_text("/runs/\n")
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    for words in (["init", "-q", "-b", "main"], ["add", "."], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], check=True)
    pretend()
    ends = [
        in_a_child(lambda: train("exp00", 0.5)),
        in_a_child(lambda: train("exp01", 1.0, end="stop")),
        in_a_child(lambda: train("exp01", 1.0, resume="exp01")),
        in_a_child(lambda: train("exp02", 2.0, end="kill")),
        in_a_child(lambda: train("exp03", 3.0)),
        in_a_child(names),
    ]
    assert ends == [0, 143, 0, -signal.SIGKILL, 0, 0], ends
    shutil.rmtree(LAB / "runs/.expdb/index", ignore_errors=True)
    shutil.copytree(LAB / "runs", target)
    shutil.rmtree(LAB)


if __name__ == "__main__":
    main()
