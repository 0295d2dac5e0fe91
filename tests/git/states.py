"""States that a user's repository can be in: how to get there, and what a pin and a rollback do.

Each name is a row of docs/versioning.md.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.git.conftest import Repo

Files = dict[str, tuple[str, bytes] | None]
LFS_RULES = "*.bin filter=lfs diff=lfs merge=lfs -text\n"


@dataclass(kw_only=True)
class Made:
    """A repository in some state."""

    repo: Repo
    files: Files = field(default_factory=dict)
    """What the pin's tree has otherwise than HEAD's: path -> (mode, content), None for absent."""
    goal: str = "HEAD~1"
    """Where the rollback goes."""


@dataclass(frozen=True, kw_only=True)
class State:
    name: str
    make: Callable[[Repo, Path], Made]
    reasons: tuple[str, ...] = ()
    """What the pin says; `*` stands for anything."""
    complete: bool = True
    """Whether the pinned code can be had again, byte for byte."""
    dirty: bool = True
    refused: str = ""
    """What a rollback says; empty where it is carried out and undone."""
    stale: bool = False
    """Git takes a file for clean by its times only, until it is written again."""


STATES: dict[str, State] = {}


def state(
    name: str,
    *reasons: str,
    complete: bool | None = None,
    dirty: bool = True,
    refused: str = "",
    stale: bool = False,
) -> Callable[[Callable[[Repo, Path], Made]], Callable[[Repo, Path], Made]]:
    def add(make: Callable[[Repo, Path], Made]) -> Callable[[Repo, Path], Made]:
        assert name not in STATES
        STATES[name] = State(
            name=name,
            make=make,
            reasons=reasons,
            complete=not reasons if complete is None else complete,
            dirty=dirty,
            refused=refused,
            stale=stale,
        )
        return make

    return add


def text(data: str) -> tuple[str, bytes]:
    return ("100644", data.encode())


# --- edits of every kind


@state("clean", dirty=False)
def clean(repo: Repo, tmp: Path) -> Made:
    return Made(repo=repo)


@state("modified")
def modified(repo: Repo, tmp: Path) -> Made:
    repo.write("train.py", "lr = 3\n")
    return Made(repo=repo, files={"train.py": text("lr = 3\n")})


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


# --- where HEAD and the index are


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
    return modified(repo, tmp)


@state("the index lost", dirty=False)
def lost_index(repo: Repo, tmp: Path) -> Made:
    (repo.top / ".git/index").unlink()
    return Made(repo=repo)


@state("the index split")
def split_index(repo: Repo, tmp: Path) -> Made:
    repo.git("update-index", "--split-index")
    return modified(repo, tmp)


@state("the index locked", refused="git's index is locked")
def locked(repo: Repo, tmp: Path) -> Made:
    made = modified(repo, tmp)
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
    return modified(repo, tmp)


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


# --- other shapes of repositories


def _clone(repo: Repo, tmp: Path, *options: str) -> Repo:
    folder = tmp / "clone"
    words = ["git", "clone", "-q", *options, f"file://{repo.top}", str(folder)]
    subprocess.run(words, check=True, capture_output=True)
    return type(repo)(folder)


@state("a shallow clone", "a shallow clone: the history before it is absent", complete=True)
def shallow(repo: Repo, tmp: Path) -> Made:
    clone = _clone(repo, tmp, "--depth=1")
    clone.git("checkout", "--quiet", "--detach")
    made = modified(clone, tmp)
    made.goal = "HEAD"
    return made


@state("a linked work tree")
def linked(repo: Repo, tmp: Path) -> Made:
    repo.git("worktree", "add", "--quiet", "-b", "side", str(tmp / "linked"))
    return modified(type(repo)(tmp / "linked"), tmp)


@state("a linked work tree with a config of its own")
def own_config(repo: Repo, tmp: Path) -> Made:
    repo.git("config", "extensions.worktreeConfig", "true")
    repo.git("worktree", "add", "--quiet", "--detach", str(tmp / "linked"))
    work = type(repo)(tmp / "linked")
    work.git("config", "--worktree", "core.autocrlf", "input")
    return modified(work, tmp)


@state("objects borrowed from another repository")
def alternates(repo: Repo, tmp: Path) -> Made:
    clone = _clone(repo, tmp, "--reference", str(repo.top))
    assert (clone.top / ".git/objects/info/alternates").exists()
    return modified(clone, tmp)


@state(
    "a partial clone, cut off from its remote",
    refused="its content is not in this repository",
)
def partial(repo: Repo, tmp: Path) -> Made:
    repo.git("config", "uploadpack.allowFilter", "true")
    clone = _clone(repo, tmp, "--filter=blob:none")
    repo.top.rename(tmp / "away")
    return modified(clone, tmp)


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
    return modified(fresh, tmp)


# --- what git keeps elsewhere


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
    return Made(repo=_clone(repo, tmp))


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


# --- line endings, modes, flags, sparse trees


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
    return modified(repo, tmp)


# --- settings of the user


@state("hooks that fail, core.hooksPath to nowhere")
def hooks(repo: Repo, tmp: Path) -> Made:
    for hook in ("pre-commit", "commit-msg", "reference-transaction", "post-index-change"):
        repo.write(f".git/hooks/{hook}", "#!/bin/sh\nexit 1\n").chmod(0o755)
    repo.git("config", "core.hooksPath", "/no/such/folder")
    return modified(repo, tmp)


@state("commit.gpgSign, and no key")
def signing(repo: Repo, tmp: Path) -> Made:
    repo.git("config", "commit.gpgSign", "true")
    repo.git("config", "gpg.program", "/no/such/gpg")
    return modified(repo, tmp)


@state("core.fsmonitor and an untracked cache")
def monitored(repo: Repo, tmp: Path) -> Made:
    monitor = repo.write(".git/monitor", "#!/bin/sh\nexit 1\n")
    monitor.chmod(0o755)
    repo.git("update-index", "--force-untracked-cache")
    repo.git("status")
    repo.git("config", "core.fsmonitor", str(monitor))
    repo.git("config", "core.untrackedCache", "true")
    repo.write("new dir/note.md", "hello\n")
    made = modified(repo, tmp)
    made.files["new dir/note.md"] = text("hello\n")
    return made


@state("the top of the repository below a link")
def through_a_link(repo: Repo, tmp: Path) -> Made:
    (tmp / "by link").symlink_to(repo.top)
    return modified(type(repo)(tmp / "by link"), tmp)
