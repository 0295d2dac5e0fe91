"""A store of a few runs without checkpoints, made by a script of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from expdb.store.store import open_store
from expdb_tui.session import Session

SCRIPT = """\
import expdb

for name, seed, value in (
    ("baseline", 0, 1.848),
    ("exp01", 0, 2.028),
    ("\\x1b[31m[red]odd", 0, float("nan")),
):
    noise = {"noise": {"val/loss": 0.008}}
    cfg = {"seed": seed, "name": name, "objective": {"metric": "val/loss"}, "expdb": noise}
    with expdb.start(cfg, name=name, store="runs") as run:
        for step in range(1, 10):
            run.log({"train/loss": 5.0 / step, "train/tokens_per_s": 19_000.0}, step=step)
        run.log({"val/loss": value}, step=10)
"""


def make_runs(folder: Path) -> None:
    """Run the script in a folder: three more runs in its store."""
    (folder / "train.py").write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise AssertionError(done.stderr)


@pytest.fixture(scope="session")
def tui_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose store has three runs; tests only read it."""
    folder = tmp_path_factory.mktemp("tui")
    make_runs(folder)
    return folder


@pytest.fixture
def session(tui_folder: Path) -> Session:
    """The store of three runs."""
    return Session(store=open_store(tui_folder / "runs"), directory=tui_folder)


@pytest.fixture
def own_session(tui_folder: Path, tmp_path: Path) -> Session:
    """A copy of that store, to be written."""
    import shutil

    shutil.copytree(tui_folder / "runs", tmp_path / "runs")
    return Session(store=open_store(tmp_path / "runs"), directory=tmp_path)


@pytest.fixture
def empty_session(tmp_path: Path) -> Session:
    """A store without a run."""
    return Session(store=open_store(tmp_path / "runs", create=True), directory=tmp_path)


@pytest.fixture(scope="session")
def lab_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git project with declared experiments and ten runs; tests only read it."""
    import shutil

    folder = tmp_path_factory.mktemp("lab")
    shutil.copy(Path(__file__).parent / "lab_project.py", folder / "lab.py")
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    words = [sys.executable, "lab.py"]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)
    return folder


def session_of(folder: Path) -> Session:
    """The store of a project, with its work tree."""
    from expdb.git.worktree import WorkTree, find_worktree

    def worktree() -> WorkTree | None:
        found = find_worktree(folder)
        return found if isinstance(found, WorkTree) else None

    return Session(store=open_store(folder / "runs"), directory=folder, worktree_of=worktree)


@pytest.fixture
def lab(lab_folder: Path) -> Session:
    """The project of declared experiments."""
    return session_of(lab_folder)


@pytest.fixture
def own_lab(lab_folder: Path, tmp_path: Path) -> Session:
    """A copy of that project, to be changed."""
    import shutil

    shutil.copytree(lab_folder, tmp_path / "lab", symlinks=True)
    return session_of(tmp_path / "lab")
