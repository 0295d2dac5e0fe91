"""A git work tree: where it is, and read-only questions to it.

Invariant: nothing here writes into the repository; git's own index stays byte for byte as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from expdb.git.command import TIMEOUT_S, Completed, GitError, GitMissing, git

_IN_PROGRESS: Final[tuple[tuple[str, str], ...]] = (
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("sequencer", "cherry-pick"),
    ("BISECT_LOG", "bisect"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """Why there is no work tree to ask, in plain words."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTree:
    """One work tree of a repository; a linked one has a `git_dir` of its own."""

    top: Path
    git_dir: Path
    """Absolute; holds this work tree's HEAD, index and expdb folder."""
    common_dir: Path
    """Absolute; holds refs and objects, shared by all work trees of the repository."""

    @property
    def index_path(self) -> Path:
        """Git's own index file; it need not exist."""
        return self.git_dir / "index"

    @property
    def private_dir(self) -> Path:
        """The folder in the git directory that expdb owns; it need not exist."""
        return self.git_dir / "expdb"

    def git(
        self,
        args: Sequence[str],
        *,
        index: Path | None = None,
        env: dict[str, str] | None = None,
        stdin: bytes | BinaryIO | None = None,
        check: bool = True,
        timeout_s: float = TIMEOUT_S,
    ) -> Completed:
        """Run git at the top of this work tree, on `index` instead of git's own where given."""
        here = {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.top), **(env or {})}
        if index is not None:
            here["GIT_INDEX_FILE"] = str(index)
        return git(args, cwd=self.top, env=here, stdin=stdin, check=check, timeout_s=timeout_s)

    def head(self) -> str | None:
        """Return the commit that HEAD names; None before the first commit."""
        return self.commit_of("HEAD")

    def commit_of(self, name: str) -> str | None:
        """Return the id of the commit called `name`, None when there is none."""
        return self._object(f"{name}^{{commit}}")

    def tree_of(self, name: str) -> str | None:
        """Return the id of the tree of the commit or tree `name`, None when there is none."""
        return self._object(f"{name}^{{tree}}")

    def _object(self, name: str) -> str | None:
        done = self.git(("rev-parse", "--verify", "--quiet", name), check=False)
        return done.text if done.rc == 0 else None

    def branch(self) -> str | None:
        """Return the branch's name, or `detached`; None when HEAD cannot be read."""
        done = self.git(("symbolic-ref", "--quiet", "--short", "HEAD"), check=False)
        if done.rc == 0:
            return done.text
        return "detached" if done.rc == 1 else None

    def remote(self) -> str | None:
        """Return the URL of `origin`, else of the first remote, without user info."""
        found = self.config(r"^remote\..*\.url$")
        url = found.get("remote.origin.url") or next(iter(found.values()), None)
        return None if url is None else without_user(url)

    def config(self, pattern: str) -> dict[str, str]:
        """Return the configuration whose name matches `pattern` (section and last word in lower
        case).
        """
        done = self.git(("config", "-z", "--get-regexp", pattern), check=False)
        pairs = (field.partition("\n") for field in done.names)
        return {name: value for name, _, value in pairs}

    def config_true(self, name: str, *, default: bool) -> bool:
        """Return a yes-or-no setting as git reads it."""
        done = self.git(("config", "--type=bool", "--get", name), check=False)
        return done.text == "true" if done.rc == 0 else default

    def in_progress(self) -> str | None:
        """Return `rebase`, `merge`, `cherry-pick`, `revert` or `bisect` while one is unfinished."""
        for name, what in _IN_PROGRESS:
            if (self.git_dir / name).exists():
                return what
        return None

    def is_shallow(self) -> bool:
        """Tell whether the history before some commit is absent."""
        return (self.common_dir / "shallow").is_file()


def find_worktree(path: Path) -> WorkTree | Unavailable:
    """Return the work tree that `path` lies in, or why there is none."""
    words = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir")
    try:
        done = git(("rev-parse", *words), cwd=path)
        lines = done.text.split("\n")
        if len(lines) != len(words):  # a name with a line end in it: ask one by one
            lines = [git(("rev-parse", word), cwd=path).text for word in words]
    except GitMissing:
        return Unavailable(reason="git is not installed")
    except GitError as error:
        return Unavailable(reason=_plain_reason(error, path))
    top, git_dir, common = lines
    return WorkTree(
        top=Path(top), git_dir=Path(git_dir).resolve(), common_dir=(path / common).resolve()
    )


def without_user(url: str) -> str:
    """Return a remote's URL without user name, password, token and query."""
    scheme, found, rest = url.partition("://")
    if found:
        host, slash, where = rest.partition("/")
        return scheme + found + host.rpartition("@")[2] + slash + re.split(r"[?#]", where)[0]
    before, found, where = url.partition(":")
    if found and "/" not in before:  # the short form of ssh, user@host:path
        return before.rpartition("@")[2] + found + where
    return url


def _plain_reason(error: GitError, path: Path) -> str:
    said = error.err
    if "dubious ownership" in said or "unsafe repository" in said:
        return "the repository belongs to another user"
    if "must be run in a work tree" in said:
        return "a bare repository has no work tree"
    if "not a git repository" in said:
        return "not in a git repository"
    return error.message
