"""`expdb probe repro`: real repositories, real processes, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TOY = """\
import os, random, sys, time
import expdb
import model

options = dict(word.split("=", 1) for word in sys.argv[1:])
cfg = {"lr": 0.1, "factor": os.environ.get("FACTOR", "1"), "steps": 30}
chance = random.Random(3)
with expdb.start(cfg, name="toy", seed=3, fork=options.get("expdb.fork")) as run:
    run.use_data("train", "data.txt")
    weight = 1.0
    for step in range(30):
        weight = model.update(weight, chance.random(), float(cfg["factor"]), step)
        run.log({"train/w": weight, "train/loss": weight * weight}, step=step)
        run.log({"train/tokens_per_s": time.perf_counter(), "sys/x": time.time()}, step=step)
        time.sleep(float(os.environ.get("SLEEP", "0")))
open(os.environ.get("SAID", os.devnull), "a").write("reached its end\\n")
"""
MODEL = """\
def update(weight, drawn, factor, step):
    return weight - 0.1 * (weight - drawn) * factor
"""
CHANCE = """\
import os
def update(weight, drawn, factor, step):
    noise = int.from_bytes(os.urandom(4), "big") / 2**32 if step >= 7 else 0.0
    return weight - 0.1 * (weight - drawn) * factor + noise + 1e-3 * (step >= 7)
"""
FAINT = CHANCE.replace("/ 2**32 if", "/ 2**60 if").replace(" + 1e-3 * (step >= 7)", "")


class Lab:
    """A repository with a script, and what was there before a command."""

    def __init__(self, top: Path, temp: Path) -> None:
        self.top, self.temp = top, temp
        top.mkdir()
        temp.mkdir()
        self.git("init", "-q", "-b", "main")
        self.write(TOY=TOY, MODEL=MODEL)
        (top / "data.txt").write_text("some text\n")
        (top / ".gitignore").write_text("/runs/\n__pycache__/\n")
        self.commit("first")

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.top / {"TOY": "train.py"}.get(name, f"{name.lower()}.py")).write_text(text)

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.top, capture_output=True, text=True, check=True
        )
        return done.stdout

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def env(self, **more: str) -> dict[str, str]:
        paths = os.pathsep.join(map(str, (ROOT, ROOT / "tui")))
        return {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(self.temp), **more}

    def train(self, *words: str, **env: str) -> Path:
        done = subprocess.run(
            [sys.executable, "train.py", *words], cwd=self.top, env=self.env(**env),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return self.newest()

    def newest(self) -> Path:
        found = self.top.glob("runs/exp=*/run=*/run.json")
        return max(found, key=lambda path: json.loads(path.read_text())["created_at_ms"]).parent

    def words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "expdb.cli.main", *words]

    def expdb(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(*words), cwd=self.top, env=self.env(**env),
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def probe(self, *words: str, rc: int = 0, **env: str) -> dict[str, Any]:
        before = self.everything()
        done = self.expdb("probe", "repro", *words, "--json", **env)
        assert done.returncode == rc, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert self.everything() == before
        assert list(self.temp.glob("expdb-*")) == []
        return json.loads(done.stdout) if done.stdout else {"said": done.stderr}

    def everything(self) -> dict[str, bytes]:
        """Every file of the work tree, of git, and of the store, its index apart."""
        return {
            str(path.relative_to(self.top)): path.read_bytes()
            for path in self.top.rglob("*")
            if path.is_file() and not {"index", "clock"} & set(path.parts[len(self.top.parts) :])
            and path.suffix != ".pyc"
        } | {".git/index": (self.top / ".git/index").read_bytes()}  # fmt: skip


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "repo", tmp_path / "temp")


def test_an_unchanged_run_is_the_same_to_the_bit(lab: Lab, tmp_path: Path) -> None:
    run = lab.train()
    said = tmp_path / "said"
    found = lab.probe("toy", "--steps", "12", SAID=str(said))
    assert (found["outcome"], found["run"]) == ("bit_equal", run.name.removeprefix("run="))
    assert (found["steps"], found["points"], found["equal"]) == ([0, 11], 24, 24)
    assert found["left_out"] == ["sys/x", "train/tokens_per_s"]
    assert not said.exists()  # it was stopped, not run to its end
    assert (found["first"], found["largest"]) == (None, None)
    shown = lab.expdb("probe", "repro", "toy")
    assert re.match(
        r"bit-equal  \w{4} toy: 60 points of 2 metrics, steps 0 to 29, every bit\n"
        r"left out   sys/x, train/tokens_per_s\ntook  ", shown.stdout,
    )  # fmt: skip


def test_a_store_that_the_script_names_itself_gets_nothing(lab: Lab) -> None:
    named = TOY.replace('name="toy"', f'name="toy", store={str(lab.top / "runs")!r}')
    lab.write(TOY=named)
    lab.train()
    assert lab.probe("toy")["outcome"] == "bit_equal"  # and the store is as it was, to the byte


def test_chance_is_named_with_its_first_step_and_metric(lab: Lab) -> None:
    lab.write(MODEL=CHANCE)
    lab.train()
    found = lab.probe("toy", "--steps", "20", rc=1)
    first = found["first"]
    assert (found["outcome"], first["step"], first["metric"]) == ("differs", 7, "train/loss")
    assert found["also"] == ["train/w"]
    assert found["equal"] == 14
    assert first["values"][0] != first["values"][1]
    assert found["environment"] == found["config"] == found["data"] == found["code"] == []
    shown = lab.expdb("probe", "repro", "toy").stdout
    assert re.match(r"differs    \w{4} toy at step 7: train/loss [\d.e-]+ -> [\d.e-]+ \(", shown)
    assert "chance that the seed does not reach?" in shown


@pytest.mark.soak
def test_a_faint_difference_is_within_the_tolerance_and_named(lab: Lab) -> None:
    lab.write(MODEL=FAINT)
    lab.train()
    found = lab.probe("toy", "--steps", "9")
    assert (found["outcome"], found["first"]) == ("equal_within", None)
    assert 0 < found["largest"]["relative"] < 1e-5
    assert found["first_bits"]["step"] == 7
    assert lab.probe("toy", "--steps", "9", "--rtol", "0", rc=1)["first"]["step"] == 7


def test_the_edits_of_then_are_repeated_whatever_was_committed_since(lab: Lab) -> None:
    lab.write(MODEL=MODEL.replace("0.1", "0.25"))
    (lab.top / "data.txt").write_text("uncommitted text\n")
    lab.train()
    lab.write(MODEL=MODEL.replace("0.1", "0.9"), TOY="raise SystemExit('gone')\n")
    (lab.top / "data.txt").unlink()
    lab.commit("another way")
    (lab.top / "model.py").write_text("# edited again\n")
    assert lab.probe("toy")["outcome"] == "bit_equal"


@pytest.mark.soak
def test_what_differs_around_it_is_named(lab: Lab) -> None:
    lab.train(FACTOR="1.5")
    found = lab.probe("toy", rc=1)
    assert (found["first"]["step"], found["first"]["metric"]) == (0, "train/loss")
    assert found["config"] == [{"key": "factor", "values": ["1.5", "1"]}]
    assert lab.probe("toy", FACTOR="1.5")["outcome"] == "bit_equal"


@pytest.mark.soak
def test_data_that_changed_are_named(lab: Lab, tmp_path: Path) -> None:
    aside = tmp_path / "data.txt"
    aside.write_text("one\n")
    lab.write(TOY=TOY.replace('"data.txt"', repr(str(aside))))
    lab.train()
    aside.write_text("two\n")
    [data] = lab.probe("toy")["data"]
    assert data["key"] == "train"
    assert data["values"][0] != data["values"][1]


@pytest.mark.soak
def test_a_fork_is_repeated_from_its_parent_s_weights(lab: Lab) -> None:
    lab.write(TOY=FORKED)
    parent = lab.train().name.removeprefix("run=")
    fork = lab.train(f"expdb.fork={parent[:4]}@4")
    assert json.loads((fork / "run.json").read_text())["fork"] == {"run": parent, "step": 4}
    found = lab.probe(fork.name.removeprefix("run="), "--steps", "3")
    assert (found["outcome"], found["steps"]) == ("bit_equal", [4, 6])


FORKED = """\
import sys, torch, expdb
torch.set_num_threads(1)
options = dict(word.split("=", 1) for word in sys.argv[1:])
torch.manual_seed(1)
model = torch.nn.Linear(3, 1)
optim = torch.optim.AdamW(model.parameters())
state = expdb.State(model=model, optim=optim)
with expdb.start({"lr": 1}, name="toy", seed=3, fork=options.get("expdb.fork")) as run:
    for step in range(run.restore(state), 9):
        loss = model(torch.randn(5, 3)).square().mean()
        run.log({"train/loss": loss.item()}, step=step)
        optim.zero_grad(); loss.backward(); optim.step()
        if step + 1 == 4:
            run.checkpoint(4, state)
"""
LOOPED = """\
import torch, expdb
from tests.track import tiny_training as tiny
torch.manual_seed(1)
state = tiny.build()
with expdb.start({"lr": 1}, name="toy", seed=3, objective="val/loss") as run:
    loop = expdb.Loop(run, state, max_steps=20, eval_every=4, save_every=4,
                      evaluate=lambda step: {"val/loss": float(step)})
    for update in loop:
        for window in update:
            update.backward(*tiny.summed_loss(state.models[""], window))
        update.step()
open("ended.txt", "w").write(str(loop.step))
"""


@pytest.mark.soak
def test_a_loop_stops_at_the_border_with_its_schedule_as_it_was(lab: Lab) -> None:
    lab.write(TOY=LOOPED)
    lab.train()
    kept = json.loads(lab.expdb("probe", "repro", "toy", "--steps", "6", "--keep", "--json").stdout)
    assert (kept["outcome"], kept["steps"]) == ("bit_equal", [0, 5])
    assert kept["points"] == 3 * 6 + 2  # loss, norm and rate; val/loss at 0 and 4
    assert kept["left_out"] == ["train/data_wait_pct", "train/tokens_per_s"]
    folder = Path(kept["kept"])
    assert (folder / folder.name / "ended.txt").read_text() == "6"
    assert not list(folder.glob("store/exp=toy/run=*/checkpoints/step=*"))
    assert lab.expdb("ls").returncode == 0
    assert folder.is_dir()  # what was to stay is no leftover
    lab.git("worktree", "remove", "--force", str(folder / folder.name))


@pytest.mark.soak
def test_what_cannot_be_repeated_says_why(lab: Lab) -> None:
    lab.train()
    lab.write(TOY="import sys\nprint('no such data')\nsys.exit(3)\n")
    for edit, words, rc, said in (
        (None, ("nosuch",), 3, "no run, ref or experiment is called nosuch"),
        (None, ("toy@3",), 3, "no checkpoint"),
        ({"command": []}, ("toy",), 4, "has no recorded command"),
        ({"command": ["python", "gone.py"]}, ("toy",), 4, "gone.py is not in the pinned code"),
        ({"command": ["python", "train.py", "key=<redacted>"]}, ("toy",), 4, "without its secret"),
    ):
        path = lab.newest() / "run.json"
        before = path.read_text()
        if edit is not None:
            path.write_text(json.dumps({**json.loads(before), **edit}))
            lab.expdb("reindex")
        assert said in lab.probe(*words, rc=rc)["said"]
        path.write_text(before)
    pin = lab.newest() / "attempts/1/pin.json"
    data = json.loads(pin.read_text())
    for change, rc, said in (
        ({"reproducible": False, "reasons": ["submodule lib has edits"]}, 4, "lib has edits"),
        ({"commit": "1" * 40, "tree": "1" * 40}, 4, "is not in this repository"),
        ({"commit": None, "tree": None, "reasons": ["no commit yet"]}, 4, "no commit yet"),
    ):
        pin.write_text(json.dumps({**data, "git": {**data["git"], **change}}))
        lab.expdb("reindex")
        assert said in lab.probe("toy", rc=rc)["said"]


@pytest.mark.soak
def test_a_script_that_fails_there_is_quoted(lab: Lab) -> None:
    (lab.top / ".gitignore").write_text("/runs/\n__pycache__/\n/data.txt\n")
    lab.git("rm", "-q", "--cached", "data.txt")
    lab.commit("data are ignored")
    lab.train()
    said = lab.probe("toy", rc=4)["said"]
    assert "the script ended with status 1, so there is nothing to compare" in said
    assert "data.txt" in said
    assert "what git does not hold is not there" in said


@pytest.fixture
def slow_probe(lab: Lab) -> Iterator[subprocess.Popen[str]]:
    """A probe that takes half a minute, as soon as its script runs."""
    lab.train()
    child = subprocess.Popen(
        lab.words("probe", "repro", "toy"), cwd=lab.top, env=lab.env(SLEEP="1"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    until = time.monotonic() + 60
    while not list(lab.temp.glob("expdb-probe-*/store/exp=toy/run=*/attempts/1/rank-0.1.wal")):
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)
    yield child
    child.kill()
    child.communicate()


def trainings(lab: Lab) -> list[int]:
    """The processes that work in the throw-away places of a laboratory."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(folder / "cwd").startswith(str(lab.temp)):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)]
)
def test_stopped_by_hand_it_leaves_nothing(
    lab: Lab, slow_probe: subprocess.Popen[str], number: int
) -> None:
    assert len(trainings(lab)) == 1
    slow_probe.send_signal(number)
    slow_probe.communicate(timeout=60)
    assert slow_probe.returncode == 130
    assert (list(lab.temp.iterdir()), trainings(lab)) == ([], [])
    assert not (lab.top / ".git/worktrees").exists()
    assert len(lab.git("worktree", "list").splitlines()) == 1


def test_killed_it_leaves_nothing_after_the_next_command(
    lab: Lab, slow_probe: subprocess.Popen[str]
) -> None:
    assert lab.expdb("ls").returncode == 0  # a command beside it leaves a living one alone
    assert slow_probe.poll() is None
    assert len(lab.git("worktree", "list").splitlines()) == 2
    slow_probe.kill()
    slow_probe.communicate()
    until = time.monotonic() + 30
    while trainings(lab):  # its training goes with it
        assert time.monotonic() < until
        time.sleep(0.02)
    assert len(lab.git("worktree", "list").splitlines()) == 2
    done = lab.expdb("ls")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(lab.git("worktree", "list").splitlines()) == 1
    assert list(lab.temp.iterdir()) == []


def test_a_folder_of_somebody_else_s_with_such_a_name_stays(lab: Lab, tmp_path: Path) -> None:
    lab.train()
    mine = tmp_path / "expdb-probe-mine" / "expdb-probe-mine"
    lab.git("worktree", "add", "-q", "--detach", str(mine))
    (mine / "work.txt").write_text("mine\n")
    os.utime(lab.top / ".git/worktrees/expdb-probe-mine", (1, 1))
    assert lab.expdb("ls").returncode == 0
    assert (mine / "work.txt").exists()
