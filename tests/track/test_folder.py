"""The folder of a Hydra job's run: one name, nothing left behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from expdb.errors import BadInput
from expdb.store.ids import is_id
from expdb.store.store import open_store
from expdb.track.begin import leave_folder, take_folder
from expdb.track.folder import (
    entry_script,
    forget_sweep_file,
    new_run_dir,
    remove_empty,
    store_of,
    store_of_run_dir,
)
from expdb.track.job import Job


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(
        sys.modules["__main__"], "__file__", str(tmp_path / "train.py"), raising=False
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path / "train.py"


def test_a_name_is_made_and_nothing_else(tmp_path: Path) -> None:
    path = new_run_dir(["+exp=Exp/01", "optim.lr=1"], None)
    assert path.parent == tmp_path / "runs" / "exp=%45xp%2F01"
    assert is_id(path.name.removeprefix("run="))
    assert new_run_dir([], "there").parent == tmp_path / "there" / "exp=adhoc"
    assert new_run_dir(["experiment=a"], None, "experiment").parent.name == "exp=a"
    assert len({new_run_dir([], None) for _ in range(200)}) == 200
    assert os.listdir(tmp_path) == []
    with pytest.raises(BadInput):
        open_store(tmp_path / "s", create=True).layout.run_dir("a", "../x")


def test_the_store_is_found_as_start_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: Path
) -> None:
    assert entry_script() == script
    assert store_of(None) == tmp_path / "runs"
    open_store(tmp_path / "runs", create=True)
    deep = tmp_path / "deep" / "train.py"
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(deep), raising=False)
    assert store_of(None) == tmp_path / "runs"
    monkeypatch.setenv("EXPDB_STORE", "env")
    assert store_of("given") == tmp_path / "env"


def test_only_the_form_of_a_runs_folder_counts(tmp_path: Path) -> None:
    good = tmp_path / "exp=a" / "run=abcdefghjk"
    assert store_of_run_dir(good) == tmp_path
    for other in ("exp=a/run=ABC", "exp=a/abcdefghjk", "a/run=abcdefghjk", "outputs/2026-01-01"):
        assert store_of_run_dir(tmp_path / other) is None


def test_an_empty_folder_goes_with_what_was_made_for_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "exp=a" / "run=abcdefghjk"
    path.mkdir(parents=True)
    remove_empty(path)
    assert os.listdir(tmp_path) == []
    path.mkdir(parents=True)
    (path / "mine").touch()
    remove_empty(path)
    assert path.is_dir()


def test_a_store_that_cannot_be_written_leaves_hydra_a_place_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    path = new_run_dir([], None)
    assert path.is_dir()
    assert not path.is_relative_to(tmp_path)
    assert forget_sweep_file(None) != tmp_path / "runs"


def test_a_job_takes_the_folder_that_hydra_made_for_it_once(tmp_path: Path) -> None:
    store = open_store(tmp_path / "runs", create=True)
    made = store.layout.run_dir("a", "abcdefghjk")
    made.mkdir(parents=True)
    job = Job(run_dir=made)
    assert take_folder(store, job, "a") == made
    assert take_folder(store, job, "other").parent.name == "exp=other"
    (made / "run.json").touch()
    assert take_folder(store, job, "a") != made
    assert take_folder(store, Job(run_dir=tmp_path), "a").parent == made.parent


def test_a_job_with_another_run_leaves_its_folder_also_as_the_current_one(tmp_path: Path) -> None:
    store = open_store(tmp_path / "runs", create=True)
    made, other = (store.layout.run_dir("a", run) for run in ("abcdefghjk", "bbcdefghjk"))
    for folder in (made, other):
        folder.mkdir(parents=True)
    os.chdir(made)
    leave_folder(store, Job(run_dir=made), instead=made)
    assert made.is_dir()
    leave_folder(store, Job(run_dir=made), instead=other)
    assert (made.exists(), Path.cwd()) == (False, other)
    leave_folder(store, Job(run_dir=tmp_path), instead=other)
    assert tmp_path.is_dir()
