"""Edits of every kind, and where HEAD and the index can be."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.git.state import Files, Made, edit_train, state, text

if TYPE_CHECKING:
    from tests.git.conftest import Repo


@state("clean", dirty=False)
def clean(repo: Repo, tmp: Path) -> Made:
    return Made(repo=repo)


@state("modified")
def modified(repo: Repo, tmp: Path) -> Made:
    return edit_train(repo)


@state("staged, then modified again")
def staged(repo: Repo, tmp: Path) -> Made:
    repo.write("train.py", "staged\n")
    repo.git("add", "train.py")
    repo.write("train.py", "later\n")
    return Made(repo=repo, files={"train.py": text("later\n")})


@state("renamed in the index")
def renamed(repo: Repo, tmp: Path) -> Made:
    repo.git("mv", "model.py", "net.py")
    return Made(repo=repo, files={"model.py": None, "net.py": text("width = 2\n")})


@state("untracked")
def untracked(repo: Repo, tmp: Path) -> Made:
    repo.write("new dir/note.md", "hello\n")
    return Made(repo=repo, files={"new dir/note.md": text("hello\n")})


@state("deleted")
def deleted(repo: Repo, tmp: Path) -> Made:
    (repo.top / "model.py").unlink()
    return Made(repo=repo, files={"model.py": None})


@state("deleted from the index only")
def uncached(repo: Repo, tmp: Path) -> Made:
    repo.git("rm", "--quiet", "--cached", "model.py")
    repo.write("model.py", "kept on disk\n")
    return Made(repo=repo, files={"model.py": text("kept on disk\n")})


@state("mode changed")
def mode(repo: Repo, tmp: Path) -> Made:
    (repo.top / "model.py").chmod(0o755)
    return Made(repo=repo, files={"model.py": ("100755", b"width = 2\n")})


@state("symbolic links, one of them dangling")
def symlink(repo: Repo, tmp: Path) -> Made:
    (repo.top / "model.py").unlink()
    (repo.top / "model.py").symlink_to("train.py")
    (repo.top / "dangling").symlink_to("no/where")
    files: Files = {"model.py": ("120000", b"train.py"), "dangling": ("120000", b"no/where")}
    return Made(repo=repo, files=files)


@state("a file and a folder in each other's place")
def changed_places(repo: Repo, tmp: Path) -> Made:
    (repo.top / "model.py").unlink()
    repo.write("model.py/part.py", "p\n")
    (repo.top / "tools/run.sh").unlink()
    (repo.top / "tools").rmdir()
    repo.write("tools", "flat\n")
    return Made(
        repo=repo,
        files={
            "model.py": None,
            "model.py/part.py": text("p\n"),
            "tools/run.sh": None,
            "tools": text("flat\n"),
        },
    )


@state("intent to add")
def intent_to_add(repo: Repo, tmp: Path) -> Made:
    repo.write("soon.py", "soon\n")
    repo.git("add", "--intent-to-add", "soon.py")
    return Made(repo=repo, files={"soon.py": text("soon\n")})


@state("all of these at once, with names of every kind")
def everything(repo: Repo, tmp: Path) -> Made:
    repo.edit_every_way()
    odd = os.fsdecode(b"latin-\xe9.txt")
    files: Files = {
        "train.py": text("staged, then edited\n"),
        "notes with space.txt": text("untracked\n"),
        "staged new.py": text("new\n"),
        "soon.py": text("soon\n"),
        "model.py": None,
        "tools/run.sh": text("#!/bin/sh\n"),
        "数据/コード.py": ("120000", b"../train.py"),
        "data/a b.txt": None,
        "data/moved.txt": text("one\n"),
        "gone.py": text("untracked, and in the older commit\n"),
        "line\nend/deep/x": text("odd\n"),
        odd: text("odd\n"),
    }
    for name in ("quo'te\"s", "tab\there", ":(top)x", "-n", "*.py", " ", "絵.py"):
        repo.write(f"odd/{name}", name)
        files[f"odd/{name}"] = text(name)
    return Made(repo=repo, files=files)


@state("more edits than are looked at one by one")
def many(repo: Repo, tmp: Path) -> Made:
    for number in range(300):
        repo.write(f"many/{number}.py", f"{number}\n")
    repo.commit("many")
    files: Files = {}
    for number in range(250):
        repo.write(f"many/{number}.py", f"{number} edited\n")
        files[f"many/{number}.py"] = text(f"{number} edited\n")
    return Made(repo=repo, files=files)


@state("no commit yet", "the repository has no commit yet", complete=True)
def unborn(repo: Repo, tmp: Path) -> Made:
    fresh = type(repo)(tmp / "unborn")
    subprocess.run(["git", "init", "-q", "-b", "main", str(fresh.top)], check=True)
    fresh.write("train.py", "x\n")
    fresh.git("add", "train.py")
    goal = fresh.text("write-tree")
    fresh.write("train.py", "y\n")
    return Made(repo=fresh, files={"train.py": text("y\n")}, goal=goal)


@state("HEAD detached")
def detached(repo: Repo, tmp: Path) -> Made:
    repo.git("checkout", "--quiet", "--detach")
    return edit_train(repo)


@state("the index lost", dirty=False)
def lost_index(repo: Repo, tmp: Path) -> Made:
    (repo.top / ".git/index").unlink()
    return Made(repo=repo)


@state("the index split")
def split_index(repo: Repo, tmp: Path) -> Made:
    repo.git("update-index", "--split-index")
    return edit_train(repo)


@state("the index locked", refused="git's index is locked")
def locked(repo: Repo, tmp: Path) -> Made:
    made = edit_train(repo)
    repo.write(".git/index.lock", b"")
    return made


def _conflict(repo: Repo, *command: str) -> Made:
    repo.git("checkout", "--quiet", "-b", "side", "HEAD~1")
    repo.write("train.py", "lr = 9\n")
    repo.commit("side")
    repo.git("checkout", "--quiet", "main")
    repo.git(*command, check=False)
    data = (repo.top / "train.py").read_bytes()
    assert b"<<<<<<<" in data
    return Made(repo=repo, files={"train.py": ("100644", data)})


@state("in the middle of a merge", refused="a merge is in progress")
def merging(repo: Repo, tmp: Path) -> Made:
    return _conflict(repo, "merge", "side")


@state("in the middle of a rebase", refused="a rebase is in progress")
def rebasing(repo: Repo, tmp: Path) -> Made:
    made = _conflict(repo, "rebase", "side")
    made.files |= {"extra/new.py": text("y = 1\n"), "gone.py": None}
    return made


@state("in the middle of a cherry-pick", refused="a cherry-pick is in progress")
def picking(repo: Repo, tmp: Path) -> Made:
    return _conflict(repo, "cherry-pick", "side")


@state("in the middle of a revert", refused="a revert is in progress")
def reverting(repo: Repo, tmp: Path) -> Made:
    repo.write("train.py", "lr = 4\n")
    repo.commit("third")
    repo.git("revert", "--no-edit", "HEAD~1", check=False)
    data = (repo.top / "train.py").read_bytes()
    assert b"<<<<<<<" in data
    # What else the revert brought back is staged.
    files: Files = {"train.py": ("100644", data), "gone.py": text("old\n"), "extra/new.py": None}
    return Made(repo=repo, files=files)


@state("in the middle of a bisect", refused="a bisect is in progress")
def bisecting(repo: Repo, tmp: Path) -> Made:
    repo.git("bisect", "start", "main", "main~1")
    return edit_train(repo)


@state("squash-merged, its branch deleted, and pruned", dirty=False)
def squashed(repo: Repo, tmp: Path) -> Made:
    from expdb.git.snapshot import take_pin

    repo.git("checkout", "--quiet", "-b", "side")
    repo.write("train.py", "lr = 5\n")
    repo.commit("on a side")
    pin = take_pin(repo.worktree, store_root=tmp / "store")
    repo.write("train.py", "lr = 6\n")
    repo.commit("and on")
    repo.git("checkout", "--quiet", "main")
    repo.git("merge", "--quiet", "--squash", "side")
    repo.commit("squashed")
    repo.git("branch", "--quiet", "-D", "side")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--quiet", "--prune=now")
    return Made(repo=repo, goal=str(pin.pinned))
