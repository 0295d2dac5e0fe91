"""Comparisons and `status` over a real repository."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from expdb.errors import BadInput, NotFound
from expdb.index.reader import open_reader
from expdb.model import Attempt, Pin, Run, RunAt, RunState
from expdb.query.compare import comparison
from expdb.query.lookup import lookup, lookup_many
from expdb.query.path import run_path
from expdb.query.status import store_status
from expdb.store.layout import RunLayout
from expdb.store.store import Store
from tests.query.conftest import cast_run, set_ref
from tests.query.made import make_run, make_store, write_run

WHO = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]


def git(top: Path, *args: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    done = subprocess.run(
        ["git", *WHO, *args], cwd=top, env=env, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    top = tmp_path / "work"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    (top / "train.py").write_text("a = 1\nb = 2\n")
    (top / "notes.md").write_text("notes\n")
    git(top, "add", ".")
    git(top, "commit", "-qm", "first")
    return top


def pinned(run: Run, top: Path, **pin: object) -> Run:
    commit = git(top, "rev-parse", "HEAD")
    tree = git(top, "rev-parse", "HEAD^{tree}")
    made = Pin(commit=commit, tree=tree, branch="main")
    return replace(run, attempts=(Attempt(number=1, pin=replace(made, **pin)),))  # type: ignore[arg-type]


@pytest.fixture
def store(repository: Path) -> Store:
    return make_store(repository / "runs")


def code(store: Store, cwd: Path):  # type: ignore[no-untyped-def]
    with open_reader(store) as reader:
        return comparison(reader, lookup_many(reader, ["k3f9", "t1h6"]), cwd=cwd).code


def test_files_that_differ_between_pinned_trees_are_listed(
    store: Store, repository: Path, tmp_path: Path
) -> None:
    write_run(store, pinned(cast_run("k3f9x2m7qd"), repository))
    (repository / "train.py").write_text("a = 1\nb = 3\nc = 4\n")
    (repository / "notes.md").unlink()
    (repository / "blob.bin").write_bytes(b"\0\1\2")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "second")
    write_run(store, pinned(cast_run("t1h6y3cz8r"), repository))
    for cwd in (repository, tmp_path):  # elsewhere: the repository around the store is asked
        found = code(store, cwd)
        assert found.same_tree is False
        assert [(f.status, f.path, f.num_added, f.num_removed) for f in found.files] == [
            ("A", "blob.bin", None, None),
            ("D", "notes.md", 0, 1),
            ("M", "train.py", 2, 1),
        ]


def test_a_commit_that_is_not_here_is_named(store: Store, repository: Path) -> None:
    write_run(store, pinned(cast_run("k3f9x2m7qd"), repository))
    write_run(
        store,
        pinned(cast_run("t1h6y3cz8r"), repository, tree="d" * 40, commit="4be1f02" + "0" * 33),
    )
    found = code(store, repository)
    assert (found.same_tree, found.files) == (False, ())
    assert "4be1f02: their commits are not in this repository" in found.note


def test_what_a_pin_does_not_hold_is_said_though_trees_are_equal(
    store: Store, repository: Path
) -> None:
    write_run(store, pinned(cast_run("k3f9x2m7qd"), repository))
    lost = {"reproducible": False, "reasons": ("submodule vendor/tok has edits",)}
    write_run(store, pinned(cast_run("t1h6y3cz8r"), repository, **lost))
    found = code(store, repository)
    assert (found.same_tree, found.note) == (True, "t1h6 exp01: submodule vendor/tok has edits")


def status(store: Store, cwd: Path, head: RunAt | None = None):  # type: ignore[no-untyped-def]
    with open_reader(store) as reader:
        return store_status(reader, cwd=cwd, head=head)


def test_the_newest_run_of_each_experiment_variant_and_seed(store: Store, repository: Path) -> None:
    for run in ("k3f9x2m7qd", "m8c2v5tq1n", "t1h6y3cz8r", "h4q8z1rn6c", "c7t3b9q5nv"):
        write_run(store, cast_run(run))
    write_run(store, replace(cast_run("t1h6y3cz8r"), id="aaaaaaaaaa", created_at_ms=1, bytes=7))  # type: ignore[arg-type]
    set_ref(store, "baseline", "k3f9x2m7qd")
    found = status(store, repository)
    assert [(row.name, row.seed, row.run.id[:4]) for row in found.rows if row.run] == [
        ("baseline", 0, "k3f9"), ("baseline", 1, "m8c2"), ("exp01", 0, "t1h6"),
        ("exp01+optim.lr=0.005", 0, "h4q8"), ("exp09_fp16", 0, "c7t3"),
    ]  # fmt: skip
    assert (found.num_runs, found.bytes, found.metric) == (6, 7, "val/loss")
    assert found.counts == {"failed": 1, "finished": 5}
    assert {row.is_declared for row in found.rows} == {False}
    assert str(found.rows[2].run.delta.outcome) == "worse"  # type: ignore[union-attr]
    tree = found.work_tree
    assert (tree.in_git, tree.branch, tree.edits, tree.head) == (True, "main", (), None)
    assert tree.commit == git(repository, "rev-parse", "HEAD")
    assert tree.baseline is not None


def test_edits_are_against_the_tree_of_head(store: Store, repository: Path) -> None:
    write_run(store, pinned(cast_run("k3f9x2m7qd"), repository))
    head = RunAt(run="k3f9x2m7qd", step=300)
    before = (repository / ".git" / "index").read_bytes()
    found = status(store, repository, head).work_tree
    assert (found.edits, found.equals_head, found.head_step) == ((), True, 300)
    assert found.head is not None
    (repository / "train.py").write_text("a = 2\n")
    git(repository, "commit", "-qam", "second")  # git calls it clean, and yet it is not HEAD's code
    (repository / "new.py").write_text("")
    (repository / "notes.md").unlink()
    found = status(store, repository, head).work_tree
    assert found.edits == (("D", "notes.md"), ("M", "train.py"), ("?", "new.py"))
    assert found.equals_head is False
    assert before != b""


def test_asking_for_status_leaves_gits_index_as_it_is(store: Store, repository: Path) -> None:
    write_run(store, pinned(cast_run("k3f9x2m7qd"), repository))
    os.utime(repository / "train.py", (1, 1))  # git would like to refresh what it knows of it
    before = (repository / ".git" / "index").read_bytes()
    assert status(store, repository, RunAt(run="k3f9x2m7qd")).work_tree.equals_head
    assert status(store, repository).work_tree.edits == ()
    assert (repository / ".git" / "index").read_bytes() == before


def test_an_untracked_file_that_the_snapshot_holds_is_no_edit(
    store: Store, repository: Path
) -> None:
    from expdb.git.snapshot import take_pin
    from expdb.git.worktree import WorkTree, find_worktree

    (repository / "extra.py").write_text("x = 1\n")
    worktree = find_worktree(repository)
    assert isinstance(worktree, WorkTree)
    pin = take_pin(worktree, store_root=store.root, exclude=(), secret_files=(), used=())
    run = cast_run("k3f9x2m7qd")
    write_run(store, replace(run, attempts=(Attempt(number=1, pin=pin),)))
    head = RunAt(run="k3f9x2m7qd")
    assert status(store, repository, head).work_tree.equals_head
    (repository / "extra.py").write_text("x = 2\n")
    assert status(store, repository, head).work_tree.edits == (("M", "extra.py"),)


def test_no_repository_is_said_in_plain_words(tmp_path: Path) -> None:
    store = make_store(tmp_path / "runs")
    found = status(store, tmp_path)
    assert (found.work_tree.in_git, found.work_tree.reason) == (False, "not in a git repository")
    assert (found.rows, found.num_runs, found.bytes, found.metric) == ((), 0, 0, None)


def test_paths_of_a_run(tmp_path: Path) -> None:
    store = make_store(tmp_path / "runs")
    path = write_run(store, make_run("k3f9x2m7qd", value=1.0), points={"val/loss": {0: 1.0}})
    layout = RunLayout(path)
    layout.config_yaml.write_text("")
    (layout.attempt(1) / "log.txt").write_text("")
    layout.checkpoint(300).mkdir(parents=True)
    with open_reader(store) as reader:
        run = lookup(reader, "k3f9")
        assert run_path(reader, run) == path
        assert run_path(reader, run, "config") == layout.config_yaml
        assert run_path(reader, run, "points") == layout.points
        assert run_path(reader, run, "log") == layout.attempt(1) / "log.txt"
        assert run_path(reader, replace(run, step=300)) == layout.checkpoint(300)
        with pytest.raises(NotFound, match="has no checkpoint"):
            run_path(reader, run, "checkpoint")
        with pytest.raises(BadInput) as error:
            run_path(reader, run, "wheights")
        assert error.value.hints == ("parts: run config points checkpoint log",)


def test_without_deltas_all_else_is_the_same(store: Store, repository: Path) -> None:
    write_run(store, cast_run("k3f9x2m7qd"))
    write_run(store, cast_run("t1h6y3cz8r"))
    with open_reader(store) as reader:
        whole = store_status(reader, cwd=repository, head=None)
        bare = store_status(reader, cwd=repository, head=None, deltas=False)
    runs = [row.run for row in whole.rows if row.run]
    assert {run.id for run in runs if run.delta} == {"t1h6y3cz8r"}
    assert [row.run for row in bare.rows] == [replace(run, delta=None) for run in runs]
    assert replace(bare, rows=whole.rows) == whole


def test_an_unfinished_run_has_a_state_of_its_own(store: Store, repository: Path) -> None:
    write_run(store, cast_run("x5j2v8c0ke"))
    found = status(store, repository)
    assert [row.state for row in found.rows] == [str(RunState.RUNNING)]
