"""Pins where git does not keep all as plain files: a start works, and says what is missing."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from expdb.git.snapshot import take_pin
from expdb.git.worktree import find_worktree

NOBODY = 65534


def pin_of(repo):
    before = repo.fingerprint()
    pin = take_pin(find_worktree(repo.top), store_root=repo.top / "runs")
    assert repo.fingerprint() == before
    return pin


def add_submodule(repo, made, path="lib"):
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(made.top), path)
    repo.commit("with a submodule")
    return repo.top / path


def test_clean_submodule_is_no_reason(repo, make_repo):
    add_submodule(repo, make_repo("made"))
    pin = pin_of(repo)
    assert (pin.dirty, pin.reproducible, pin.reasons) == (False, True, ())


@pytest.mark.parametrize("name", ["lib.py", "new.py"])
def test_edits_inside_a_submodule_are_said(repo, make_repo, name):
    folder = add_submodule(repo, make_repo("made"))
    repo.git("config", "submodule.lib.ignore", "all")
    (folder / name).write_text("edited\n")
    pin = pin_of(repo)
    assert pin.reasons == ("edits inside the submodule lib are not captured",)
    assert not pin.reproducible


def test_nested_repository_is_left_out_and_said(repo, make_repo):
    make_repo("repo/inner")
    empty = repo.top / "no commit yet"
    empty.mkdir()
    type(repo)(empty).git("init", "--quiet")
    repo.write("new.py", "x")
    pin = pin_of(repo)
    assert set(pin.reasons) == {
        "inner/ is a repository of its own: not captured",
        "no commit yet/ is a repository of its own: not captured",
    }
    assert not pin.reproducible
    tree = repo.tree(pin.snapshot)
    assert "new.py" in tree
    assert "inner" not in tree


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_edits_hidden_by_a_flag_are_said(repo, flag):
    repo.git("update-index", flag, "train.py")
    assert pin_of(repo).reasons == ()
    repo.write("train.py", "hidden\n")
    assert repo.git("status", "--porcelain") == b""
    pin = pin_of(repo)
    assert pin.reasons == ("edits of train.py are hidden from git by a flag on it: not captured",)
    assert not pin.reproducible


def test_sparse_checkout_loses_nothing(repo):
    repo.git("sparse-checkout", "set", "--no-cone", "/*", "!/extra/")
    assert not (repo.top / "extra").exists()
    repo.write("train.py", "sparse\n")
    pin = pin_of(repo)
    assert "extra/new.py" in repo.tree(pin.snapshot)
    assert (pin.reproducible, pin.reasons) == (True, ())


def lfs_like(repo, clean="sed s/secret/pointer/", required="false"):
    repo.git("config", "filter.lfs.clean", clean)
    repo.git("config", "filter.lfs.smudge", "sed s/pointer/secret/")
    repo.git("config", "filter.lfs.required", required)
    repo.write(".gitattributes", "*.bin filter=lfs\n")


def test_edited_file_behind_a_filter_is_said(repo):
    lfs_like(repo)
    repo.write("w.bin", "secret one\n")
    repo.commit("third")
    assert pin_of(repo).reasons == ()
    repo.write("w.bin", "secret two\n")
    pin = pin_of(repo)
    assert repo.tree(pin.snapshot)["w.bin"][1] == b"pointer two\n"
    assert pin.reasons == ("w.bin went through the git filter lfs: only its output is captured",)
    assert not pin.reproducible


def test_failing_filter_stores_the_raw_bytes(repo):
    lfs_like(repo)
    repo.write("w.bin", "secret one\n")
    repo.commit("third")
    lfs_like(repo, clean="false", required="true")
    repo.write("w.bin", "secret two\n")
    repo.write("model.py", "edited\n")
    pin = pin_of(repo)
    tree = repo.tree(pin.snapshot)
    assert tree["w.bin"][1] == b"secret two\n"
    assert tree["model.py"][1] == b"edited\n"
    assert "a git filter failed" in pin.reasons[0]
    assert not pin.reproducible


def test_failing_filter_on_an_untracked_file_leaves_the_others(repo):
    lfs_like(repo)
    repo.commit("third")
    lfs_like(repo, clean="false", required="true")
    repo.write("new.bin", "secret\n")
    repo.write("new.py", "x\n")
    pin = pin_of(repo)
    tree = repo.tree(pin.snapshot)
    assert "new.py" in tree
    assert "new.bin" not in tree
    assert pin.skipped == ("new.bin",)
    assert not pin.reproducible


@pytest.fixture
def shared(repo):
    """The repository where another user can reach it."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    shutil.copytree(repo.top, folder / "repo", symlinks=True)
    yield type(repo)(folder / "repo")
    shutil.rmtree(folder)


def as_nobody(top):
    """Pin as another user; by fork, since the interpreter may be closed to others."""
    if os.geteuid() != 0:
        pytest.skip("only root can run a process as another user")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = ["the child failed"]
        try:
            os.environ["HOME"] = "/nonexistent"
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            pin = take_pin(find_worktree(top), store_root=top / "runs")
            said = [pin.commit, pin.snapshot, pin.reproducible, pin.reasons, pin.skipped]
        finally:
            os.write(write, json.dumps(said).encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = json.loads(pipe.read())
    os.waitpid(child, 0)
    return said


def test_repository_of_another_user(shared):
    assert as_nobody(shared.top) == [
        None,
        None,
        False,
        ["the repository belongs to another user"],
        [],
    ]


def test_unreadable_files_are_named_and_the_rest_is_captured(shared):
    shared.write("train.py", "unreadable\n").chmod(0)
    shared.write("new.py", "unreadable\n").chmod(0)
    shared.write("model.py", "edited\n")
    for folder, folders, files in os.walk(shared.top):
        for name in [".", *folders, *files]:
            os.chown(os.path.join(folder, name), NOBODY, NOBODY, follow_symlinks=False)
    commit, snapshot, reproducible, reasons, skipped = as_nobody(shared.top)
    assert commit is not None
    assert not reproducible
    assert set(reasons) == {
        "train.py cannot be read: its edits are not captured",
        "new.py cannot be read: not captured",
    }
    assert skipped == ["new.py"]
    for folder, folders, files in os.walk(shared.top):
        for name in [".", *folders, *files]:
            os.chown(os.path.join(folder, name), 0, 0, follow_symlinks=False)
    tree = shared.tree(snapshot)
    assert tree["model.py"][1] == b"edited\n"
    assert tree["train.py"][1] == b"lr = 2\n"
    assert "new.py" not in tree
