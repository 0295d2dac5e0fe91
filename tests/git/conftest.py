"""Real repositories for the tests of git: small, with an identity, without user configuration."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from expdb.actions.plan import save_and_plan
from expdb.git.restore import Blocked, PlanRow, put_index_back, restore
from expdb.git.snapshot import Saved, save_worktree
from expdb.git.untracked import DEFAULT_EXCLUDE, DEFAULT_SECRET_FILES
from expdb.git.worktree import Unavailable, WorkTree, find_worktree

FIRST = {
    "train.py": "lr = 1\n",
    "model.py": "width = 2\n",
    "tools/run.sh": "#!/bin/sh\n",
    "data/a b.txt": "one\n",
    "数据/コード.py": "x = 1\n",
    "gone.py": "old\n",
}
NOTHING: Mapping[str, str] = MappingProxyType({})
ASIDE = ("--no-optional-locks",)
SECOND = {"train.py": "lr = 2\n", "extra/new.py": "y = 1\n", "gone.py": None}


class Repo:
    """A repository under test."""

    def __init__(self, top: Path) -> None:
        self.top = top

    def git(self, *args: str, stdin: bytes | None = None, check: bool = True) -> bytes:
        done = subprocess.run(
            ["git", *args], cwd=self.top, input=stdin, capture_output=True, check=False
        )
        if check and done.returncode != 0:
            raise AssertionError(f"git {args}: {done.stderr.decode(errors='replace')}")
        return done.stdout

    def text(self, *args: str) -> str:
        return os.fsdecode(self.git(*args)).strip()

    def write(self, path: str, data: str | bytes) -> Path:
        full = self.top / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(data.encode() if isinstance(data, str) else data)
        return full

    def commit(self, message: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.text("rev-parse", "HEAD")

    def tree(self, commit: str) -> dict[str, tuple[str, bytes]]:
        """Path -> (mode, content) of a commit."""
        found = {}
        for line in self.git("ls-tree", "-r", "-z", commit).split(b"\0")[:-1]:
            left, _, path = line.partition(b"\t")
            mode, kind, blob = left.decode().split(" ")
            data = b"" if kind == "commit" else self.git("cat-file", "blob", blob)
            found[os.fsdecode(path)] = (mode, data)
        return found

    def fingerprint(self) -> dict[str, bytes]:
        """Everything in .git that belongs to the user, byte for byte."""
        git_dir = Path(self.text("rev-parse", "--absolute-git-dir"))
        common = (self.top / self.text("rev-parse", "--git-common-dir")).resolve()
        mine = ("objects/", "expdb/", "refs/expdb/", "reftable/")
        refs = self.git("for-each-ref", "--format=%(refname) %(objectname) %(symref)").splitlines()
        found = {"refs": b"\n".join(r for r in refs if not r.startswith(b"refs/expdb/"))}
        for folder in {git_dir, common}:
            for path in folder.rglob("*"):
                name = path.relative_to(folder).as_posix()
                inside = any(part == "expdb" for part in path.parts[len(folder.parts) :])
                if path.is_file() and not name.startswith(mine) and not inside:
                    found[f"{folder}/{name}"] = path.read_bytes()
        return found

    def disk(self) -> dict[str, tuple[str, bytes]]:
        """Every file and link of the work tree, ignored ones too: path -> (kind, bytes)."""
        found = {}
        for folder, folders, files in os.walk(self.top):
            if ".git" in folders:
                folders.remove(".git")
            for name in [*files, *(f for f in folders if os.path.islink(os.path.join(folder, f)))]:
                path = Path(folder, name)
                rel = os.path.relpath(path, self.top)
                if path.is_symlink():
                    found[rel] = ("link", os.fsencode(os.readlink(path)))
                elif not path.is_file():
                    found[rel] = ("other", b"")
                else:
                    kind = "x" if path.stat().st_mode & 0o100 else "-"
                    found[rel] = (kind, path.read_bytes())
        return found

    def status(self) -> bytes:
        return self.git(*ASIDE, "status", "--porcelain=v2", "-z", "-uall", "--ignored")

    def edit_every_way(self) -> None:
        self.write("train.py", "staged\n")
        self.git("add", "train.py")
        self.write("train.py", "staged, then edited\n")
        self.write("notes with space.txt", "untracked\n")
        self.write("staged new.py", "new\n")
        self.git("add", "staged new.py")
        self.write("soon.py", "soon\n")
        self.git("add", "--intent-to-add", "soon.py")
        (self.top / "model.py").unlink()
        (self.top / "tools/run.sh").chmod(0o644)
        (self.top / "数据/コード.py").unlink()
        (self.top / "数据/コード.py").symlink_to("../train.py")
        self.git("mv", "data/a b.txt", "data/moved.txt")
        self.write("gone.py", "untracked, and in the older commit\n")
        self.write("line\nend/deep/x", "odd\n")
        self.write(os.fsdecode(b"latin-\xe9.txt"), "odd\n")

    @property
    def worktree(self) -> WorkTree | Unavailable:
        return find_worktree(self.top)

    def save(self, op: str) -> Saved:
        return save_worktree(self.worktree, store_root=self.top / "runs", op=op)

    def roll_to(
        self,
        target: str,
        op: str = "op1",
        *,
        kept: Mapping[str, str] = NOTHING,
        force: bool = False,
    ) -> tuple[Saved, tuple[PlanRow, ...], tuple[Blocked, ...]]:
        """Save, plan, restore to `target`; return (saved, rows, what blocks)."""
        saved, rows, blocked = save_and_plan(
            self.worktree,
            target,
            op=op,
            store_root=self.top / "runs",
            exclude=DEFAULT_EXCLUDE,
            secret_files=DEFAULT_SECRET_FILES,
            kept=kept,
            force=force,
        )
        if not blocked:
            restore(self.worktree, base_index=saved.base_index, tree=target, rows=rows)
        return saved, rows, blocked

    def roll_back(self, saved: Saved, op: str = "op2") -> None:
        """Undo: the same recipe towards the snapshot, then the saved index."""
        _, _, blocked = self.roll_to(saved.tree, op, kept=saved.raw)
        assert blocked == ()
        put_index_back(self.worktree, saved.index_copy)


@pytest.fixture(autouse=True)
def own_git(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No user or system configuration; an identity for the user's own commits."""
    for name in list(os.environ):
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ada@example.org")


@pytest.fixture
def empty_repo(tmp_path: Path) -> Repo:
    top = tmp_path / "repo"
    top.mkdir()
    repo = Repo(top)
    repo.git("init", "--quiet", "--initial-branch=main")
    return repo


@pytest.fixture
def repo(empty_repo: Repo) -> Repo:
    """Two commits on `main` with a reflog, a stash and a remote."""
    apply(empty_repo, FIRST)
    (empty_repo.top / "tools/run.sh").chmod(0o755)
    empty_repo.commit("first")
    apply(empty_repo, SECOND)
    empty_repo.commit("second")
    empty_repo.git("remote", "add", "origin", "https://ada:s3cret@example.org/lab/repo.git?t=1")
    return empty_repo


@pytest.fixture
def make_repo(tmp_path: Path) -> Callable[[str], Repo]:
    """Make a further repository with one commit."""

    def make(name: str) -> Repo:
        top = tmp_path / name
        top.mkdir(parents=True)
        made = Repo(top)
        made.git("init", "--quiet", "--initial-branch=main")
        made.write("lib.py", "a = 1\n")
        made.commit("first")
        return made

    return make


def apply(repo: Repo, files: dict[str, str | None]) -> None:
    for path, text in files.items():
        if text is None:
            (repo.top / path).unlink()
        else:
            repo.write(path, text)
