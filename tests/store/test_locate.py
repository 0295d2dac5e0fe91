from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from expdb.errors import NotFound
from expdb.store.locate import find_store, git_main_top, nearest_store, store_for_script
from expdb.store.store import open_store


def git(folder: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one commit and a script two folders down."""
    top = tmp_path / "proj"
    (top / "src" / "lm").mkdir(parents=True)
    (top / "src" / "lm" / "train.py").write_text("")
    git(top, "init", "-q", "-b", "main")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "one")
    return top


@pytest.fixture
def linked(repo: Path) -> Path:
    """A linked work tree elsewhere."""
    top = repo.parent / "elsewhere" / "tree"
    git(repo, "worktree", "add", "-q", str(top))
    return top


def script(top: Path) -> Path:
    return top / "src" / "lm" / "train.py"


def test_a_script_uses_the_store_that_is_named(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(repo / "runs", create=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert store_for_script(script(repo), "mine") == tmp_path / "mine"
    assert store_for_script(script(repo), "/a/b") == Path("/a/b")
    assert store_for_script(script(repo), "~/s") == tmp_path / "home" / "s"
    assert store_for_script(script(repo), "~nobody-here/s") == tmp_path / "~nobody-here" / "s"
    assert store_for_script(script(repo), "") == repo / "runs"


def test_a_script_uses_the_nearest_store_above_it(repo: Path) -> None:
    outer = open_store(repo.parent / "runs", create=True).root
    assert store_for_script(script(repo)) == outer
    own = open_store(repo / "runs", create=True).root
    assert store_for_script(script(repo)) == own
    near = open_store(repo / "src" / "lm" / "runs", create=True).root
    assert store_for_script(script(repo)) == near
    inside = near / "tools" / "x.py"
    assert store_for_script(inside) == near  # from within the store itself


def test_a_folder_named_runs_that_is_no_store_is_not_one(repo: Path) -> None:
    (repo / "src" / "runs").mkdir()
    assert store_for_script(script(repo)) == repo / "runs"


def test_without_a_store_it_is_at_the_top_of_the_repository(repo: Path, tmp_path: Path) -> None:
    assert store_for_script(script(repo)) == repo / "runs"
    assert store_for_script(tmp_path / "alone" / "train.py") == tmp_path / "alone" / "runs"
    assert not (repo / "runs").exists()


def test_a_relative_script_is_taken_from_the_current_folder(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo / "src")
    assert store_for_script(Path("lm/train.py")) == repo / "runs"


def test_a_linked_work_tree_shares_the_store_of_the_main_one(repo: Path, linked: Path) -> None:
    assert git_main_top(linked / "src") == repo
    assert store_for_script(script(linked)) == repo / "runs"
    with pytest.raises(NotFound):
        find_store(start=linked)
    root = open_store(repo / "runs", create=True).root
    assert store_for_script(script(linked)) == root
    assert find_store(start=linked / "src") == root
    own = open_store(linked / "runs", create=True).root
    assert find_store(start=linked / "src") == store_for_script(script(linked)) == own


def test_a_linked_work_tree_with_a_relative_path(repo: Path, linked: Path) -> None:
    entry = linked / ".git"
    git_dir = entry.read_text().removeprefix("gitdir:").strip()
    entry.write_text(f"gitdir: {os.path.relpath(git_dir, linked)}\n")
    git(linked, "status")
    assert git_main_top(linked) == repo


def test_a_submodule_and_a_separate_git_folder_are_tops_of_their_own(
    repo: Path, tmp_path: Path
) -> None:
    (tmp_path / "inner").mkdir()
    git(tmp_path / "inner", "init", "-q")
    (tmp_path / "inner" / "a").write_text("")
    git(tmp_path / "inner", "add", ".")
    git(tmp_path / "inner", "commit", "-q", "-m", "x")
    add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q"]
    git(repo, *add, str(tmp_path / "inner"), "sub")
    assert git_main_top(repo / "sub") == repo / "sub"
    apart = tmp_path / "apart"
    apart.mkdir()
    git(apart, "init", "-q", f"--separate-git-dir={tmp_path / 'gitdata'}")
    assert git_main_top(apart) == apart


def test_a_bare_main_repository_gives_each_work_tree_its_own(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "w"))
    assert git_main_top(tmp_path / "w") == tmp_path / "w"


@pytest.mark.parametrize("data", [b"", b"gitdir: /nowhere\n", b"\xff\x00", b"gitdir: \xff\n"])
def test_a_strange_git_file_is_the_top_of_its_own(tmp_path: Path, data: bytes) -> None:
    (tmp_path / ".git").write_bytes(data)
    assert git_main_top(tmp_path) == tmp_path


def test_a_command_works_on_the_store_that_is_named(repo: Path, tmp_path: Path) -> None:
    root = open_store(tmp_path / "other", create=True).root
    open_store(repo / "runs", create=True)
    assert find_store(start=repo, explicit=str(root)) == root
    assert find_store(start=tmp_path, explicit="other") == root
    for wrong in ("none", "proj", str(root / ".expdb")):
        with pytest.raises(NotFound, match="is not a store"):
            find_store(start=tmp_path, explicit=wrong)


def test_a_command_finds_the_store_upward(repo: Path) -> None:
    with pytest.raises(NotFound, match="no store above this folder"):
        find_store(start=repo / "src")
    root = open_store(repo / "runs", create=True).root
    for start in (repo, repo / "src" / "lm", root, root / "exp=a" / "run=b"):
        assert find_store(start=start) == root


def test_only_start_reads_the_variable(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = open_store(repo.parent / "other", create=True).root
    monkeypatch.setenv("EXPDB_STORE", str(other))
    assert store_for_script(script(repo)) == repo / "runs"
    with pytest.raises(NotFound):
        find_store(start=repo)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_that_one_may_not_look_into_has_no_store(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (closed / "inner").mkdir(parents=True)
    open_store(closed / "runs", create=True)
    closed.chmod(0o700)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgid(65534)
            os.setuid(65534)
            start = closed / "inner"
            code = 0 if nearest_store(start) is None and git_main_top(start) is None else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_locating_needs_the_standard_library_only() -> None:
    code = (
        "import sys, expdb.store.locate;"
        "print(*{'numpy', 'pyarrow', 'duckdb', 'hydra', 'git', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
