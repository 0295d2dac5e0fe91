"""What would be lost blocks a restore: it is named, and nothing is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from expdb.errors import Refused
from expdb.git.restore import blockers, plan, put_index_back, restore, verify
from expdb.git.snapshot import save_worktree
from expdb.git.worktree import find_worktree

pytestmark = pytest.mark.slow


def look(repo, target="HEAD~1", **options):
    """Save and plan towards `target`, and return (worktree, saved, rows, path -> reason)."""
    worktree = find_worktree(repo.top)
    disk, prints = repo.disk(), repo.fingerprint()
    saved = save_worktree(worktree, store_root=repo.top / "runs", op="op1", **options)
    rows = plan(worktree, saved.tree, repo.text("rev-parse", f"{target}^{{tree}}"))
    blocked = blockers(worktree, saved, rows, secret_files=[".env"])
    assert (repo.disk(), repo.fingerprint()) == (disk, prints)
    return worktree, saved, rows, blocked


def reasons(blocked):
    return {row.path: row.reason for row in blocked}


def remove_and_commit(repo, *paths):
    for path in paths:
        (repo.top / path).unlink()
    repo.commit("removed")


def test_plain_edits_do_not_block(repo):
    repo.write("train.py", "edited\n")
    repo.write("gone.py", "untracked where the older commit has a file\n")
    _, _, rows, blocked = look(repo)
    assert blocked == ()
    assert {row.path: row.action for row in rows} == {
        "train.py": "change",
        "gone.py": "change",
        "extra/new.py": "delete",
    }


def test_ignored_file_in_the_way(repo):
    repo.write(".git/info/exclude", "gone.py\n")
    repo.write("gone.py", "x" * 211_900)
    _, _, _, blocked = look(repo)
    assert reasons(blocked) == {"gone.py": "ignored by git: no copy of it exists, 212 kB"}
    assert (blocked[0].can_save, blocked[0].num_bytes) == (True, 211_900)


@pytest.mark.parametrize("name", [":(top)x", "*.py", "line\nend", "[a]", "-q"])
def test_ignored_file_of_an_odd_name(repo, name):
    repo.write(f"odd/{name}", "tracked once\n")
    repo.commit("with")
    remove_and_commit(repo, f"odd/{name}")
    repo.write(".git/info/exclude", "/odd/\n")
    repo.write(f"odd/{name}", "mine")
    assert reasons(look(repo)[3]) == {f"odd/{name}": "ignored by git: no copy of it exists, 4 B"}


def test_ignored_file_elsewhere_does_not_block(repo):
    repo.write(".git/info/exclude", "venv/\n")
    repo.write("venv/x", "x")
    repo.write("extra/__pycache__/new.pyc", "x")
    assert look(repo)[3] == ()


def test_oversized_secret_and_excluded_files_in_the_way(repo):
    for path in ("big.bin", ".env", "run.log"):
        repo.write(path, "tracked once\n")
    repo.commit("with")
    remove_and_commit(repo, "big.bin", ".env", "run.log")
    os.truncate(repo.write("big.bin", b""), 12_000_000)
    repo.write(".env", "FAKE")
    repo.write("run.log", "log")
    _, saved, _, blocked = look(repo)
    assert reasons(blocked) == {
        "big.bin": "untracked and over 10 MB: no copy of it exists, 12 MB",
        ".env": "kept out as a secret: no copy of it exists, 4 B",
        "run.log": "left out of snapshots: no copy of it exists, 3 B",
    }
    assert set(saved.skipped) == {"big.bin", ".env"}


def test_saving_single_files_first_unblocks_and_undo_brings_them_back(repo):
    repo.write(".git/info/exclude", "gone.py\n")
    os.truncate(repo.write("gone.py", b"x"), 12_000_000)
    data = (repo.top / "gone.py").read_bytes()
    worktree, saved, rows, blocked = look(repo, also=["gone.py"])
    assert blocked == ()
    target = repo.text("rev-parse", "HEAD~1^{tree}")
    restore(worktree, base_index=saved.base_index, tree=target, rows=rows)
    assert verify(worktree, target, rows) == []
    assert (repo.top / "gone.py").read_text() == "old\n"
    again = save_worktree(worktree, store_root=repo.top / "runs", op="op2")
    restore(worktree, base_index=again.base_index, tree=saved.tree)
    put_index_back(worktree, saved.index_copy)
    assert (repo.top / "gone.py").read_bytes() == data


def test_folder_with_unsaved_files_where_a_file_must_go(repo):
    repo.write(".git/info/exclude", "*.cache\n")
    repo.write("gone.py/saved.txt", "saved\n")
    repo.write("gone.py/a.cache", "unsaved\n")
    repo.write("gone.py/deep/b.cache", "unsaved\n")
    _, _, _, blocked = look(repo)
    assert reasons(blocked) == {
        "gone.py": "a folder where a file must go, 2 unsaved files in it",
    }
    assert not blocked[0].can_save


def test_folder_with_only_saved_files_gives_way(repo):
    repo.write("gone.py/saved.txt", "saved\n")
    (repo.top / "gone.py/empty/er").mkdir(parents=True)
    assert look(repo)[3] == ()


def test_nested_repository_where_a_file_must_go(repo):
    inner = repo.top / "gone.py"
    inner.mkdir()
    type(repo)(inner).git("init", "--quiet")
    _, _, _, blocked = look(repo)
    assert reasons(blocked) == {"gone.py": "a repository of its own where a file must go"}


def test_ignored_file_or_link_where_a_folder_must_go(repo):
    repo.git("rm", "-r", "--quiet", "extra", "tools")
    repo.commit("removed")
    repo.write(".git/info/exclude", "/extra\n/tools\n")
    repo.write("extra", "a file\n")
    elsewhere = repo.top.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "run.sh").write_text("not ours\n")
    (repo.top / "tools").symlink_to(elsewhere)
    worktree, saved, rows, blocked = look(repo)
    assert reasons(blocked) == {
        "extra": "ignored by git: no copy of it exists, 7 B",
        "tools": "a symbolic link where a folder must go",
    }
    target = repo.text("rev-parse", "HEAD~1^{tree}")
    with pytest.raises(Refused) as caught:  # the restore looks for itself too
        restore(worktree, base_index=saved.base_index, tree=target, rows=rows)
    assert caught.value.details == ("extra", "tools")
    assert (elsewhere / "run.sh").read_text() == "not ours\n"


def test_tracked_link_where_a_folder_must_go_gives_way(repo):
    repo.git("rm", "-r", "--quiet", "tools")
    (repo.top / "tools").symlink_to("data")
    repo.commit("a link")
    worktree, saved, rows, blocked = look(repo)
    assert blocked == ()
    target = repo.text("rev-parse", "HEAD~1^{tree}")
    restore(worktree, base_index=saved.base_index, tree=target, rows=rows)
    assert (repo.top / "tools/run.sh").read_text() == "#!/bin/sh\n"
    assert (repo.top / "data/a b.txt").read_text() == "one\n"


def test_fifo_in_the_way(repo):
    os.mkfifo(repo.top / "gone.py")
    assert reasons(look(repo)[3]) == {"gone.py": "neither file nor folder"}


def test_submodule_in_the_plan(repo, make_repo):
    made = make_repo("made")
    repo.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(made.top), "lib"
    )
    repo.commit("with a submodule")
    assert reasons(look(repo)[3]) == {"lib": "a submodule: its files are in another repository"}
    assert look(repo, "HEAD")[3] == ()


def lfs(repo, where=".gitattributes"):
    repo.git("config", "filter.lfs.clean", "sed s/secret/pointer/")
    repo.git("config", "filter.lfs.smudge", "sed s/pointer/secret/")
    repo.write(where, "*.bin filter=lfs\n")


@pytest.mark.parametrize("where", [".gitattributes", ".git/info/attributes"])
def test_filtered_file_in_the_plan_and_its_kept_bytes(repo, where):
    lfs(repo, where)
    repo.write("w.bin", "secret\n")
    repo.write("same.bin", "secret\n")
    repo.commit("third")
    repo.write("w.bin", "secret two\n")
    repo.commit("fourth")
    worktree, saved, rows, blocked = look(repo)
    assert reasons(blocked) == {"w.bin": "git would not write its bytes back as they are, 11 B"}
    assert (blocked[0].can_save, blocked[0].is_raw) == (True, True)
    worktree, saved, rows, blocked = look(repo, raw=["w.bin"])
    assert blocked == ()
    assert repo.git("cat-file", "blob", saved.raw["w.bin"]) == b"secret two\n"
    assert repo.git("show", f"{saved.commit}:w.bin") == b"pointer two\n"
    repo.write("w.bin", "secret, edited since\n")
    assert reasons(blockers(worktree, saved, rows)) == {
        "w.bin": "changed since it was saved, or cannot be read"
    }


def test_a_large_file_behind_a_filter_is_saved_when_asked(repo, tmp_path):
    lfs(repo)
    repo.git("config", "filter.lfs.clean", "head -c 6; cat >/dev/null")
    repo.git("config", "filter.lfs.smudge", "cat")
    repo.write("w.bin", "secret\n")
    repo.commit("third")
    os.truncate(repo.write("w.bin", b"mine"), 10_000_001)
    large = (repo.top / "w.bin").read_bytes()
    target = repo.text("rev-parse", "HEAD^{tree}")
    saved, _, blocked = repo.roll_to(target)
    assert reasons(blocked) == {"w.bin": "git would not write its bytes back as they are, 10 MB"}
    saved, _, blocked = repo.roll_to(target, force=True)
    assert blocked == ()
    assert (repo.top / "w.bin").read_bytes() == b"secret"
    repo.roll_back(saved)
    assert (repo.top / "w.bin").read_bytes() == large


def test_filter_without_a_program_is_no_filter(repo):
    repo.write(".gitattributes", "*.bin filter=lfs\n")
    repo.write("w.bin", "one\n")
    repo.commit("third")
    repo.write("w.bin", "two\n")
    assert look(repo, "HEAD")[3] == ()


def test_filter_that_only_the_target_has(repo):
    lfs(repo)
    repo.write("w.bin", "one\n")
    repo.commit("third")
    repo.git("rm", "--quiet", ".gitattributes")
    repo.commit("fourth")
    assert reasons(look(repo)[3]) == {
        "w.bin": "passes the git filter lfs by the .gitattributes of the goal"
    }


def test_failing_filter_blocks_and_does_not_raise(repo):
    repo.git("config", "filter.lfs.clean", "cat")
    repo.write(".gitattributes", "*.bin filter=lfs\n")
    repo.write("w.bin", "one\n")
    repo.commit("third")
    repo.git("config", "filter.lfs.clean", "false")
    repo.git("config", "filter.lfs.required", "true")
    repo.write("w.bin", "two\n")
    assert list(reasons(look(repo, "HEAD")[3])) == ["w.bin"]


def test_line_endings_that_would_not_come_back(repo):
    repo.write(".gitattributes", "* text=auto\n")
    repo.write("mixed.py", b"a\r\nb\n")
    repo.write("plain.py", b"a\n")
    repo.commit("third")
    repo.write("mixed.py", b"c\r\nd\n")
    repo.write("plain.py", b"c\n")
    assert reasons(look(repo, "HEAD")[3]) == {
        "mixed.py": "git would not write its bytes back as they are, 5 B"
    }


def test_sparse_checkout(repo):
    repo.git("sparse-checkout", "set", "--no-cone", "/*", "!/extra/")
    blocked = look(repo)[3]
    assert reasons(blocked) == {".": "a sparse checkout: files are kept out of the work tree"}


def test_file_hidden_and_absent(repo):
    repo.git("update-index", "--skip-worktree", "model.py")
    (repo.top / "model.py").unlink()
    assert [row.path for row in look(repo)[3]] == ["."]


def test_path_that_changed_after_the_save(repo):
    worktree, saved, rows, blocked = look(repo)
    assert blocked == ()
    repo.write("train.py", "edited since\n")
    os.utime(repo.top / "extra/new.py")
    assert reasons(blockers(worktree, saved, rows)) == {
        "train.py": "changed since it was saved, or cannot be read"
    }


def test_unresolved_conflicts_cannot_be_saved(repo):
    repo.git("checkout", "--quiet", "-b", "side", "HEAD~1")
    repo.write("train.py", "lr = 9\n")
    repo.commit("side")
    repo.git("merge", "--quiet", "main", check=False)
    disk, prints = repo.disk(), repo.fingerprint()
    with pytest.raises(Refused, match=r"git's index has unresolved conflicts: train\.py"):
        save_worktree(find_worktree(repo.top), store_root=Path("/none"), op="op1")
    assert (repo.disk(), repo.fingerprint()) == (disk, prints)
    assert repo.git("for-each-ref", "refs/expdb") == b""
