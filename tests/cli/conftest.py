"""A small laboratory: a git repository with a script, and a store made by running it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

GIT = (
    "git",
    "-c",
    "user.name=T",
    "-c",
    "user.email=t@example.org",
    "-c",
    "commit.gpgsign=false",
    "-c",
    "init.defaultBranch=main",
)

SCRIPT = """\
import importlib, os, pathlib, sys
import expdb
sys.dont_write_bytecode = True  # an edit of the same length within a second would not be seen
import knobs
from expdb.store import checkpoints
from expdb.store.layout import RunLayout

if sys.argv[-1].startswith("expdb.resume="):
    sys.exit("asked to go on: " + sys.argv[-1])

NAMES = {"hostile": "\\x1b[31m[red]\\u202eevil"}

def save(run, step):
    layout = RunLayout(run.dir)
    folder = checkpoints.temp_dir(layout, step)
    folder.mkdir(parents=True)
    (folder / "model.pt").write_bytes(b"weights %d" % step)
    parts = {"model": {"file": "model.pt", "names": []}}
    manifest = checkpoints.Manifest(step=step, attempt=run.attempt, parts=parts)
    checkpoints.seal(folder, manifest)
    checkpoints.put_in_place(layout, step)

def train(name, seed, values, lr=0.003, end="finish"):
    cfg = {
        "seed": seed,
        "optim": {"lr": lr},
        "loop": {"max_steps": 20},
        "objective": {"metric": "val/loss", "mode": "min"},
        "expdb": {"noise": {"val/loss": 0.008}},
    }
    run = expdb.start(cfg, name=NAMES.get(name, name), store="runs")
    for step, value in zip((10, 20), values):
        run.log({"val/loss": value, "train/loss": value - 0.1, "train/lr": lr}, step=step)
        if end == "finish":
            save(run, step)
    if end == "finish":
        run.finish()
    elif end == "fail":
        run.fail("train/loss is NaN since step 10")
    elif end == "die":
        os._exit(9)

for job in sys.argv[1:]:
    if job == "edit":
        pathlib.Path("knobs.py").write_text("WIDTH = 2\\n")
        importlib.reload(knobs)
        continue
    name, seed, first, last, lr, end = job.split(",")
    train(name, int(seed), (float(first), float(last)), float(lr), end)
"""


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str


Caller = Callable[..., Done]


@dataclass(frozen=True)
class Lab:
    """A repository with a store in `runs`."""

    top: Path
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *args: str, env: dict[str, str] | None = None, stdin: str = "") -> Done:
        """Run `expdb` in a process of its own."""
        done = subprocess.run(
            [sys.executable, "-m", "expdb.cli.main", *args],
            cwd=self.top,
            env={**self.env, **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def train(self, *jobs: str) -> None:
        """Run the script: each job is name,seed,first,last,lr,end."""
        done = subprocess.run(
            [sys.executable, "train.py", *jobs],
            cwd=self.top,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode not in (0, 9):
            raise AssertionError(done.stderr)

    def git(self, *args: str) -> str:
        """Run git here."""
        done = subprocess.run(
            [*GIT, *args], cwd=self.top, env=self.env, capture_output=True, text=True, check=True
        )
        return done.stdout


def _environment(home: Path) -> dict[str, str]:
    root = str(Path(__file__).parents[2])
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join([root, str(Path(root) / "tui")]),
        "PYTHONUTF8": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "OMP_NUM_THREADS": "1",
    }


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A store with eight runs; tests that share it only read."""
    top = tmp_path_factory.mktemp("lab") / "repo"
    top.mkdir()
    made = Lab(top=top, env=_environment(tmp_path_factory.mktemp("home")))
    (top / "train.py").write_text(SCRIPT)
    (top / "knobs.py").write_text("WIDTH = 1\n")
    (top / ".gitignore").write_text("__pycache__/\n")
    made.git("init", "-q")
    made.git("add", "-A")
    made.git("commit", "-qm", "first")
    made.train(
        "baseline,0,2.1,1.848,0.003,finish",
        "baseline,1,2.2,1.864,0.003,finish",
        "exp01,0,2.3,2.028,0.01,finish",
        "exp02_near,0,2.2,1.853,0.004,finish",
        "exp09_nan,0,nan,nan,0.003,fail",
        "hostile,0,2.5,2.4,0.003,finish",
        "edit",
        "exp07_code,0,2.0,1.849,0.003,finish",
        "exp06_dead,0,2.2,2.1,0.003,die",
    )
    done = made.run("baseline", "baseline:s0")
    if done.code:
        raise AssertionError(done.err)
    return made


@pytest.fixture
def own_lab(lab: Lab, tmp_path: Path) -> Lab:
    """A copy of the laboratory, for tests that change it."""
    shutil.copytree(lab.top, tmp_path / "repo", symlinks=True)
    return Lab(top=tmp_path / "repo", env=lab.env)


def _caller(
    top: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Caller:
    from expdb.cli.main import main

    monkeypatch.chdir(top)
    for name in ("EXPDB_STORE", "NO_COLOR", "FORCE_COLOR", "EXPDB_ASCII", "EXPDB_HINTS"):
        monkeypatch.delenv(name, raising=False)

    def call(*args: str) -> Done:
        code = main(list(args))
        said = capsys.readouterr()
        return Done(int(code), said.out, said.err)

    return call


@pytest.fixture
def here(lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Caller:
    """Run `expdb` in this process, in the shared laboratory: quick, and it only reads."""
    return _caller(lab.top, monkeypatch, capsys)


@pytest.fixture
def mine(
    own_lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Caller:
    """Run `expdb` in this process, in the laboratory that the test may change."""
    return _caller(own_lab.top, monkeypatch, capsys)


@pytest.fixture
def ids(here: Caller) -> Callable[[str], str]:
    """Return a finder of full ids by RUN."""

    def find(word: str) -> str:
        return here("show", word, "-q").out.strip()

    return find
