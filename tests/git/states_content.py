"""What git keeps elsewhere or otherwise: submodules, LFS, line ends, modes, flags, sparse trees."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.git.state import Made, edit_train, state, text
from tests.git.states_places import clone_of

if TYPE_CHECKING:
    from tests.git.conftest import Repo

LFS_RULES = "*.bin filter=lfs diff=lfs merge=lfs -text\n"


def _with_submodule(repo: Repo, tmp: Path) -> Path:
    lib = type(repo)(tmp / "lib")
    subprocess.run(["git", "init", "-q", "-b", "main", str(lib.top)], check=True)
    for number in range(2):
        lib.write("lib.py", f"a = {number}\n")
        lib.commit("more")
    allow = ("-c", "protocol.file.allow=always")
    repo.git(*allow, "submodule", "--quiet", "add", str(lib.top), "lib")
    repo.commit("with a submodule")
    repo.write("train.py", "lr = 3\n")
    repo.commit("one more")
    return repo.top / "lib"


@state("a submodule, clean", dirty=False)
def submodule(repo: Repo, tmp: Path) -> Made:
    _with_submodule(repo, tmp)
    return Made(repo=repo)


@state(
    "a submodule with edits in it",
    "edits inside the submodule lib are not captured",
    dirty=False,
)
def submodule_edited(repo: Repo, tmp: Path) -> Made:
    folder = _with_submodule(repo, tmp)
    (folder / "lib.py").write_text("edited\n")
    return Made(repo=repo)


@state("a submodule at another commit", refused="a submodule: its files are in another repository")
def submodule_moved(repo: Repo, tmp: Path) -> Made:
    folder = _with_submodule(repo, tmp)
    repo.git("-C", "lib", "checkout", "--quiet", "HEAD~1")
    commit = type(repo)(folder).text("rev-parse", "HEAD")
    return Made(repo=repo, files={"lib": ("160000", commit.encode())})


@state("a submodule that was never fetched", dirty=False)
def submodule_absent(repo: Repo, tmp: Path) -> Made:
    _with_submodule(repo, tmp)
    return Made(repo=clone_of(repo, tmp))


@state(
    "a repository inside, not a submodule",
    "inner/ is a repository of its own: not captured",
    dirty=False,
)
def nested(repo: Repo, tmp: Path) -> Made:
    inner = type(repo)(repo.top / "inner")
    subprocess.run(["git", "init", "-q", str(inner.top)], check=True)
    inner.write("x.py", "x\n")
    inner.commit("inside")
    return Made(repo=repo)


@state("LFS pointers, no git-lfs")
def lfs_absent(repo: Repo, tmp: Path) -> Made:
    repo.write(".gitattributes", LFS_RULES)
    for number in range(2):
        repo.write("w.bin", f"version https://git-lfs.github.com/spec/v1\nsize {number}\n")
        repo.commit("a pointer")
    repo.write("w.bin", "version https://git-lfs.github.com/spec/v1\nsize 7\n")
    pointer = text("version https://git-lfs.github.com/spec/v1\nsize 7\n")
    return Made(repo=repo, files={"w.bin": pointer})


FAKE_LFS = """#!/bin/sh
store="{store}"
case "$1" in
clean)
    cat > "$store/new"
    id=$(sha256sum < "$store/new" | cut -d' ' -f1)
    mv "$store/new" "$store/$id"
    echo "version https://git-lfs.github.com/spec/v1"
    echo "oid sha256:$id" ;;
smudge)
    id=$(sed -n 's/^oid sha256://p')
    cat "$store/$id" ;;
esac
"""


def lfs(repo: Repo, tmp: Path) -> Path:
    """Configure a stand-in for git-lfs as `git lfs install` does; return where it keeps content."""
    kept = tmp / "lfs objects"
    kept.mkdir()
    program = tmp / "git-lfs"
    program.write_text(FAKE_LFS.format(store=kept))
    program.chmod(0o755)
    repo.git("config", "filter.lfs.clean", f"'{program}' clean %f")
    repo.git("config", "filter.lfs.smudge", f"'{program}' smudge %f")
    repo.git("config", "filter.lfs.required", "true")
    repo.write(".gitattributes", LFS_RULES)
    for number in range(2):
        repo.write("w.bin", f"weights {number}\n")
        repo.commit("weights")
    return kept


@state("LFS content, unedited", dirty=False)
def lfs_clean(repo: Repo, tmp: Path) -> Made:
    lfs(repo, tmp)
    return Made(repo=repo)


@state(
    "LFS content, edited",
    "w.bin went through the git filter lfs: only its output is captured",
)
def lfs_edited(repo: Repo, tmp: Path) -> Made:
    kept = lfs(repo, tmp)
    repo.write("w.bin", b"weights of mine\r\n\0")
    shown = subprocess.run(
        [tmp / "git-lfs", "clean"], input=b"weights of mine\r\n\0", capture_output=True, check=True
    )
    for path in kept.iterdir():
        if path.read_bytes().startswith(b"weights of mine"):
            path.unlink()  # nothing but the pin and the file have it now
    return Made(repo=repo, files={"w.bin": ("100644", shown.stdout)})


@state(
    "LFS content that is gone where git-lfs keeps it",
    refused="the git filter lfs fails: its content cannot be written",
    dirty=False,
)
def lfs_lost(repo: Repo, tmp: Path) -> Made:
    kept = lfs(repo, tmp)
    for path in kept.iterdir():
        path.unlink()
    return Made(repo=repo)


@state(
    "a required filter whose program is missing",
    "a git filter failed (*): raw bytes are stored",
    refused="the git filter lfs fails: its content cannot be written",
)
def filter_missing(repo: Repo, tmp: Path) -> Made:
    lfs(repo, tmp)
    repo.write("w.bin", "weights of mine\n")
    (tmp / "git-lfs").unlink()
    return Made(repo=repo, files={"w.bin": text("weights of mine\n")})


@state("text=auto, and CRLF on disk")
def crlf(repo: Repo, tmp: Path) -> Made:
    repo.write(".gitattributes", "* text=auto\n")
    repo.write("mixed.py", b"a\r\nb\n")
    repo.write("dos.py", b"a\r\nb\r\n")
    repo.commit("third")
    repo.write("mixed.py", b"c\r\nd\n")
    repo.write("dos.py", b"c\r\nd\r\n")
    repo.commit("fourth")
    repo.write("mixed.py", b"e\r\nf\n")
    repo.write("new dos.py", b"g\r\nh\n")
    return Made(repo=repo, files={"mixed.py": text("e\nf\n"), "new dos.py": text("g\nh\n")})


@state("core.autocrlf, and CRLF on disk that git calls clean", dirty=False)
def autocrlf(repo: Repo, tmp: Path) -> Made:
    repo.git("config", "core.autocrlf", "true")
    for number in range(2):
        repo.write("dos.py", f"{number}\r\ntwo\r\n".encode())
        repo.commit("more")
    assert repo.git("status", "--porcelain") == b""
    return Made(repo=repo)


@state("attributes that changed after the files were written", dirty=False, stale=True)
def other_rules(repo: Repo, tmp: Path) -> Made:
    repo.write(".gitattributes", "*.txt text eol=crlf\n")
    written = repo.write("a.txt", b"one\r\n")
    os.utime(written, (1_000_000_000, 1_000_000_000))  # long before the index knew it
    repo.commit("third")
    repo.write(".gitattributes", "")
    repo.commit("fourth")
    assert repo.git("show", "HEAD:a.txt") == b"one\n"
    return Made(repo=repo)


@state("core.filemode off, and a mode changed", dirty=False)
def no_filemode(repo: Repo, tmp: Path) -> Made:
    repo.git("config", "core.filemode", "false")
    (repo.top / "train.py").chmod(0o755)
    return Made(repo=repo)


HIDDEN = "edits of train.py are hidden from git by a flag on it: not captured"


@state("edits hidden by assume-unchanged", HIDDEN, dirty=False)
def assumed(repo: Repo, tmp: Path) -> Made:
    repo.git("update-index", "--assume-unchanged", "train.py")
    repo.write("train.py", "hidden\n")
    return Made(repo=repo)


@state("edits hidden by skip-worktree", HIDDEN, dirty=False)
def skipped(repo: Repo, tmp: Path) -> Made:
    repo.git("update-index", "--skip-worktree", "train.py")
    repo.write("train.py", "hidden\n")
    return Made(repo=repo)


@state("a sparse checkout", refused="a sparse checkout: files are kept out of the work tree")
def sparse(repo: Repo, tmp: Path) -> Made:
    repo.git("sparse-checkout", "set", "--no-cone", "/*", "!/extra/")
    return edit_train(repo)
