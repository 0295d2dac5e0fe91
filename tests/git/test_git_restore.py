"""Save, restore, verify, and back: bytes of files, what is staged, untracked files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expdb.errors import NotFound, Refused
from expdb.git.restore import (
    blockers,
    path_state,
    path_states,
    plan,
    put_index_back,
    restore,
    verify,
)
from expdb.git.snapshot import forget_saved, load_saved, save_worktree
from expdb.git.worktree import find_worktree

CODE = Path(sys.modules["expdb"].__path__[0]).parent


def save(worktree, op, **options):
    return save_worktree(worktree, store_root=worktree.top / "runs", op=op, **options)


def roll_to(worktree, target, op="op1"):
    """Save, plan, restore to `target`; return (saved, rows, what blocks)."""
    saved = save(worktree, op)
    rows = plan(worktree, saved.tree, target)
    blocked = blockers(worktree, saved, rows)
    if not blocked:
        restore(worktree, base_index=saved.base_index, tree=target, rows=rows)
    return saved, rows, blocked


def roll_back(worktree, saved, op="op2"):
    """Undo: the same recipe towards the snapshot, then the saved index."""
    _, _, blocked = roll_to(worktree, saved.tree, op)
    assert blocked == ()
    put_index_back(worktree, saved.index_copy)


def check_round_trip(repo, target):
    worktree = find_worktree(repo.top)
    target = repo.text("rev-parse", f"{target}^{{tree}}")
    disk, status, prints = repo.disk(), repo.status(), repo.fingerprint()
    outside = {p: entry for p, entry in disk.items() if is_outside(repo, p)}
    saved, rows, blocked = roll_to(worktree, target)
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
    roll_back(worktree, saved)
    assert repo.disk() == disk
    assert repo.status() == status
    return ()


def is_outside(repo, path):
    """Whether a snapshot leaves the path alone: ignored, or an output."""
    return path.startswith(("venv/", "outputs/")) or path.endswith((".log", ".key"))


def edits_of_every_kind(repo):
    repo.write("train.py", "staged\n")
    repo.git("add", "train.py")
    repo.write("train.py", "staged, then edited\n")
    repo.write("notes with space.txt", "untracked\n")
    repo.write("staged new.py", "new\n")
    repo.git("add", "staged new.py")
    repo.write("soon.py", "soon\n")
    repo.git("add", "--intent-to-add", "soon.py")
    (repo.top / "model.py").unlink()
    (repo.top / "tools/run.sh").chmod(0o644)
    (repo.top / "数据/コード.py").unlink()
    (repo.top / "数据/コード.py").symlink_to("../train.py")
    repo.git("mv", "data/a b.txt", "data/moved.txt")
    repo.write("gone.py", "untracked, and in the older commit\n")
    repo.write("line\nend/deep/x", "odd\n")
    repo.write(os.fsdecode(b"latin-\xe9.txt"), "odd\n")


def test_edits_of_every_kind_come_back(repo):
    repo.write(".git/info/exclude", "venv/\n")
    repo.write("venv/lib.py", "ignored\n")
    repo.write("outputs/a.txt", "an output\n")
    repo.write("train.log", "a log\n")
    edits_of_every_kind(repo)
    assert check_round_trip(repo, "HEAD~1") == ()
    assert check_round_trip(repo, "HEAD") == ()


def test_undo_of_an_undo(repo):
    worktree = find_worktree(repo.top)
    edits_of_every_kind(repo)
    first, _, _ = roll_to(worktree, repo.text("rev-parse", "HEAD~1^{tree}"), "op1")
    rolled, index = repo.disk(), repo.status()
    second, _, _ = roll_to(worktree, first.tree, "op2")
    put_index_back(worktree, first.index_copy)
    assert repo.disk() != rolled
    roll_back(worktree, second, "op3")
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
    saved, rows, blocked = roll_to(worktree, head)
    assert blocked == ()
    assert verify(worktree, head, rows) == []
    assert (repo.top / "model.py").read_text() == "width = 2\n"
    assert (repo.top / "data/a b.txt").read_text() == "one\n"
    roll_back(worktree, saved)
    assert repo.disk() == disk


def test_hidden_edits_are_saved_and_come_back_with_their_flags(repo):
    worktree = find_worktree(repo.top)
    repo.git("update-index", "--assume-unchanged", "train.py")
    repo.git("update-index", "--skip-worktree", "model.py")
    repo.write("train.py", "hidden one\n")
    repo.write("model.py", "hidden two\n")
    flags = repo.git("ls-files", "-v")
    saved, _, blocked = roll_to(worktree, repo.text("rev-parse", "HEAD~1^{tree}"))
    assert blocked == ()
    assert (repo.top / "train.py").read_text() == "lr = 1\n"
    assert (repo.top / "model.py").read_text() == "width = 2\n"
    roll_back(worktree, saved)
    assert (repo.top / "train.py").read_text() == "hidden one\n"
    assert (repo.top / "model.py").read_text() == "hidden two\n"
    assert repo.git("ls-files", "-v") == flags


def test_staged_blobs_survive_gc(repo):
    worktree = find_worktree(repo.top)
    repo.write("train.py", "staged only\n")
    repo.git("add", "train.py")
    repo.write("train.py", "edited\n")
    saved = save(worktree, "op1")
    assert repo.text("rev-parse", "refs/expdb/undo/op1^2^{tree}") == saved.index_tree
    repo.git("reset", "--quiet", "--hard")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--quiet", "--prune=now")
    put_index_back(worktree, saved.index_copy)
    assert repo.git("show", ":train.py") == b"staged only\n"
    assert repo.tree("refs/expdb/undo/op1")["train.py"][1] == b"edited\n"


def test_saving_changes_nothing_and_can_be_loaded_and_forgotten(repo):
    worktree = find_worktree(repo.top)
    edits_of_every_kind(repo)
    before, disk = repo.fingerprint(), repo.disk()
    saved = save(worktree, "op1")
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
    saved, rows, blocked = roll_to(worktree, empty)
    assert (blocked, [row.action for row in rows]) == ((), ["delete"])
    assert fresh.disk() == {}
    loaded = load_saved(worktree, "op1")
    assert (loaded.tree, loaded.index_tree) == (saved.tree, empty)
    roll_back(worktree, saved)
    assert fresh.disk() == {"train.py": ("-", b"x\n")}
    assert fresh.status() == status


def test_split_index_copy_stands_alone(repo):
    worktree = find_worktree(repo.top)
    repo.git("update-index", "--split-index")
    repo.write("train.py", "staged\n")
    repo.git("add", "train.py")
    saved = save(worktree, "op1")
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
    saved, rows, blocked = roll_to(worktree, target)
    if blocked:
        assert repo.disk() == disk
        return blocked
    assert verify(worktree, target, rows) == []
    assert {path: (repo.top / path).read_bytes() for path in expected} == expected
    roll_back(worktree, saved)
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


def test_files_outside_the_plan_keep_edits_made_after_the_save(repo):
    worktree = find_worktree(repo.top)
    target = repo.text("rev-parse", "HEAD~1^{tree}")
    saved = save(worktree, "op1")
    rows = plan(worktree, saved.tree, target)
    repo.write("model.py", "edited while the question stood\n")
    restore(worktree, base_index=saved.base_index, tree=target, rows=rows)
    assert (repo.top / "model.py").read_text() == "edited while the question stood\n"
    assert (repo.top / "train.py").read_text() == "lr = 1\n"
    assert verify(worktree, target, rows) == ["model.py"]


@pytest.mark.parametrize("path", ["train.py", "gone.py", "extra/new.py"])
def test_path_of_the_plan_edited_after_the_save_stops_all(repo, path):
    worktree = find_worktree(repo.top)
    target = repo.text("rev-parse", "HEAD~1^{tree}")
    saved = save(worktree, "op1")
    rows = plan(worktree, saved.tree, target)
    repo.write(path, "edited since\n")
    disk, prints = repo.disk(), repo.fingerprint()
    with pytest.raises(Refused, match="1 path was edited since the work tree was saved") as caught:
        restore(worktree, base_index=saved.base_index, tree=target, rows=rows)
    assert caught.value.details == (path,)
    assert (repo.disk(), repo.fingerprint()) == (disk, prints)
    assert [row.path for row in rows if path_state(worktree, row) == "other"] == [path]
    restore(worktree, base_index=saved.base_index, tree=target, rows=rows, force=True)
    assert verify(worktree, target, rows) == []


def test_restore_makes_its_own_plan_where_none_is_given(repo):
    worktree = find_worktree(repo.top)
    target = repo.text("rev-parse", "HEAD~1^{tree}")
    saved = save(worktree, "op1")
    assert restore(worktree, base_index=saved.base_index, tree=target) == 3
    assert verify(worktree, target) == []
    assert not (repo.top / "extra").exists()
    assert restore(worktree, base_index=saved.base_index, tree=target) == 0


def test_locked_index_stops_all(repo):
    worktree = find_worktree(repo.top)
    target = repo.text("rev-parse", "HEAD~1^{tree}")
    saved = save(worktree, "op1")
    lock = repo.write(".git/index.lock", b"")
    disk, prints = repo.disk(), repo.fingerprint()
    for call in (
        lambda: restore(worktree, base_index=saved.base_index, tree=target),
        lambda: put_index_back(worktree, saved.index_copy),
    ):
        with pytest.raises(Refused, match="git's index is locked; nothing written"):
            call()
    assert (repo.disk(), repo.fingerprint()) == (disk, prints)
    lock.unlink()
    restore(worktree, base_index=saved.base_index, tree=target)
    assert not lock.exists()


def test_index_that_is_gone_cannot_be_put_back(repo, tmp_path):
    before = repo.fingerprint()
    with pytest.raises(NotFound):
        put_index_back(find_worktree(repo.top), tmp_path / "none")
    assert repo.fingerprint() == before


def test_verify_names_what_differs(repo):
    worktree = find_worktree(repo.top)
    target = repo.text("rev-parse", "HEAD~1^{tree}")
    saved, rows, _ = roll_to(worktree, target)
    assert saved.tree != target
    repo.write("train.py", "lr = 7\n")
    repo.write("extra/new.py", "deleted by the plan, back again\n")
    (repo.top / "tools/run.sh").chmod(0o644)
    (repo.top / "model.py").unlink()
    assert verify(worktree, target) == ["model.py", "tools/run.sh", "train.py"]
    assert verify(worktree, target, rows) == [
        "extra/new.py",
        "model.py",
        "tools/run.sh",
        "train.py",
    ]


RESTORE = """
import sys
from pathlib import Path
from expdb.git.restore import restore
from expdb.git.worktree import find_worktree
worktree = find_worktree(Path(sys.argv[1]))
restore(worktree, base_index=Path(sys.argv[2]), tree=sys.argv[3])
"""

KILLER = """#!/bin/sh
for word; do
    if [ "$word" = "$KILL_AT" ]; then
        if [ "$word" = checkout-index ]; then
            head -z -n 1 | {git} "$@"
        fi
        kill -9 $PPID
        exit 1
    fi
done
exec {git} "$@"
"""


@pytest.mark.parametrize("moment", ["read-tree", "checkout-index", "update-index"])
def test_killed_in_the_middle_the_same_call_finishes(repo, tmp_path, moment):
    edits_of_every_kind(repo)
    worktree = find_worktree(repo.top)
    target = repo.text("rev-parse", "HEAD~1^{tree}")
    disk, status = repo.disk(), repo.status()
    saved = save(worktree, "op1")
    rows = plan(worktree, saved.tree, target)
    killer = tmp_path / "bin/git"
    killer.parent.mkdir()
    killer.write_text(KILLER.replace("{git}", shutil.which("git")))
    killer.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", RESTORE, str(repo.top), str(saved.base_index), target],
        cwd=CODE,
        env={**os.environ, "PATH": f"{killer.parent}:{os.environ['PATH']}", "KILL_AT": moment},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert (repo.top / ".git/index.lock").exists()
    states = {path_state(worktree, row) for row in rows}
    assert (
        states
        == {
            "read-tree": {"before"},
            "checkout-index": {"before", "after"},
            "update-index": {"after"},
        }[moment]
    )
    repo.write("model.log", "written between\n")
    restore(worktree, base_index=saved.base_index, tree=target, rows=rows)
    assert verify(worktree, target, rows) == []
    assert not (repo.top / ".git/index.lock").exists()
    assert repo.text("write-tree") == target
    roll_back(worktree, saved)
    (repo.top / "model.log").unlink()
    assert (repo.disk(), repo.status()) == (disk, status)


def test_killed_between_attributes_and_files(empty_repo):
    repo = empty_repo
    repo.write(".gitattributes", "")
    repo.write("sub/b.txt", b"old\n")
    repo.write("a.txt", b"old\n")
    repo.commit("first")
    repo.write(".gitattributes", "*.txt text eol=crlf\n")
    repo.write("sub/b.txt", b"new\r\n")
    repo.write("a.txt", b"new\r\n")
    repo.commit("second")
    worktree = find_worktree(repo.top)
    target = repo.text("rev-parse", "HEAD~1^{tree}")
    saved = save(worktree, "op1")
    rows = plan(worktree, saved.tree, target)
    repo.write(".gitattributes", "")  # the first file that a killed restore writes
    assert {path_state(worktree, row) for row in rows} == {"after", "other"}
    assert path_states(worktree, rows) == {
        ".gitattributes": "after",
        "a.txt": "before",
        "sub/b.txt": "before",
    }
    repo.write("a.txt", b"mine\r\n")
    assert path_states(worktree, rows)["a.txt"] == "other"
    repo.write("a.txt", b"new\r\n")
    restore(worktree, base_index=saved.base_index, tree=target, rows=rows)
    assert verify(worktree, target, rows) == []
    assert (repo.top / "sub/b.txt").read_bytes() == b"old\n"
    assert [p.name for p in worktree.private_dir.glob(".tmp*")] == []


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


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(edits=EDITS, target=st.sampled_from(["HEAD", "HEAD~1"]))
def test_any_edits_come_back_or_nothing_is_written(repo, tmp_path, edits, target):
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
