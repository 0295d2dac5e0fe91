"""`expdb doctor`: what this machine, this repository and this store can do, and what to do about
the rest.

Invariant: nothing is changed; one empty file in the store has its time set, by which the clock of
this machine is measured.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from expdb.actions.doctor_machine import (
    Check,
    Mark,
    Terminal,
    expdb_check,
    gpu_check,
    library_checks,
    python_check,
    terminal_checks,
    torch_check,
)
from expdb.actions.kernel_log import kernel_log_checks
from expdb.errors import ExpdbError, NotFound
from expdb.git.command import GitError, git
from expdb.git.worktree import Unavailable, WorkTree
from expdb.index.generations import Generations
from expdb.index.reader import open_reader
from expdb.index.schema import version_text
from expdb.store.attempts import store_now
from expdb.store.locate import git_main_top
from expdb.store.store import Store
from expdb.text import count, plain, size

NETWORK = frozenset(
    ["nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "smbfs", "9p", "afs",
     "glusterfs", "orangefs", "pvfs2", "ocfs2", "gfs2", "wekafs", "fuse.sshfs", "fuse.glusterfs",
     "fuse.ceph", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "virtiofs"]
)  # fmt: skip
LITTLE_BYTES = 1_000_000_000
FEW_BYTES = 100_000_000
SKEW_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where the command was called."""

    directory: Path
    store: Store | ExpdbError
    """The store, or why there is none."""
    worktree: WorkTree | Unavailable
    terminal: Terminal
    mounts: str = ""
    """The content of /proc/mounts; empty where there is none."""


def mounts_now() -> str:
    """Return the mounts of this machine as the kernel lists them."""
    try:
        return Path("/proc/mounts").read_text(errors="surrogateescape")
    except OSError:
        return ""


def doctor(here: Surroundings) -> tuple[Check, ...]:
    """Return every check, in the order of the screen."""
    env = here.terminal.env
    checks = [python_check(), expdb_check(), torch_check(env), *library_checks()]
    checks.append(git_check(here.directory, here.worktree))
    checks += store_checks(here)
    checks += terminal_checks(here.terminal)
    checks.append(gpu_check(path=env.get("PATH")))
    checks += kernel_log_checks(path=env.get("PATH"))
    return tuple(checks)


def git_check(directory: Path, worktree: WorkTree | Unavailable) -> Check:
    """Return git's version and where its HEAD is, or why code cannot be kept."""
    try:
        said = git(("--version",), cwd=directory).text
    except GitError:
        what = "none: runs keep config and weights, not code"
        return Check(name="git", mark="note", what=what, advice=("install git",))
    version = said.removeprefix("git version ").split(" ")[0]
    if isinstance(worktree, WorkTree):
        return Check(name="git", mark="ok", what=f"{version}, repository {_at(worktree)}")
    what = f"{version}, {worktree.reason}: runs keep config and weights, not code"
    if "another user" in worktree.reason:
        top = git_main_top(directory.absolute()) or directory
        advice = f"git config --global --add safe.directory {_quoted(top)}"
        return Check(name="git", mark="problem", what=what, advice=(advice,))
    return Check(name="git", mark="note", what=what)


def _quoted(path: Path) -> str:
    import shlex

    return shlex.quote(plain(str(path)))


def _at(worktree: WorkTree) -> str:
    branch, head = worktree.branch(), worktree.head()
    if head is None:
        return f"on {branch}, no commit yet"
    where = "detached at" if branch == "detached" else f"on {branch}"
    return f"{where} {head[:7]}"


def store_checks(here: Surroundings) -> list[Check]:
    """Return the store, its index, and the clock of this machine against its files."""
    store = here.store
    if isinstance(store, NotFound):
        return [Check(name="store", mark="none", what=store.message, advice=store.hints)]
    if isinstance(store, ExpdbError):
        return [Check(name="store", mark="problem", what=store.message, advice=store.hints)]
    checks = [*place_checks(store, mounts=here.mounts, free=_free(store.root)), index_check(store)]
    if store.writable:
        now = time.time()
        checks.append(clock_check(now, store_now(store.layout.meta)))
    else:
        what = "not measured: the store cannot be written"
        checks.append(Check(name="clock", mark="none", what=what))
    return checks


def place_checks(store: Store, *, mounts: str, free: int | None) -> list[Check]:
    """Return where the store is and what there is to know about it; `free` is in bytes."""
    room = "" if free is None else f", {size(free)} free"
    notes: list[Check] = []
    if not store.writable:
        what = f"{store.name} cannot be written; its index is kept in your cache folder"
        advice = "train elsewhere: python train.py ... expdb.store=DIR"
        notes.append(Check(name="store", mark="note", what=what, advice=(advice,)))
    kind = file_system(store.root, mounts)
    if kind in NETWORK:
        what = (
            f"{store.name} is on a network file system ({kind}): a killed run of another host shows"
            " as lost after 10 min, not at once"
        )
        notes.append(Check(name="store", mark="note", what=what))
    if free is not None and free < LITTLE_BYTES:
        what = f"only {size(free)} are free for {store.name}"
        mark: Mark = "problem" if free < FEW_BYTES else "note"
        advice = "the largest runs: du -sh runs/exp=*/run=* | sort -h"
        notes.append(Check(name="store", mark=mark, what=what, advice=(advice,)))
    return notes or [Check(name="store", mark="ok", what=f"{store.name}{room}")]


def file_system(path: Path, mounts: str) -> str:
    """Return the type of the file system that a path is on, by the lines of /proc/mounts."""
    real = os.path.realpath(path)
    best, kind = -1, ""
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = _unescaped(words[1])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:  # a later mount lies over an earlier one
            best, kind = len(point), words[2]
    return kind


def _unescaped(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def _free(path: Path) -> int | None:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def index_check(store: Store) -> Check:
    """Return whether the index is current; nothing is built."""
    path = Generations(store.layout.index).current()
    with open_reader(store, build=False) as reader:
        known = dict(reader.rows("SELECT id, version FROM gen.runs"))
        now = {run: version_text(version) for run, version in reader.versions.items()}
    runs = f"{count(len(now))} run{'' if len(now) == 1 else 's'}"
    if path is None or not store.writable:
        what = f"none yet for {runs}: the next command makes it"
        if not store.writable:
            what = f"in your cache folder, {runs}"
        return Check(name="index", mark="ok", what=what)
    changed = sum(known.get(run) != version for run, version in now.items())
    changed += len(known.keys() - now.keys())
    if changed:
        noun = "run has" if changed == 1 else "runs have"
        what = f"{count(changed)} {noun} changed since: the next command looks again"
        return Check(name="index", mark="ok", what=what)
    return Check(name="index", mark="ok", what=f"current, {runs}, {size(path.stat().st_size)}")


def clock_check(now_s: float, file_s: float) -> Check:
    """Return how this machine's clock stands to the time that the store's files get."""
    behind = file_s - now_s
    if abs(behind) < SKEW_S:
        return Check(name="clock", mark="ok", what="agrees with the files it writes")
    way = "behind" if behind > 0 else "ahead of"
    return Check(
        name="clock",
        mark="problem",
        what=f"this machine is {abs(behind):,.0f} s {way} the files it just wrote",
        advice=("set the clock; ages and ETA are wrong until then",),
    )
