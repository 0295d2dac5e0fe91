"""`expdb probe throughput`, `loader`, `memory`, `lr`: real scripts, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests import warm

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPT = """\
import sys, time
import torch, expdb
torch.set_num_threads(1)
options = dict(word.lstrip("+").split("=", 1) for word in sys.argv[1:])
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optim = torch.optim.AdamW(model.parameters(), lr=float(options.get("lr", 1e-2)))
x = torch.randn(4096, 4)
y = (x @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]])).tanh()

class Batches:
    def __iter__(self):
        for at in range(0, 4096, 32):
            time.sleep(float(options.get("wait", 0)))
            yield x[at:at + 32], y[at:at + 32]

with expdb.start({"lr": 1}, name="toy", seed=0) as run:
    run.use_data("train", "data.txt")
    if options.get("fail"):
        sys.exit("no such thing as " + options["fail"])
    if options.get("own"):
        for step in range(10**9):
            run.log({"train/loss": 1.0}, step=step)
    else:
        state = expdb.State(model=model, optim=optim, loader=Batches())
        loop = expdb.Loop(run, state, max_steps=6, save_every=2)
        for update in loop:
            for inputs, wanted in update:
                time.sleep(float(options.get("compute", 0)))
                update.backward((model(inputs) - wanted).square().sum(), 24)
            update.step()
            run.log({"train/own": 1.0}, step=update.step_number)
print("reached its end")
"""


class Lab:
    """A repository with a script and a declared experiment."""

    def __init__(self, top: Path, temp: Path) -> None:
        self.top, self.temp = top, temp
        temp.mkdir()
        (top / "conf/exp").mkdir(parents=True)
        (top / "conf/train.yaml").write_text("lr: 1\n")
        (top / "conf/exp/toy.yaml").write_text("# @package _global_\n")
        (top / "train.py").write_text(SCRIPT)
        (top / "data.txt").write_text("some text\n")
        (top / ".gitignore").write_text("/runs/\n/data.txt\n")
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "first")

    def git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.top, capture_output=True, check=True)

    def env(self) -> dict[str, str]:
        paths = os.pathsep.join(map(str, (ROOT, ROOT / "tui")))
        return {
            **os.environ, "PYTHONPATH": paths, "TMPDIR": str(self.temp), "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip

    def probe(self, *words: str, rc: int = 0) -> dict[str, Any]:
        before = self.everything()
        done = warm.run(
            ["-m", "expdb.cli.main", "probe", *words, "--json"], cwd=self.top, env=self.env(),
            libraries=warm.LIGHT,
        )  # fmt: skip
        assert done.returncode == rc, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert self.everything() == before
        assert list(self.temp.glob("expdb-*")) == []
        return {"said": done.stderr, **(json.loads(done.stdout) if done.stdout else {})}

    def everything(self) -> dict[str, bytes]:
        """Every file of the work tree, of git, and of the store, its index apart."""
        return {
            str(path.relative_to(self.top)): path.read_bytes()
            for path in self.top.rglob("*")
            if path.is_file() and not {"index", "clock"} & set(path.parts[len(self.top.parts) :])
        } | {".git/index": (self.top / ".git/index").read_bytes()}  # fmt: skip


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "repo", tmp_path / "temp")


def test_an_experiment_that_never_ran_is_timed_and_nothing_is_left(lab: Lab) -> None:
    found = lab.probe("throughput", "toy", "lr=0.2", "--updates", "8", "--warm-up", "2")
    assert (found["kind"], found["updates"], found["tokens"]) == ("throughput", 8, 8 * 24)
    assert found["tokens_per_s"] == pytest.approx(8 * 24 / found["seconds"])
    assert found["command"] == ["python", "train.py", "+exp=toy", "lr=0.2"]
    assert not (lab.top / "runs").exists()
    assert "nothing is recorded" in found["said"]


@pytest.mark.soak
def test_a_run_is_measured_beside_its_store(lab: Lab) -> None:
    (lab.top / "conf/exp/toy.yaml").unlink()
    warm.run(["train.py", "lr=0.02"], cwd=lab.top, env=lab.env())
    [run] = lab.top.glob("runs/exp=toy/run=*")
    assert lab.probe("memory", "toy")["command"] == ["python", "train.py", "lr=0.02"]
    found = lab.probe("memory", run.name.removeprefix("run=")[:5], "lr=0.5")
    assert found["command"] == ["python", "train.py", "lr=0.5"]
    number = 4 * 16 + 16 + 16 + 1
    measured = found["measured"]
    assert (measured["num_params"], measured["gradients"]) == (number, 4 * number)
    assert found["estimate"]["bytes_per_param"]["training"] == 16
    assert found["estimate"]["bytes"]["optimizer"] + 4 * 4 == measured["optimizer"]
    assert lab.probe("memory", "toy", "--cap", "100", rc=1)["available"] == 100
    assert [one["is_here"] for one in lab.probe("data", "toy")["declared"]] == [True]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("wait", "compute", "verdict", "rc"),
    [("0.05", "0.01", "data-bound", 1), ("0.01", "0.05", "compute-bound", 0)],
)
def test_what_a_step_waits_for(lab: Lab, wait: str, compute: str, verdict: str, rc: int) -> None:
    words = ("toy", f"wait={wait}", f"compute={compute}", "--updates", "8")
    assert lab.probe("loader", *words, rc=rc)["verdict"] == verdict


@pytest.mark.soak
def test_a_rate_that_suits_is_found(lab: Lab) -> None:
    found = lab.probe("lr", "toy", "--from", "1e-5", "--to", "10", "--updates", "150")
    assert found["outcome"] == "found"
    assert 1e-3 < found["lr"] < 0.5
    assert len(found["series"]) == found["updates"]
    flat = lab.probe("lr", "toy", "--from", "1e-9", "--to", "1e-8", "--updates", "60", rc=1)
    assert (flat["outcome"], flat["lr"]) == ("inconclusive", None)
    assert flat["advice"].startswith("start lower and take more steps")


@pytest.mark.soak
def test_a_script_that_cannot_be_measured_says_why(lab: Lab) -> None:
    said = lab.probe("throughput", "toy", "fail=bread", rc=4)["said"]
    assert "the script ended with status 1 before all was measured" in said
    assert "no such thing as bread" in said
    said = lab.probe("throughput", "toy", "own=1", rc=4)["said"]
    assert "trained without an expdb.Loop" in said


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopped_by_hand_it_leaves_nothing(lab: Lab, number: int) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "expdb.cli.main", "probe", "throughput", "toy", "wait=5"],
        cwd=lab.top, env=lab.env(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    until = time.monotonic() + 60
    while not list(lab.temp.glob("expdb-probe-*/store/exp=toy/run=*/attempts/1/live.json")):
        assert child.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    child.send_signal(number)
    child.wait(60)
    if number == signal.SIGKILL:
        assert len(list(lab.temp.glob("expdb-probe-*"))) == 1
        lab.probe("memory", "toy")  # the next one clears it, and looks for that itself
    assert list(lab.temp.glob("expdb-*")) == []
