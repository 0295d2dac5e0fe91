"""Sweeps whose jobs run in other processes: `hydra/launcher=joblib`."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from expdb.conf import script
from expdb.model import Run, RunState
from expdb.store.runs import read_run, run_dirs
from tests import warm

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPT = """
import os
import hydra
import expdb

@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg):
    with expdb.start(cfg) as run:
        run.log({"val/loss": cfg.optim.lr, "pid": os.getpid(), "parent": os.getppid()}, step=1)
    return run.result()

if __name__ == "__main__":
    main()
"""

EDITED_MEANWHILE = """
import os, pathlib, time
import hydra
import expdb
import knobs

@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg):
    top = pathlib.Path(__file__).parent
    with expdb.start(cfg) as run:
        (top / "runs" / f"seen-{os.getpid()}").touch()
        while len(list((top / "runs").glob("seen-*"))) < 2:
            time.sleep(0.02)
        if cfg.seed == 0:
            for name in ("knobs.py", "train.py"):
                (top / name).write_text("WIDTH = 2\\n")
        while "WIDTH = 2" not in (top / "train.py").read_text():
            time.sleep(0.02)
        run.log({"val/loss": knobs.WIDTH}, step=1)

if __name__ == "__main__":
    main()
"""


def has_joblib_launcher() -> bool:
    try:
        return importlib.util.find_spec("hydra_plugins.hydra_joblib_launcher") is not None
    except ModuleNotFoundError:
        return False


def test_a_launchers_process_knows_the_script_that_it_works_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = sys.modules["__main__"]
    monkeypatch.setenv(script.SCRIPT_ENV, "")
    monkeypatch.setattr(main, "__file__", str(tmp_path / "train.py"), raising=False)
    assert script.entry_script() == tmp_path / "train.py"
    script.tell_script()
    packages = tmp_path / "lib" / "site-packages"
    for file in ("joblib/externals/loky/worker.py", "submitit/core/_submit.py"):
        monkeypatch.setattr(main, "__file__", str(packages / file))
        assert script.entry_script() == tmp_path / "train.py"
    # A script of its own that a job starts is no launcher's, whatever its folder is called.
    for file in ("joblib/own.py", "lib/site-packages/mine/joblib/main.py"):
        monkeypatch.setattr(main, "__file__", str(tmp_path / file))
        assert script.entry_script() == tmp_path / file
    monkeypatch.delenv(script.SCRIPT_ENV)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(main, "__file__", str(packages / "joblib" / "worker.py"))
    assert script.entry_script() == tmp_path / "main"


needs_joblib = pytest.mark.skipif(
    not has_joblib_launcher(), reason="hydra-joblib-launcher is not installed (extra `joblib`)"
)


def project(tmp_path: Path, files: dict[str, str]) -> Path:
    top = tmp_path / "project"
    shutil.copytree(ROOT / "conf", top / "conf")
    for name, text in {**files, ".gitignore": "/runs/\n"}.items():
        (top / name).write_text(text)
    git = ("git", "-c", "user.name=a", "-c", "user.email=b")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "one")):
        subprocess.run([*git, *words], cwd=top, check=True, capture_output=True)
    return top


def sweep(top: Path, *overrides: str) -> list[Run]:
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "expdb" / "_hydra")))
    words = ["train.py", "-m", *overrides, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
    env = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = warm.run(words, cwd=top, env=env, libraries=warm.LIGHT)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    store = top / "runs"
    return [read_run(folder, store_root=store) for _, folder, _ in run_dirs(store)]


@needs_joblib
def test_a_pin_names_what_a_worker_imported_and_says_where_an_edit_came_after_it(
    tmp_path: Path,
) -> None:
    files = {"train.py": EDITED_MEANWHILE, "knobs.py": "WIDTH = 1\n"}
    top = project(tmp_path, files)
    blobs = {
        name: subprocess.run(
            ["git", "rev-parse", f"HEAD:{name}"],
            cwd=top,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for name in files
    }
    runs = {run.seed: run for run in sweep(top, "seed=0,1,2,3")}
    for run in runs.values():
        assert {name: run.pin.used[name] for name in files} == blobs  # as they were imported
        assert run.value() == (1.0, 1)
    for seed in (0, 1):
        assert (runs[seed].pin.reproducible, runs[seed].pin.dirty) == (True, False)
    said = "knobs.py, train.py ran as imported before an edit: the tree has the edit"
    for seed in (2, 3):
        assert not runs[seed].pin.reproducible
        assert said in runs[seed].pin.reasons


@needs_joblib
def test_jobs_in_processes_of_their_own_are_pinned_runs_with_folders_of_their_own(
    tmp_path: Path,
) -> None:
    top = project(tmp_path, {"train.py": SCRIPT})
    runs = sweep(top, "+exp=baseline,exp01")
    store = top / "runs"
    assert sorted(run.experiment for run in runs) == ["baseline", "exp01"]
    for run in runs:
        assert (run.state, run.value()) == (
            RunState.FINISHED,
            ({"baseline": 0.003, "exp01": 0.01}[run.experiment], 1),
        )
        assert run.command == ("python", "train.py", f"+exp={run.experiment}")
        assert (run.pin.branch, run.pin.dirty) == ("main", False)
        assert "train.py" in run.pin.used
        assert run.series["pid"].last != os.getpid()
    assert sorted(os.listdir(top)) == [".git", ".gitignore", "conf", "runs", "train.py"]
    inside = {".expdb", ".gitignore", "exp=baseline", "exp=exp01"}
    assert set(os.listdir(store)) == inside
    assert len(list(store.glob("exp=*/run=*"))) == 2
