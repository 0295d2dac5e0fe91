"""Repositories of other shapes, settings of the user."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.git.state import Made, edit_train, state, text

if TYPE_CHECKING:
    from tests.git.conftest import Repo


def clone_of(repo: Repo, tmp: Path, *options: str) -> Repo:
    folder = tmp / "clone"
    words = ["git", "clone", "-q", *options, f"file://{repo.top}", str(folder)]
    subprocess.run(words, check=True, capture_output=True)
    return type(repo)(folder)


@state("a shallow clone", "a shallow clone: the history before it is absent", complete=True)
def shallow(repo: Repo, tmp: Path) -> Made:
    clone = clone_of(repo, tmp, "--depth=1")
    clone.git("checkout", "--quiet", "--detach")
    made = edit_train(clone)
    made.goal = "HEAD"
    return made


@state("a linked work tree")
def linked(repo: Repo, tmp: Path) -> Made:
    repo.git("worktree", "add", "--quiet", "-b", "side", str(tmp / "linked"))
    return edit_train(type(repo)(tmp / "linked"))


@state("a linked work tree with a config of its own")
def own_config(repo: Repo, tmp: Path) -> Made:
    repo.git("config", "extensions.worktreeConfig", "true")
    repo.git("worktree", "add", "--quiet", "--detach", str(tmp / "linked"))
    work = type(repo)(tmp / "linked")
    work.git("config", "--worktree", "core.autocrlf", "input")
    return edit_train(work)


@state("objects borrowed from another repository")
def alternates(repo: Repo, tmp: Path) -> Made:
    clone = clone_of(repo, tmp, "--reference", str(repo.top))
    assert (clone.top / ".git/objects/info/alternates").exists()
    return edit_train(clone)


@state(
    "a partial clone, cut off from its remote",
    refused="its content is not in this repository",
)
def partial(repo: Repo, tmp: Path) -> Made:
    repo.git("config", "uploadpack.allowFilter", "true")
    clone = clone_of(repo, tmp, "--filter=blob:none")
    repo.top.rename(tmp / "away")
    return edit_train(clone)


@state("sha256 object names")
def sha256(repo: Repo, tmp: Path) -> Made:
    return _fresh(repo, tmp, "--object-format=sha256")


@state("refs in a reftable")
def reftable(repo: Repo, tmp: Path) -> Made:
    return _fresh(repo, tmp, "--ref-format=reftable")


def _fresh(repo: Repo, tmp: Path, option: str) -> Made:
    fresh = type(repo)(tmp / "fresh")
    words = ["git", "init", "-q", "-b", "main", option, str(fresh.top)]
    if subprocess.run(words, check=False, capture_output=True).returncode != 0:
        import pytest

        pytest.skip(f"this git knows no {option}")
    for number in range(2):
        fresh.write("train.py", f"lr = {number}\n")
        fresh.commit("more")
    return edit_train(fresh)


@state("hooks that fail, core.hooksPath to nowhere")
def hooks(repo: Repo, tmp: Path) -> Made:
    for hook in ("pre-commit", "commit-msg", "reference-transaction", "post-index-change"):
        repo.write(f".git/hooks/{hook}", "#!/bin/sh\nexit 1\n").chmod(0o755)
    repo.git("config", "core.hooksPath", "/no/such/folder")
    return edit_train(repo)


@state("commit.gpgSign, and no key")
def signing(repo: Repo, tmp: Path) -> Made:
    repo.git("config", "commit.gpgSign", "true")
    repo.git("config", "gpg.program", "/no/such/gpg")
    return edit_train(repo)


@state("core.fsmonitor and an untracked cache")
def monitored(repo: Repo, tmp: Path) -> Made:
    monitor = repo.write(".git/monitor", "#!/bin/sh\nexit 1\n")
    monitor.chmod(0o755)
    repo.git("update-index", "--force-untracked-cache")
    repo.git("status")
    repo.git("config", "core.fsmonitor", str(monitor))
    repo.git("config", "core.untrackedCache", "true")
    repo.write("new dir/note.md", "hello\n")
    made = edit_train(repo)
    made.files["new dir/note.md"] = text("hello\n")
    return made


@state("the top of the repository below a link")
def through_a_link(repo: Repo, tmp: Path) -> Made:
    (tmp / "by link").symlink_to(repo.top)
    return edit_train(type(repo)(tmp / "by link"))
