"""What a pin holds beside the tree, names of every kind, settings of the user, odd moments."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from expdb.git.snapshot import take_pin
from expdb.git.worktree import Unavailable, WorkTree, find_worktree

pytestmark = pytest.mark.slow


def pin_of(repo, **options):
    worktree = find_worktree(repo.top)
    assert isinstance(worktree, WorkTree)
    before, disk = repo.fingerprint(), repo.disk()
    pin = take_pin(worktree, store_root=repo.top / "runs", **options)
    assert repo.fingerprint() == before
    assert repo.disk() == disk
    assert [p.name for p in worktree.private_dir.iterdir()] == []
    return pin


def modified(repo):
    repo.write("train.py", "lr = 3\n")


def test_branch_and_remote_are_pinned_without_user_info(repo):
    modified(repo)
    pin = pin_of(repo)
    assert (pin.branch, pin.num_edits) == ("main", 1)
    assert pin.remote == "https://example.org/lab/repo.git"


def test_a_damaged_index_leaves_the_commit(repo):
    (repo.top / ".git/index").write_bytes(b"damaged " * 20)
    pin = take_pin(find_worktree(repo.top), store_root=repo.top / "runs")
    assert (pin.commit, pin.branch) == (repo.text("rev-parse", "HEAD"), "main")
    (reason,) = pin.reasons
    assert reason.startswith("the work tree cannot be read: git status failed: ")
    assert not pin.reproducible


def test_equal_trees_share_a_commit_and_a_changed_one_does_not(repo):
    modified(repo)
    first = pin_of(repo)
    repo.git("add", "train.py")  # another index, the same work tree
    assert pin_of(repo).snapshot == first.snapshot
    repo.write("train.py", "lr = 4\n")
    assert pin_of(repo).snapshot != first.snapshot


def test_snapshot_has_head_as_its_only_parent_and_no_trace_of_the_user(repo):
    modified(repo)
    pin = pin_of(repo)
    assert repo.text("log", "-1", "--format=%P %an %ae %at", pin.snapshot) == (
        f"{pin.commit} expdb expdb@localhost 946684800"
    )


def test_detached_head(repo):
    repo.git("checkout", "--quiet", "--detach", "HEAD~1")
    repo.write("train.py", "lr = 5\n")
    pin = pin_of(repo)
    assert pin.branch == "detached"
    assert pin.commit == repo.text("rev-parse", "main~1")
    assert repo.tree(pin.snapshot)["train.py"][1] == b"lr = 5\n"


def test_no_commit_yet_makes_a_root_snapshot(empty_repo):
    empty_repo.write("train.py", "x\n")
    pin = pin_of(empty_repo)
    assert (pin.commit, pin.branch, pin.dirty, pin.num_edits) == (None, "main", True, 1)
    assert pin.reasons == ("the repository has no commit yet",)
    assert pin.reproducible
    assert empty_repo.tree(pin.snapshot) == {"train.py": ("100644", b"x\n")}
    assert empty_repo.text("log", "--format=%P", pin.snapshot) == ""
    assert not (empty_repo.top / ".git/index").exists()


def test_no_commit_yet_but_staged(empty_repo):
    empty_repo.write("train.py", "x\n")
    empty_repo.git("add", "train.py")
    empty_repo.write("train.py", "y\n")
    pin = pin_of(empty_repo)
    assert empty_repo.tree(pin.snapshot) == {"train.py": ("100644", b"y\n")}


def test_lost_index_does_not_turn_every_file_into_an_edit(repo):
    (repo.top / ".git/index").unlink()
    pin = pin_of(repo)
    assert not pin.dirty
    assert pin.tree == repo.text("rev-parse", "HEAD^{tree}")


def test_no_repository(tmp_path):
    found = find_worktree(tmp_path)
    assert found == Unavailable(reason="not in a git repository")
    pin = take_pin(found, store_root=tmp_path / "runs")
    assert (pin.commit, pin.pinned, pin.reproducible) == (None, None, False)
    assert pin.reasons == ("not in a git repository",)


def test_git_missing(repo, monkeypatch, tmp_path):
    worktree = find_worktree(repo.top)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_worktree(repo.top) == Unavailable(reason="git is not installed")
    pin = take_pin(worktree, store_root=repo.top / "runs")  # it went away between the two calls
    assert not pin.reproducible
    assert "git is not installed" in pin.reasons[0]


def test_linked_worktree_has_its_own_state(repo, tmp_path):
    repo.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "linked"), "HEAD~1")
    linked = type(repo)(tmp_path / "linked")
    linked.write("train.py", "side\n")
    worktree = find_worktree(linked.top)
    assert worktree.git_dir == repo.top / ".git/worktrees/linked"
    assert worktree.common_dir == repo.top / ".git"
    pin = pin_of(linked)
    assert (pin.branch, pin.commit) == ("side", repo.text("rev-parse", "main~1"))
    assert linked.tree(pin.snapshot)["train.py"][1] == b"side\n"
    assert repo.text("rev-parse", f"refs/expdb/pins/{pin.snapshot}") == pin.snapshot
    assert not pin_of(repo).dirty


def test_pin_from_a_folder_below_the_top_covers_the_whole_tree(repo):
    repo.write("train.py", "lr = 6\n")
    worktree = find_worktree(repo.top / "tools")
    assert worktree.top == repo.top
    assert repo.tree(take_pin(worktree, store_root=repo.top / "runs").snapshot)["train.py"][1] == (
        b"lr = 6\n"
    )


def test_names_of_every_kind_survive(repo):
    names = ["a b", "quo'te\"s", "line\nend", "tab\there", "数.py", ":(top)x", "-n", "*.py", " "]
    raw = os.fsdecode(b"latin-\xe9.txt")
    for name in [*names, raw]:
        repo.write(f"odd/{name}", name.encode("utf-8", "surrogateescape"))
    pin = pin_of(repo)
    tree = repo.tree(pin.snapshot)
    for name in [*names, raw]:
        data = name.encode("utf-8", "surrogateescape")
        assert tree[f"odd/{name}"] == ("100644", data)
    assert pin.num_edits == len(names) + 1


def test_environment_that_points_elsewhere_is_ignored(repo, make_repo, monkeypatch, tmp_path):
    other = make_repo("other")
    head = repo.text("rev-parse", "HEAD")
    repo.write("train.py", "mine\n")
    index = other.top / ".git/index"
    before = index.read_bytes()
    monkeypatch.setenv("GIT_DIR", str(other.top / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.top))
    monkeypatch.setenv("GIT_INDEX_FILE", str(index))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path / "lost"))
    monkeypatch.setenv("GIT_NAMESPACE", "strange")
    worktree = find_worktree(repo.top)
    assert worktree.top == repo.top
    pin = take_pin(worktree, store_root=repo.top / "runs")
    for name in list(os.environ):
        if name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
            monkeypatch.delenv(name)
    monkeypatch.delenv("GIT_NAMESPACE")
    assert pin.commit == head
    assert repo.tree(pin.snapshot)["train.py"][1] == b"mine\n"
    assert index.read_bytes() == before
    assert repo.text("rev-parse", f"refs/expdb/pins/{pin.snapshot}") == pin.snapshot


def test_hooks_signatures_and_monitors_of_the_user_do_not_matter(repo, tmp_path):
    ran = tmp_path / "ran"
    for hook in ("pre-commit", "commit-msg", "reference-transaction", "post-index-change"):
        path = repo.write(f".git/hooks/{hook}", f"#!/bin/sh\necho {hook} >> {ran}\nexit 1\n")
        path.chmod(0o755)
    monitor = repo.write(".git/monitor", f"#!/bin/sh\necho monitor >> {ran}\nexit 1\n")
    monitor.chmod(0o755)
    for name, value in {
        "commit.gpgSign": "true",
        "gpg.program": "/no/such/gpg",
        "core.fsmonitor": str(monitor),
        "core.logAllRefUpdates": "always",
        "core.safecrlf": "true",
        "core.splitIndex": "true",
    }.items():
        repo.git("config", name, value)
    modified(repo)
    repo.write("crlf.txt", b"a\r\nb\n")
    pin = pin_of(repo)
    assert repo.tree(pin.snapshot)["train.py"][1] == b"lr = 3\n"
    assert repo.tree(pin.snapshot)["crlf.txt"][1] == b"a\r\nb\n"
    assert not ran.exists()
    assert not (repo.top / ".git/logs/refs/expdb").exists()


def test_line_endings_that_git_calls_clean_are_clean(empty_repo):
    empty_repo.git("config", "core.autocrlf", "true")
    empty_repo.write("a.py", b"one\r\ntwo\r\n")
    empty_repo.commit("first")
    assert empty_repo.git("status", "--porcelain") == b""
    pin = pin_of(empty_repo)
    assert (pin.dirty, pin.snapshot) == (False, None)


def test_line_endings_that_cannot_come_back_do_not_stop_a_pin(empty_repo):
    empty_repo.git("config", "core.autocrlf", "input")
    empty_repo.git("config", "core.safecrlf", "true")
    empty_repo.write("mixed.txt", b"a\r\nb\n")
    pin = pin_of(empty_repo)
    assert empty_repo.tree(pin.snapshot)["mixed.txt"][1] == b"a\nb\n"


def test_executable_bit_is_no_edit_where_git_does_not_record_it(repo):
    repo.git("config", "core.filemode", "false")
    (repo.top / "model.py").chmod(0o755)
    assert not pin_of(repo).dirty


def test_edit_in_the_very_instant_of_the_index_is_seen(repo):
    repo.git("config", "core.trustctime", "false")
    repo.git("config", "core.checkStat", "minimal")
    file, index = repo.top / "train.py", repo.top / ".git/index"
    os.utime(file, (1_000_000_000, 1_000_000_000))
    repo.git("update-index", "--refresh")
    file.write_text("lr = 7\n")  # of equal size, and with equal times
    os.utime(file, (1_000_000_000, 1_000_000_000))
    os.utime(index, (1_000_000_000, 1_000_000_000))
    assert b"train.py" in repo.git("--no-optional-locks", "status", "--porcelain")
    assert repo.tree(pin_of(repo).pinned)["train.py"][1] == b"lr = 7\n"


def test_split_index_is_read_and_left(repo):
    repo.git("update-index", "--split-index")
    repo.write("train.py", "lr = 7\n")
    assert repo.tree(pin_of(repo).snapshot)["train.py"][1] == b"lr = 7\n"


def test_pins_survive_a_reset_and_gc(repo):
    modified(repo)
    pin = pin_of(repo)
    repo.git("reset", "--quiet", "--hard", "HEAD~1")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--quiet", "--prune=now")
    assert repo.tree(pin.snapshot)["train.py"][1] == b"lr = 3\n"
    assert pin.commit != repo.text("rev-parse", "HEAD")
    repo.git("cat-file", "-e", pin.commit)


def test_many_pins_at_once_agree(repo):
    modified(repo)
    worktree = find_worktree(repo.top)
    with ThreadPoolExecutor(8) as pool:
        pins = list(pool.map(lambda _: take_pin(worktree, store_root=repo.top / "runs"), range(16)))
    assert len({pin.snapshot for pin in pins}) == 1
    assert {pin.reasons for pin in pins} == {()}


def test_git_dir_that_cannot_be_written_is_said_not_raised(repo):
    modified(repo)
    repo.write(".git/expdb", "in the way")
    pin = take_pin(find_worktree(repo.top), store_root=repo.top / "runs")
    assert (pin.dirty, pin.snapshot, pin.reproducible) == (True, None, False)
    assert pin.commit == repo.text("rev-parse", "HEAD")
    assert pin.reasons[-1].startswith("the work tree could not be captured: ")


def test_shallow_clone(repo, tmp_path):
    subprocess.run(
        ["git", "clone", "--quiet", "--depth=1", f"file://{repo.top}", str(tmp_path / "shallow")],
        check=True,
        capture_output=True,
    )
    shallow = type(repo)(tmp_path / "shallow")
    shallow.git("checkout", "--quiet", "--detach")
    shallow.write("train.py", "here\n")
    pin = pin_of(shallow)
    assert pin.commit == repo.text("rev-parse", "HEAD")
    assert pin.branch == "detached"
    assert pin.reasons == ("a shallow clone: the history before it is absent",)
    assert shallow.tree(pin.snapshot)["train.py"][1] == b"here\n"
    assert pin.remote == f"file://{Path(repo.top)}"
