"""A restore that meets edits, locks and kills: it refuses whole, or the same call finishes it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from expdb.errors import NotFound, Refused
from expdb.git.restore import path_state, path_states, plan, put_index_back, restore, verify
from expdb.git.worktree import find_worktree

CODE = Path(sys.modules["expdb"].__path__[0]).parent


def test_files_outside_the_plan_keep_edits_made_after_the_save(repo):
    worktree = find_worktree(repo.top)
    target = repo.text("rev-parse", "HEAD~1^{tree}")
    saved = repo.save("op1")
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
    saved = repo.save("op1")
    rows = plan(worktree, saved.tree, target)
    repo.write(path, "edited since\n")
    disk, prints = repo.disk(), repo.fingerprint()
    with pytest.raises(Refused, match="1 path was edited since the work tree was saved") as caught:
        restore(worktree, base_index=saved.base_index, tree=target, rows=rows)
    assert caught.value.details == (path,)
    assert (repo.disk(), repo.fingerprint()) == (disk, prints)
    assert [row.path for row in rows if path_state(worktree, row) == "other"] == [path]
    # Saved since, it is overwritten; edited once more after that, it is not.
    blob = repo.text("hash-object", "-w", path)
    since = [replace(row, before=("100644", blob)) if row.path == path else row for row in rows]
    repo.write(path, "edited once more\n")
    with pytest.raises(Refused, match="1 path was edited"):
        restore(worktree, base_index=saved.base_index, tree=target, rows=since)
    assert (repo.top / path).read_text() == "edited once more\n"
    repo.write(path, "edited since\n")
    restore(worktree, base_index=saved.base_index, tree=target, rows=since)
    assert verify(worktree, target, rows) == []


def test_restore_makes_its_own_plan_where_none_is_given(repo):
    worktree = find_worktree(repo.top)
    target = repo.text("rev-parse", "HEAD~1^{tree}")
    saved = repo.save("op1")
    assert restore(worktree, base_index=saved.base_index, tree=target) == 3
    assert verify(worktree, target) == []
    assert not (repo.top / "extra").exists()
    assert restore(worktree, base_index=saved.base_index, tree=target) == 0


def test_locked_index_stops_all(repo):
    worktree = find_worktree(repo.top)
    target = repo.text("rev-parse", "HEAD~1^{tree}")
    saved = repo.save("op1")
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
    saved, rows, _ = repo.roll_to(target)
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
    repo.edit_every_way()
    worktree = find_worktree(repo.top)
    target = repo.text("rev-parse", "HEAD~1^{tree}")
    disk, status = repo.disk(), repo.status()
    saved = repo.save("op1")
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
    repo.roll_back(saved)
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
    saved = repo.save("op1")
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
