"""What pins and rollbacks cost in a repository of 5,000 files, the checkpoint apart.

    python -m bench.git_states [--files 5000] [--rounds 5]

Each figure is a median, wall and CPU (of this process and the git it starts) in milliseconds. A
rollback is the plan that is shown and the change that is made, as the command does both. The
repository is packed, as a clone is, and lies where temporary files do.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

from expdb.actions.change import Done, Goal, carry_out
from expdb.actions.preview import preview
from expdb.actions.undo import undo_goal
from expdb.git.snapshot import take_pin
from expdb.git.untracked import DEFAULT_EXCLUDE, DEFAULT_SECRET_FILES
from expdb.git.worktree import WorkTree, find_worktree
from expdb.store.store import Store, open_store

SHARE = 0.15
NUM_EDITS = 20
NUM_UNTRACKED = 50_000
T = TypeVar("T")
LINE = "x = 1  # a line of some length, as code has it\n"


def cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


class Figures:
    """Name -> (wall, CPU) of each round, in milliseconds."""

    def __init__(self) -> None:
        self.taken: dict[str, list[tuple[float, float]]] = {}

    def take(self, name: str, call: Callable[[], T]) -> T:
        wall, cpu = time.perf_counter(), cpu_s()
        done = call()
        spent = ((time.perf_counter() - wall) * 1e3, (cpu_s() - cpu) * 1e3)
        self.taken.setdefault(name, []).append(spent)
        return done

    def medians(self) -> dict[str, dict[str, float]]:
        return {
            name: {
                "wall_ms": round(median(wall for wall, _ in taken)),
                "cpu_ms": round(median(cpu for _, cpu in taken)),
            }
            for name, taken in self.taken.items()
        }


def git(top: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=top, check=True, capture_output=True)


def make(top: Path, num_files: int) -> list[Path]:
    """Make the repository; return its files."""
    files = [top / f"pkg{number % 50:02d}/m{number:05d}.py" for number in range(num_files)]
    for number, path in enumerate(files):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {number}\n" + LINE * 60)
    (top / ".gitignore").write_text("/runs/\n")
    git(top, "init", "-q", "-b", "main")
    for name, value in (("user.name", "bench"), ("user.email", "bench@example.org")):
        git(top, "config", name, value)
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "all")
    git(top, "repack", "-a", "-d", "-q")
    return files


def edit(files: list[Path], word: str) -> None:
    for path in files:
        path.write_text(f"{word}\n" + path.read_text())


def roll_back(store: Store, worktree: WorkTree, goal: Goal) -> Done:
    preview(
        worktree,
        goal.tree,
        store_root=store.root,
        exclude=DEFAULT_EXCLUDE,
        secret_files=DEFAULT_SECRET_FILES,
    )
    return carry_out(store, worktree, goal)


def measure(top: Path, num_files: int, rounds: int) -> Figures:
    files = make(top, num_files)
    store = open_store(top / "runs", create=True)
    worktree = find_worktree(top)
    assert isinstance(worktree, WorkTree)
    figures = Figures()
    for number in range(rounds):
        clean = figures.take("pin, clean", lambda: take_pin(worktree, store_root=store.root))
        assert not clean.dirty
        assert clean.tree is not None
        assert clean.pinned is not None
        edit(files[:NUM_EDITS], f"few {number}")
        figures.take(f"pin, {NUM_EDITS} edits", lambda: take_pin(worktree, store_root=store.root))
        git(top, "checkout", "-q", ".")
        goal = Goal(kind="rollback", what="bench", tree=clean.tree, commit=clean.pinned)
        for share in (SHARE, 1.0):
            edit(files[: int(num_files * share)], f"many {number}")
            done = figures.take(
                f"rollback, {share:.0%} of the files differ",
                lambda goal=goal: roll_back(store, worktree, goal),  # type: ignore[misc]
            )
            figures.take(
                f"undo, {share:.0%} of the files differ",
                lambda done=done: carry_out(store, worktree, undo_goal(done.op)),  # type: ignore[misc]
            )
            git(top, "checkout", "-q", ".")
    for number in range(NUM_UNTRACKED):
        if number % 1_000 == 0:
            (top / f"many/{number // 1_000}").mkdir(parents=True)
        (top / f"many/{number // 1_000}/{number}").touch()
    for _ in range(rounds):
        figures.take(
            f"pin, {NUM_UNTRACKED:,} untracked files",
            lambda: take_pin(worktree, store_root=store.root),
        )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder) / "repo", given.files, given.rounds)
    found = {"files": given.files, "load": [round(load, 1), round(os.getloadavg()[0], 1)]}
    print(json.dumps({**found, **figures.medians()}, indent=2))


if __name__ == "__main__":
    main()
