"""Save, restore, verify, and back: bytes of files, what is staged, untracked files."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expdb.git.restore import (
    plan,
    put_index_back,
    verify,
)
from expdb.git.snapshot import forget_saved, load_saved
from expdb.git.worktree import find_worktree

pytestmark = pytest.mark.slow


def check_round_trip(repo, target):
    worktree = find_worktree(repo.top)
    target = repo.text("rev-parse", f"{target}^{{tree}}")
    disk, status, prints = repo.disk(), repo.status(), repo.fingerprint()
    outside = {p: entry for p, entry in disk.items() if is_outside(repo, p)}
    saved, rows, blocked = repo.roll_to(target)
    if blocked:
        assert repo.disk() == disk
        assert repo.fingerprint() == prints
        return blocked
    assert verify(worktree, target, rows) == []
    expected = {p: data for p, (_, data) in repo.tree(target).items()}
    now = repo.disk()
    assert {p: data for p, (_, data) in now.items() if p not in outside} == expected
    assert {p: now[p] for p in outside} == outside
    assert repo.text("write-tree") == target  # the difference to HEAD is staged
    assert repo.git("diff-files", "--name-only") == b""
    index = str(worktree.index_path)
    here = {name: data for name, data in repo.fingerprint().items() if name != index}
    assert here == {name: data for name, data in prints.items() if name != index}
    repo.roll_back(saved)
    assert repo.disk() == disk
    assert repo.status() == status
    return ()


def is_outside(repo, path):
    """Whether a snapshot leaves the path alone: ignored, or an output, and not tracked."""
    if path in os.fsdecode(repo.git("ls-files", "-z")).split("\0"):
        return False
    return path.startswith(("venv/", "outputs/")) or path.endswith((".log", ".key"))


def test_edits_of_every_kind_come_back(repo):
    repo.write(".git/info/exclude", "venv/\n")
    repo.write("venv/lib.py", "ignored\n")
    repo.write("outputs/a.txt", "an output\n")
    repo.write("train.log", "a log\n")
    repo.edit_every_way()
    assert check_round_trip(repo, "HEAD~1") == ()
    assert check_round_trip(repo, "HEAD") == ()


def test_undo_of_an_undo(repo):
    worktree = find_worktree(repo.top)
    repo.edit_every_way()
    first, _, _ = repo.roll_to(repo.text("rev-parse", "HEAD~1^{tree}"), "op1")
    rolled, index = repo.disk(), repo.status()
    second, _, _ = repo.roll_to(first.tree, "op2")
    put_index_back(worktree, first.index_copy)
    assert repo.disk() != rolled
    repo.roll_back(second, "op3")
    assert (repo.disk(), repo.status()) == (rolled, index)


def test_file_and_folder_change_places(repo):
    (repo.top / "model.py").unlink()
    repo.write("model.py/part.py", "p\n")
    (repo.top / "tools/run.sh").unlink()
    (repo.top / "tools").rmdir()
    (repo.top / "tools").symlink_to("data")
    (repo.top / "model.py/empty").mkdir()
    worktree = find_worktree(repo.top)
    head = repo.text("rev-parse", "HEAD^{tree}")
    disk = repo.disk()
    saved, rows, blocked = repo.roll_to(head)
    assert blocked == ()
    assert verify(worktree, head, rows) == []
    assert (repo.top / "model.py").read_text() == "width = 2\n"
    assert (repo.top / "data/a b.txt").read_text() == "one\n"
    repo.roll_back(saved)
    assert repo.disk() == disk


def test_hidden_edits_are_saved_and_come_back_with_their_flags(repo):
    repo.git("update-index", "--assume-unchanged", "train.py")
    repo.git("update-index", "--skip-worktree", "model.py")
    repo.write("train.py", "hidden one\n")
    repo.write("model.py", "hidden two\n")
    flags = repo.git("ls-files", "-v")
    saved, _, blocked = repo.roll_to(repo.text("rev-parse", "HEAD~1^{tree}"))
    assert blocked == ()
    assert (repo.top / "train.py").read_text() == "lr = 1\n"
    assert (repo.top / "model.py").read_text() == "width = 2\n"
    repo.roll_back(saved)
    assert (repo.top / "train.py").read_text() == "hidden one\n"
    assert (repo.top / "model.py").read_text() == "hidden two\n"
    assert repo.git("ls-files", "-v") == flags


def test_staged_blobs_survive_gc(repo):
    worktree = find_worktree(repo.top)
    repo.write("train.py", "staged only\n")
    repo.git("add", "train.py")
    repo.write("train.py", "edited\n")
    saved = repo.save("op1")
    assert repo.text("rev-parse", "refs/expdb/undo/op1^2^{tree}") == saved.index_tree
    repo.git("reset", "--quiet", "--hard")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--quiet", "--prune=now")
    put_index_back(worktree, saved.index_copy)
    assert repo.git("show", ":train.py") == b"staged only\n"
    assert repo.tree("refs/expdb/undo/op1")["train.py"][1] == b"edited\n"


def test_saving_changes_nothing_and_can_be_loaded_and_forgotten(repo):
    worktree = find_worktree(repo.top)
    repo.edit_every_way()
    before, disk = repo.fingerprint(), repo.disk()
    saved = repo.save("op1")
    assert (repo.fingerprint(), repo.disk()) == (before, disk)
    assert saved.index_copy.read_bytes() == worktree.index_path.read_bytes()
    loaded = load_saved(worktree, "op1")
    assert (loaded.commit, loaded.tree, loaded.index_tree) == (
        saved.commit,
        saved.tree,
        saved.index_tree,
    )
    assert repo.text("rev-parse", f"{saved.commit}^1") == repo.text("rev-parse", "HEAD")
    forget_saved(worktree, "op1")
    assert load_saved(worktree, "op1") is None
    assert list(worktree.private_dir.iterdir()) == []
    assert repo.git("for-each-ref", "refs/expdb") == b""


def test_repository_without_a_commit_can_be_saved_and_restored(empty_repo, repo):
    fresh = type(repo)(repo.top.parent / "fresh")
    subprocess.run(["git", "init", "--quiet", str(fresh.top)], check=True)
    fresh.write("train.py", "x\n")
    worktree = find_worktree(fresh.top)
    status = fresh.status()
    empty = fresh.git("hash-object", "-t", "tree", "-w", "--stdin", stdin=b"").decode().strip()
    saved, rows, blocked = fresh.roll_to(empty)
    assert (blocked, [row.action for row in rows]) == ((), ["delete"])
    assert fresh.disk() == {}
    loaded = load_saved(worktree, "op1")
    assert (loaded.tree, loaded.index_tree) == (saved.tree, empty)
    fresh.roll_back(saved)
    assert fresh.disk() == {"train.py": ("-", b"x\n")}
    assert fresh.status() == status


def test_split_index_copy_stands_alone(repo):
    worktree = find_worktree(repo.top)
    repo.git("update-index", "--split-index")
    repo.write("train.py", "staged\n")
    repo.git("add", "train.py")
    saved = repo.save("op1")
    for path in worktree.git_dir.glob("sharedindex.*"):
        path.unlink()
    put_index_back(worktree, saved.index_copy)
    assert repo.git("show", ":train.py") == b"staged\n"


def test_line_endings_come_back_and_the_raw_bytes_of_others_stay(empty_repo):
    repo = empty_repo
    repo.git("config", "core.autocrlf", "true")
    repo.write("a.py", b"one\r\n")
    repo.write("same.py", b"same\r\n")
    repo.commit("first")
    repo.write("a.py", b"two\r\n")
    repo.commit("second")
    repo.write("a.py", b"three\r\n")
    assert check_round_trip_raw(repo, "HEAD~1", {"a.py": b"one\r\n", "same.py": b"same\r\n"}) == ()


def check_round_trip_raw(repo, target, expected):
    worktree = find_worktree(repo.top)
    target = repo.text("rev-parse", f"{target}^{{tree}}")
    disk, status = repo.disk(), repo.status()
    saved, rows, blocked = repo.roll_to(target)
    if blocked:
        assert repo.disk() == disk
        return blocked
    assert verify(worktree, target, rows) == []
    assert {path: (repo.top / path).read_bytes() for path in expected} == expected
    repo.roll_back(saved)
    assert (repo.disk(), repo.status()) == (disk, status)
    return ()


def test_changed_attributes_rewrite_the_files_they_convert(empty_repo):
    repo = empty_repo
    repo.write("a.txt", b"one\n")
    repo.write("b.py", b"two\n")
    repo.write(".gitattributes", "")
    repo.commit("first")
    repo.write(".gitattributes", "*.txt text eol=crlf\n")
    repo.write("a.txt", b"one\r\n")
    repo.commit("second")
    assert repo.git("status", "--porcelain") == b""
    worktree = find_worktree(repo.top)
    rows = plan(worktree, "HEAD", "HEAD~1")
    assert [(row.path, row.before == row.after) for row in rows] == [
        (".gitattributes", False),
        ("a.txt", True),
    ]
    blocked = check_round_trip_raw(
        repo, "HEAD~1", {".gitattributes": b"", "a.txt": b"one\n", "b.py": b"two\n"}
    )
    assert blocked == ()


PATHS = [
    "train.py",
    "model.py",
    "gone.py",
    "extra/new.py",
    "tools/run.sh",
    "tools",
    "n w/é",
    "x.log",
]
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["write", "stage", "remove", "link", "mode", "uncache", "rename"]),
        st.sampled_from(PATHS),
        st.sampled_from(["a\n", "lr = 1\n", "old\n", "", "b\r\n"]),
    ),
    min_size=1,
    max_size=8,
)


def edit(repo, kind, path, text):
    full = repo.top / path
    if kind in ("write", "link"):
        if full.is_dir() and not full.is_symlink():
            shutil.rmtree(full)
        if full.parent.is_file() or full.parent.is_symlink():
            full.parent.unlink()
        full.unlink(missing_ok=True)
        if kind == "link":
            full.parent.mkdir(exist_ok=True)
            full.symlink_to(text.strip() or "model.py")
        else:
            repo.write(path, text)
    elif kind == "stage":
        repo.git("add", "--all", "--", path, check=False)
    elif kind == "uncache":
        repo.git("rm", "-r", "--quiet", "--cached", "--", path, check=False)
    elif not os.path.lexists(full):
        return
    elif kind == "remove":
        shutil.rmtree(full) if full.is_dir() and not full.is_symlink() else full.unlink()
    elif kind == "mode" and not full.is_symlink() and full.is_file():
        full.chmod(0o755 if text else 0o644)
    elif kind == "rename":
        repo.git("mv", "--", path, "moved", check=False)


def check_edits(repo, tmp_path, edits, target):
    copy = tmp_path / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(repo.top, copy, symlinks=True)
    work = type(repo)(copy)
    work.git("update-index", "-q", "--refresh")
    for kind, path, text in edits:
        edit(work, kind, path, text)
    blocked = check_round_trip(work, target)
    # Only what no snapshot holds may be in the way: a log where a plan has no path never is.
    assert blocked == ()


TARGETS = st.sampled_from(["HEAD", "HEAD~1"])


def examples(number):
    return settings(
        max_examples=number,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )


@examples(4)
@given(edits=EDITS, target=TARGETS)
def test_any_edits_come_back_or_nothing_is_written(repo, tmp_path, edits, target):
    check_edits(repo, tmp_path, edits, target)


@pytest.mark.soak
@examples(100 * int(os.environ.get("SOAK", "1")))
@given(edits=EDITS, target=TARGETS)
def test_many_edits_come_back_or_nothing_is_written(repo, tmp_path, edits, target):
    check_edits(repo, tmp_path, edits, target)
