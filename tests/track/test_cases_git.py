"""Cases of the case log about the states of git in which a run starts: A19, A21, A24, by name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import expdb
from expdb.actions.rollback import prepare
from expdb.errors import Refused
from expdb.git.status import read_status
from expdb.git.worktree import WorkTree, find_worktree
from expdb.index.reader import open_reader
from expdb.model import Run
from expdb.store.points import read_series
from expdb.store.runs import read_run
from expdb.store.store import open_store

pytestmark = pytest.mark.slow

QUIET = {"expdb": {"print": "quiet"}}
Start = Callable[[Path], Run]


def git(top: Path, *words: str, check: bool = True) -> str:
    done = subprocess.run(["git", *words], cwd=top, check=check, capture_output=True)
    return os.fsdecode(done.stdout).strip()


def make_repo(top: Path) -> Path:
    top.mkdir(parents=True)
    git(top, "init", "-q", "-b", "main")
    (top / "train.py").write_text("lr = 1\n")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "one")
    (top / "train.py").write_text("lr = 2\n")
    git(top, "commit", "-q", "-a", "-m", "two")
    return top


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Train for three steps with `train.py` of a folder, and return the run."""

    def begin(top: Path) -> Run:
        script = str(top / "train.py")
        monkeypatch.setattr(sys.modules["__main__"], "__file__", script, raising=False)
        monkeypatch.chdir(top)
        with expdb.start(QUIET, store=tmp_path / "store", seed=0) as run:
            for step in range(1, 4):
                run.log({"train/loss": 1.0 / step}, step=step)
        return read_run(run.dir, store_root=tmp_path / "store")

    return begin


def kept_points(store: Path, run: Run) -> int:
    return len(read_series(store / run.path))


# --------------------------------------------------------------------------------------- A19


def test_case_a19_no_commit_yet(tmp_path: Path, start: Start) -> None:
    top = tmp_path / "new"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    (top / "train.py").write_text("lr = 1\n")
    pin = start(top).pin
    assert (pin.commit, pin.branch, pin.dirty) == (None, "main", True)
    assert pin.reasons == ("the repository has no commit yet",)
    assert git(top, "show", f"{pin.snapshot}:train.py") == "lr = 1"


def test_case_a19_a_plain_folder_and_no_way_back_to_it(tmp_path: Path, start: Start) -> None:
    top = tmp_path / "plain"
    top.mkdir()
    (top / "train.py").write_text("lr = 1\n")
    run = start(top)
    assert (run.pin.commit, run.pin.branch) == (None, None)
    assert run.pin.reasons == ("not in a git repository",)
    folder = tmp_path / "store" / run.path / "checkpoints" / "step=3"
    folder.mkdir(parents=True)
    manifest = {"format": 1, "needs": "0.1.0", "step": 3, "attempt": 1, "files": {}, "parts": {}}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "created_at_ms": 1}))
    worktree = find_worktree(make_repo(tmp_path / "repo"))
    assert isinstance(worktree, WorkTree)
    with open_reader(open_store(tmp_path / "store")) as reader, pytest.raises(Refused) as caught:
        prepare(reader, worktree, run.id)
    assert "is not kept: not in a git repository" in caught.value.message


def test_case_a19_a_shallow_clone_with_head_detached(tmp_path: Path, start: Start) -> None:
    origin = make_repo(tmp_path / "origin")
    top = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{origin}", str(top))
    git(top, "checkout", "-q", "--detach")
    pin = start(top).pin
    assert (pin.commit, pin.branch) == (git(origin, "rev-parse", "HEAD"), "detached")
    assert pin.reasons == ("a shallow clone: the history before it is absent",)
    assert not pin.dirty


def test_case_a19_no_git_on_the_path(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = make_repo(tmp_path / "repo")
    monkeypatch.setenv("PATH", str(tmp_path))
    pin = start(top).pin
    assert (pin.commit, pin.reasons) == (None, ("git is not installed",))


def test_case_a19_a_linked_work_tree(tmp_path: Path, start: Start) -> None:
    origin = make_repo(tmp_path / "origin")
    git(origin, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"), "HEAD~1")
    assert (tmp_path / "linked" / ".git").is_file()
    pin = start(tmp_path / "linked").pin
    assert (pin.commit, pin.branch) == (git(origin, "rev-parse", "HEAD~1"), "side")


def test_case_a19_a_repository_of_another_user(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a repository away")
    with tempfile.TemporaryDirectory() as folder:
        top = make_repo(Path(folder) / "repo")
        settings = Path(folder) / "gitconfig"
        settings.write_text("[user]\n\tname = Ada\n")
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
        for path in [top, *top.rglob("*")]:
            os.chown(path, 4321, 4321, follow_symlinks=False)
        before = settings.read_bytes()
        pin = start(top).pin
        assert (pin.commit, pin.reasons) == (None, ("the repository belongs to another user",))
        assert settings.read_bytes() == before
        shutil.rmtree(top)


# --------------------------------------------------------------------------------------- A21


def test_case_a21_a_huge_and_non_text_diff_stops_nothing(tmp_path: Path, start: Start) -> None:
    top = make_repo(tmp_path / "repo")
    (top / ".gitattributes").write_text("*.ipynb diff=notebook\n")
    (top / "big.ipynb").write_text('{"cells": []}\n')
    (top / "latin.py").write_bytes(b"# caf\xe9\n")
    (top / "data.npy").write_bytes(bytes(range(256)))
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "three")
    # A text conversion that would run for a minute wherever a diff is rendered.
    git(top, "config", "diff.notebook.textconv", "sleep 60; cat")
    notebook = b'{"cells": [' + b'"0123456789",' * 2_300_000 + b'"end"]}\n'
    assert len(notebook) > 29_000_000
    (top / "big.ipynb").write_bytes(notebook)
    (top / "latin.py").write_bytes(b"# caf\xe9 au lait\n")
    (top / "data.npy").write_bytes(bytes(range(255, -1, -1)))
    for number in range(50):
        (top / f"many/{number}").mkdir(parents=True)
        for other in range(1_000):
            (top / f"many/{number}/{other}").touch()
    run = start(top)
    assert kept_points(tmp_path / "store", run) == 3
    pin = run.pin
    assert (pin.dirty, pin.reproducible, pin.skipped) == (True, False, ())
    assert pin.reasons == ("50,000 untracked files, over 2,000: none of them is captured",)
    show = ["git", "cat-file", "blob"]
    for name in ("big.ipynb", "latin.py", "data.npy"):
        done = subprocess.run(
            [*show, f"{pin.snapshot}:{name}"], cwd=top, capture_output=True, check=True
        )
        assert done.stdout == (top / name).read_bytes()


def test_case_a21_one_untracked_file_of_300_mb(tmp_path: Path, start: Start) -> None:
    top = make_repo(tmp_path / "repo")
    (top / "weights.bin").touch()
    os.truncate(top / "weights.bin", 300_000_000)
    (top / "new.py").write_text("n = 1\n")
    pin = start(top).pin
    assert pin.skipped == ("weights.bin",)
    assert pin.reasons == ("weights.bin is untracked and 300 MB, over 10 MB: not captured",)
    assert git(top, "ls-tree", "--name-only", str(pin.snapshot)).split() == ["new.py", "train.py"]


# --------------------------------------------------------------------------------------- A24


@pytest.fixture
def strict(tmp_path: Path) -> Path:
    """A repository whose own settings stop commits and convert files."""
    top = make_repo(tmp_path / "strict")
    for name, value in {
        "commit.gpgSign": "true",
        "gpg.program": "/no/such/gpg",
        "core.autocrlf": "true",
        "core.filemode": "false",
    }.items():
        git(top, "config", name, value)
    (top / "dos.py").write_bytes(b"one\r\ntwo\r\n")
    git(top, "add", "-A")
    git(top, "-c", "commit.gpgSign=false", "commit", "-q", "-m", "three")
    hook = top / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho ran >> {tmp_path}/hooks\nexit 1\n")
    hook.chmod(0o755)
    (top / "train.py").chmod(0o755)
    return top


def test_case_a24_a_tree_that_git_calls_clean_is_clean(
    tmp_path: Path, strict: Path, start: Start
) -> None:
    assert git(strict, "status", "--porcelain") == ""
    pin = start(strict).pin
    assert (pin.dirty, pin.snapshot, pin.reproducible) == (False, None, True)
    assert pin.commit == git(strict, "rev-parse", "HEAD")


def test_case_a24_a_snapshot_runs_no_hook_and_needs_no_key(
    tmp_path: Path, strict: Path, start: Start
) -> None:
    (strict / "train.py").write_bytes(b"lr = 3\r\n")
    pin = start(strict).pin
    assert git(strict, "show", f"{pin.snapshot}:train.py") == "lr = 3"
    assert not (tmp_path / "hooks").exists()
    git(strict, "-c", "commit.gpgSign=false", "commit", "-q", "-a", "-m", "mine", check=False)
    assert (tmp_path / "hooks").read_text() == "ran\n"  # the user's own commits still run it
    git(strict, "config", "core.hooksPath", "/no/such/folder")
    assert start(strict).pin.snapshot == pin.snapshot
    worktree = find_worktree(strict)
    assert isinstance(worktree, WorkTree)
    assert [change.path for change in read_status(worktree, untracked=True).changes] == ["train.py"]
