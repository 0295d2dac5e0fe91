"""`python train.py ...` as people type it: one folder a run, and no stray file anywhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from expdb.model import Run, RunState
from expdb.store.runs import read_run, run_dirs
from tests import warm

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ENV = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
FILES = ["conf", "runs", "sub", "train.py"]

QUICK = """
import os, sys, time
from pathlib import Path
import hydra, expdb

@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg):
    try:
        with expdb.start(cfg) as run:
            for step in range(run.step, 3):
                run.log({"val/loss": 1.0 / (step + 1)}, step=step)
            if cfg.get("meet"):  # the other rank must find the run alive
                Path(cfg.meet, os.environ["RANK"]).touch()
                while len(os.listdir(cfg.meet)) < 2:
                    time.sleep(0.01)
            if cfg.get("stop"):
                raise KeyboardInterrupt
        return run.result()
    except KeyboardInterrupt:
        sys.exit(130)
    except expdb.ExpdbError as error:
        sys.stderr.write(f"error: {error.message}\\n")
        sys.exit(error.exit_code)

main()
"""
"""The project's own config under a script that trains nothing: it starts in a third of the time."""


def git(top: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=top, check=True, capture_output=True)


def make_project(top: Path, script: str) -> Path:
    shutil.copytree(ROOT / "conf", top / "conf")
    (top / "train.py").write_text(script)
    (top / "sub").mkdir()
    (top / "sub" / ".gitkeep").touch()
    (top / "runs").mkdir()
    (top / "runs" / ".gitkeep").touch()
    (top / ".gitignore").write_text("/runs/*\n!/runs/.gitkeep\n")
    git(top, "init", "-q", "-b", "main")
    git(top, "add", "-A")
    git(top, "-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "one")
    return top


def python(
    where: Path, *words: str, code: int = 0, script: str = "train.py"
) -> subprocess.CompletedProcess[str]:
    done = warm.run([script, *words], cwd=where, env={**os.environ, **ENV}, libraries=warm.LIGHT)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def runs_of(top: Path, *, files: Sequence[str] = tuple(FILES)) -> list[Run]:
    """Every run, oldest first; nothing else may be in the project, and no run folder be empty."""
    root = top / "runs"
    assert sorted(name for name in os.listdir(top) if name not in (".git", ".gitignore")) == list(
        files
    )
    names = {".expdb", ".gitignore", ".gitkeep"}
    assert {name for name in os.listdir(root) if not name.startswith("exp=")} <= names
    assert os.listdir(top / "sub") == [".gitkeep"]
    for folder in [*root.glob("exp=*"), *root.glob("exp=*/run=*")]:
        assert os.listdir(folder), folder
    found = [read_run(folder, store_root=root) for _, folder, _ in run_dirs(root)]
    for run in found:
        there = set(os.listdir(root / run.path))
        assert not there & {".hydra", "train.log", "multirun.yaml", "outputs"}
    return sorted(found, key=lambda run: run.created_at_ms)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("quick"), QUICK)


def test_from_another_folder_with_overrides(quick: Path) -> None:
    before = len(runs_of(quick))
    words = ["+exp=exp01", "optim.lr=1e-2", "seed=3", "loop.max_steps=7"]
    done = python(quick / "sub", *words, script="../train.py")
    run = runs_of(quick)[before]
    assert (run.name, run.seed) == ("exp01+loop.max_steps=7+optim.lr=0.01", 3)
    assert f"  path       ../runs/exp=exp01/run={run.id}" in done.stderr
    assert run.command == ("python", "../train.py", *words)
    same = python(quick, "+exp=exp01", "loop.max_steps=7", "seed=4", "optim.lr=0.010")
    other = runs_of(quick)[-1]
    assert other.digest == run.digest
    assert other.name == run.name
    assert "ADDS" not in same.stderr


def test_starts_of_one_second_are_runs_of_their_own(quick: Path) -> None:
    before = len(runs_of(quick))
    words = [sys.executable, "train.py", "+exp=exp02_cosine", "expdb.print=quiet"]
    env = {**os.environ, **ENV}
    jobs = [subprocess.Popen(words, cwd=quick, env=env) for _ in range(4)]
    assert [job.wait() for job in jobs] == [0] * 4
    found = runs_of(quick)[before:]
    assert len({run.id for run in found}) == len({run.path for run in found}) == 4
    assert {run.state for run in found} == {RunState.FINISHED}


def test_ranks_have_one_run_and_leave_no_folder(quick: Path, tmp_path: Path) -> None:
    before = len(runs_of(quick))
    words = [sys.executable, "train.py", "+exp=baseline", f"+meet={tmp_path}"]
    jobs = [
        subprocess.Popen(
            words, cwd=quick, env={**os.environ, **ENV, "RANK": rank}, stderr=subprocess.PIPE
        )
        for rank in "01"
    ]
    said = [job.communicate()[1] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], said
    assert said[1] == b""
    assert len(runs_of(quick)) == before + 1


def test_nothing_is_made_by_looking_or_by_a_typo(quick: Path) -> None:
    before = [run.id for run in runs_of(quick)]
    assert "exp01" in python(quick, "--help").stdout
    done = python(quick, "+exp=typo", code=1)
    assert "Could not find 'exp/typo'" in done.stderr
    python(quick, "expdb.mode=off")
    done = python(quick, "+exp=exp01", "+expdb.resum=1", code=2)
    assert done.stderr == "error: no setting is called expdb.resum\n"
    python(quick, "+exp=exp01", "expdb.resume=zzzz", code=3)
    assert [run.id for run in runs_of(quick)] == before


def test_an_interrupted_run_is_resumed_in_its_own_folder(quick: Path) -> None:
    before = len(runs_of(quick))
    done = python(quick, "+exp=baseline", "+stop=true", code=130)
    first = runs_of(quick)[before]
    assert (first.state, first.last_step) == (RunState.PREEMPTED, 2)
    assert done.stderr.splitlines()[-1] == f"resume:    expdb resume {first.id[:4]}"
    python(quick, "+exp=baseline", "+stop=true", "hydra.job.chdir=true",
           f"expdb.resume={first.id}", code=130)  # fmt: skip
    again = runs_of(quick)[before:]
    assert [(run.id, len(run.attempts)) for run in again] == [(first.id, 2)]
    # The recorded command with the run's id takes it up; then it is finished, and that is that.
    resume = [*first.command[2:-1], f"expdb.resume={first.id}"]
    assert first.command == ("python", "train.py", "+exp=baseline", "+stop=true")
    done = python(quick, *resume, code=4)
    assert done.stderr == (
        f"error: {first.id[:4]} baseline+stop=true cannot be resumed with another config:"
        " stop was true, is -\n"
    )


def test_a_key_that_the_base_lacks_is_said(quick: Path) -> None:
    text = "# @package _global_\ndefaults: [baseline, _self_]\noptim: {learning_rate: 1.0, mu: 1}\n"
    (quick / "conf" / "exp" / "exp99.yaml").write_text(text)
    (quick / "conf" / "schedule" / "own.yaml").write_text("kind: own\nperiod: 3\n")
    done = python(quick, "+exp=exp99", "+optim.betaz=1", "+extra.key2=3", "schedule=own")
    (quick / "conf" / "exp" / "exp99.yaml").unlink()
    (quick / "conf" / "schedule" / "own.yaml").unlink()
    assert [
        line for line in done.stderr.splitlines() if line.startswith("warning: this run ADDS")
    ] == [
        "warning: this run ADDS optim.betaz, which its base lacks: a typo of optim.betas?",
        "warning: this run ADDS optim.learning_rate, which its base lacks: a typo of optim.lr?",
        "warning: this run ADDS optim.mu, which its base lacks: a typo?",
    ]


def test_a_store_that_cannot_be_used_is_said_in_one_line(quick: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = python(quick, f"expdb.store={tmp_path / 'file'}", code=5)
    assert done.stderr.startswith("error: cannot write to the store ")
    newer = tmp_path / "runs" / ".expdb"
    newer.mkdir(parents=True)
    (newer / "store.json").write_text(json.dumps({"format": 9, "id": "x"}))
    python(quick, f"expdb.store={tmp_path / 'runs'}", code=5)
    assert sorted(os.listdir(tmp_path / "runs")) == [".expdb"]
