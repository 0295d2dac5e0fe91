"""Questions to a work tree, the command runner, and differences of trees."""

from __future__ import annotations

import pytest

from expdb.git.command import GitError, GitTimeout, git
from expdb.git.diff import has_object, tree_diff
from expdb.git.status import read_edits
from expdb.git.used import used_files
from expdb.git.worktree import Unavailable, find_worktree, without_user


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://user:tok@host/x.git", "https://host/x.git"),
        ("https://tok@host:8443/x?private_token=abc#f", "https://host:8443/x"),
        ("https://a:p@ss@host/x", "https://host/x"),
        ("ssh://git@host:22/x", "ssh://host:22/x"),
        ("git@github.com:lab/repo.git", "github.com:lab/repo.git"),
        ("host:path/to@here", "host:path/to@here"),
        ("/srv/git/a@b.git", "/srv/git/a@b.git"),
        ("../up:stairs@x", "../up:stairs@x"),
        ("codecommit::us-east-1://me@repo", "codecommit::us-east-1://repo"),
    ],
)
def test_urls_lose_their_user(url, expected):
    assert without_user(url) == expected


def test_edits_have_one_letter_each(repo):
    repo.write("train.py", "lr = 3\n")
    repo.write("added.py", "a\n")
    repo.git("add", "added.py")
    repo.write("added.py", "a again\n")
    (repo.top / "model.py").unlink()
    repo.git("mv", "extra/new.py", "extra/moved.py")
    (repo.top / "tools/run.sh").unlink()
    (repo.top / "tools/run.sh").symlink_to("x")
    repo.write("un tracked/ä.py", "u\n")
    before = repo.fingerprint()
    worktree = find_worktree(repo.top)
    assert sorted(read_edits(worktree)) == [
        ("?", "un tracked/ä.py"),
        ("A", "added.py"),
        ("D", "model.py"),
        ("M", "train.py"),
        ("R", "extra/moved.py"),
        ("T", "tools/run.sh"),
    ]
    assert repo.fingerprint() == before


def test_head_branch_and_remote(repo, empty_repo):
    worktree = find_worktree(repo.top)
    assert (worktree.head(), worktree.branch()) == (repo.text("rev-parse", "HEAD"), "main")
    repo.git("remote", "rename", "origin", "lab")
    assert worktree.remote() == "https://example.org/lab/repo.git"
    repo.git("remote", "remove", "lab")
    assert worktree.remote() is None
    repo.git("checkout", "--quiet", "--detach")
    assert worktree.branch() == "detached"
    repo.git("checkout", "--quiet", "--orphan", "fresh")
    assert (worktree.head(), worktree.branch()) == (None, "fresh")


def conflict(repo, *, rebase=False):
    repo.git("checkout", "--quiet", "-b", "side", "main~1")
    repo.write("train.py", "lr = 9\n")
    side = repo.commit("side")
    if not rebase:
        repo.git("checkout", "--quiet", "main")
    return side


def test_unfinished_merge_rebase_cherry_pick_revert_bisect(repo):
    worktree = find_worktree(repo.top)
    assert worktree.in_progress() is None
    side = conflict(repo)
    for words, name, back in (
        (("merge", "side"), "merge", ("merge", "--abort")),
        (("cherry-pick", side), "cherry-pick", ("cherry-pick", "--abort")),
        (("rebase", "side"), "rebase", ("rebase", "--abort")),
        (("bisect", "start", "main", "main~1"), "bisect", ("bisect", "reset")),
    ):
        repo.git(*words, check=False)
        assert worktree.in_progress() == name
        repo.git(*back)
        assert worktree.in_progress() is None
    repo.write("train.py", "lr = 4\n")
    repo.commit("third")
    repo.git("revert", "--no-edit", "HEAD~1", check=False)
    assert worktree.in_progress() == "revert"


def test_bare_repository_and_missing_folder(tmp_path):
    git(("init", "--quiet", "--bare", str(tmp_path / "bare")), cwd=tmp_path)
    assert find_worktree(tmp_path / "bare") == Unavailable(
        reason="a bare repository has no work tree"
    )
    found = find_worktree(tmp_path / "none")
    assert isinstance(found, Unavailable)
    assert "there is no folder" in found.reason


def test_top_with_a_line_end_in_its_name(make_repo):
    made = make_repo("line\nend")
    worktree = find_worktree(made.top)
    assert worktree.top == made.top
    assert worktree.git_dir == made.top / ".git"
    assert worktree.head() == made.text("rev-parse", "HEAD")


def test_failure_says_what_git_said_in_one_line(repo):
    with pytest.raises(GitError) as caught:
        git(("cat-file", "-t", "nonsense"), cwd=repo.top)
    assert caught.value.message == "git cat-file failed: Not a valid object name nonsense"
    assert caught.value.rc == 128
    assert git(("cat-file", "-t", "nonsense"), cwd=repo.top, check=False).rc == 128


def test_one_process_writes_files_whatever_the_user_s_config_says(repo):
    # Several remove every file first, so that a kill would leave hundreds gone instead of one.
    repo.git("config", "checkout.workers", "8")
    worktree = find_worktree(repo.top)
    assert worktree.git(("config", "--get", "checkout.workers")).text == "1"


def test_slow_command_is_stopped(repo):
    repo.git("config", "alias.slow", "!sleep 30")
    with pytest.raises(GitTimeout, match="git slow took longer than"):
        git(("slow",), cwd=repo.top, timeout_s=0.1)


def test_tree_diff_counts_lines_and_names_types(repo):
    a = repo.text("rev-parse", "HEAD")
    repo.write("train.py", "lr = 2\nmore\n")
    repo.write("raw.bin", bytes(range(256)))
    repo.write("line\nend\ttab", "x\n")
    (repo.top / "model.py").unlink()
    (repo.top / "tools/run.sh").unlink()
    (repo.top / "tools/run.sh").symlink_to("y")
    b = repo.commit("third")
    worktree = find_worktree(repo.top)
    assert [tuple(row) for row in tree_diff(worktree, a, b)] == [
        ("A", "line\nend\ttab", 1, 0),
        ("D", "model.py", 0, 1),
        ("A", "raw.bin", None, None),
        ("T", "tools/run.sh", 1, 1),
        ("M", "train.py", 1, 0),
    ]
    assert tree_diff(worktree, a, repo.text("rev-parse", f"{a}^{{tree}}")) == ()
    with pytest.raises(GitError):
        tree_diff(worktree, a, "0" * 40)


def test_has_object(repo):
    worktree = find_worktree(repo.top)
    assert has_object(worktree, repo.text("rev-parse", "HEAD"))
    assert not has_object(worktree, "0" * 40)
    assert not has_object(worktree, "HEAD")
    assert not has_object(worktree, "-e")


def test_used_files_follow_edits_links_and_odd_names(repo):
    repo.write("line\nend.py", "n\n")
    repo.write('"quoted".py', "q\n")
    (repo.top / "link.py").symlink_to("train.py")
    worktree = find_worktree(repo.top)
    modules = [repo.top / n for n in ("line\nend.py", '"quoted".py', "link.py", "gone.py", "tools")]
    used = used_files(worktree, modules)
    assert used == {
        path: repo.git("hash-object", "--stdin", stdin=(repo.top / path).read_bytes())
        .decode()
        .strip()
        for path in ('"quoted".py', "line\nend.py", "train.py")
    }
    repo.write("train.py", "changed\n")
    assert used_files(worktree, modules)["train.py"] != used["train.py"]
