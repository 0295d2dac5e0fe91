"""Whatever was in a work tree at a rollback or an undo can be had again, byte for byte.

A play is a history of one repository: edits, stages, commits, pins, rollbacks, undos, undos of
undos, in two work trees, some of them killed between two file operations and then continued or
taken back. The oracle is what was on disk and in the index before each change.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from expdb.actions.change import Goal, carry_out
from expdb.actions.go_on import abort, continue_
from expdb.actions.ops import History
from expdb.actions.undo import undo_goal
from expdb.errors import Refused
from expdb.git.objects import REFS
from expdb.git.restore import verify
from expdb.git.snapshot import take_pin
from expdb.model import Op, RunAt
from expdb.store.head import read_head
from expdb.store.ids import new_id
from expdb.store.ops import find_unfinished, read_ops
from tests.actions.bomb import Bomb, survives

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from conftest import World

LIB = "lib"
"""Where a repository inside lies, once a play made one and added it as a submodule."""
PATHS = ["a.py", "b.py", "d/x.py", "d/y/z.py", "d", "ü \n'\"", "x.bin", "big.py", f"{LIB}/in.py"]
TEXTS = ["", "1\n", "2\n", "no end", "crlf\r\n", "mixed\r\nends\n", "\0\xff"]
IGNORES = ["/runs/\n", "/runs/\n*.bin\n", "/runs/\nd/\n", "/runs/\n*.py\n!a.py\n"]
RULES = ["", "* text=auto\n", "*.py text eol=crlf\n", "d/** -text\n"]
EDITS = {
    "write": 10, "delete": 3, "rename": 2, "chmod": 2, "link": 2, "stage": 5, "uncache": 1,
    "ignores": 1, "rules": 1, "commit": 2, "submodule": 0.15,
}  # fmt: skip
MOVES = {"edit": 10, "rollback": 5, "undo": 3, "again": 1, "pin": 1, "switch": 1}


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a work tree holds."""

    seen: dict[str, Any]
    """What git sees of the disk."""
    rest: dict[str, Any]
    """What it ignores, and the insides of a submodule."""
    staged: str
    head: Any
    edited: frozenset[str]
    """What differs from HEAD, in git's eyes."""


class Play:
    """Two work trees of a repository, the goals that were pinned, and what was there at each op."""

    def __init__(self, world: World, other: World, rng: random.Random) -> None:
        self.worlds = [world, other]
        self.rng = rng
        self.said: list[str] = []
        self.goals: list[Goal] = []
        self.states: dict[str, Look] = {}
        self.plans: dict[str, set[str]] = {}

    @property
    def world(self) -> World:
        return self.worlds[0]

    def pin(self) -> None:
        """Pin the code as a run that starts now does."""
        pin = take_pin(self.world.worktree, store_root=self.world.store.root)
        assert pin.tree is not None
        assert pin.pinned is not None
        run = RunAt(run=new_id(), step=1)
        goal = Goal(kind="rollback", what="x", tree=pin.tree, commit=pin.pinned, at=run)
        self.goals.append(goal)

    def look(self) -> Look:
        words = ("status", "--porcelain=v2", "-z", "-uall", "--ignored", "--no-renames")
        status = self.world.git(*words).split("\0")
        ignored = {line[2:] for line in status if line[:1] == "!"}
        disk = self.world.disk()
        ignored |= {path for path in disk if path == ".git" or path.startswith(f"{LIB}/")}
        changes = [line[2:] if line[:1] == "?" else line for line in status if line[:1] != "!"]
        return Look(
            seen={path: what for path, what in disk.items() if path not in ignored},
            rest={path: what for path, what in disk.items() if path in ignored},
            staged=self.world.staged(),
            head=read_head(self.world.git_dir),
            edited=frozenset(line.split(" ", 8)[-1] for line in changes),
        )

    def move(self) -> None:
        (kind,) = self.rng.choices(list(MOVES), list(MOVES.values()))
        if kind == "rollback":
            self.roll_back(self.rng.choice(self.goals), self.kill())
        elif kind == "undo":
            op = self.history().newest_to_undo(str(self.world.git_dir))
            self.undo(op, self.kill())
        elif kind == "again":
            self.undo(self.newest_undo(), self.kill())
        elif kind == "switch":
            self.worlds.reverse()
        elif kind == "pin":
            self.pin()
        else:
            for _ in range(self.rng.randint(1, 4)):
                self.edit()

    def kill(self) -> tuple[int, str] | None:
        """Choose before which change of a file the process dies, and the way out; mostly not."""
        if self.rng.random() < 0.7:
            return None
        return self.rng.randint(1, 70), self.rng.choice(["continue", "abort"])

    def make_submodule(self) -> None:
        inner = self.world.top / LIB
        if os.path.lexists(inner):
            return
        subprocess.run(["git", "init", "-q", inner], check=True)
        (inner / "in.py").write_text("inside\n")
        for words in (("add", "in.py"), ("commit", "-q", "-m", "inside")):
            subprocess.run(["git", *words], cwd=inner, check=True)
        self.world.git("add", LIB)

    def edit(self) -> None:
        rng = self.rng
        (kind,) = rng.choices(list(EDITS), list(EDITS.values()))
        path, text = rng.choice(PATHS), rng.choice(TEXTS)
        full = self.world.top / path
        exists = full.is_symlink() or full.is_file()
        if path.startswith(LIB) and not (self.world.top / LIB).is_dir():
            return
        if kind == "stage":
            self.world.git("add", "--all", "--", ":(literal)" + path, check=False)
        elif kind == "uncache":
            self.world.git("rm", "-q", "--cached", "--", ":(literal)" + path, check=False)
        elif kind == "commit":
            self.world.git("add", "--all", check=False)
            self.world.git("commit", "--quiet", "--allow-empty", "-m", "x", check=False)
        elif kind == "submodule":
            self.make_submodule()
        elif kind == "ignores":
            self.world.write({".gitignore": rng.choice(IGNORES)})
        elif kind == "rules":
            self.world.write({".gitattributes": rng.choice(RULES)})
        elif kind == "rename" and exists:
            self.world.git("mv", "--", path, rng.choice(PATHS), check=False)
        elif kind == "delete" and exists:
            full.unlink()
        elif kind == "chmod" and exists and not full.is_symlink():
            full.chmod(0o755 if full.stat().st_mode & 0o111 == 0 else 0o600)
        elif kind == "write" and self.clear(full):
            full.write_bytes(text.encode("latin-1") * (300 if path == "big.py" else 1))
        elif kind == "link" and self.clear(full):
            full.symlink_to("to " + text.strip().replace("\0", "0"))

    def clear(self, full: Path) -> bool:
        """Make room for a file, but not in the place of a folder."""
        if full.is_dir() and not full.is_symlink():
            return False
        for above in full.parents:
            if above.is_file() or above.is_symlink():
                above.unlink()
        full.parent.mkdir(parents=True, exist_ok=True)
        full.unlink(missing_ok=True)
        return True

    def history(self) -> History:
        return History(read_ops(self.world.store.layout))

    def newest_undo(self) -> Op | None:
        """Return the newest undo of this work tree that is in force."""
        history, here = self.history(), str(self.world.git_dir)
        mine = [op for op in history.ops if op.work_tree == here and op.kind == "undo"]
        return next((op for op in reversed(mine) if history.stands(op)), None)

    def roll_back(self, goal: Goal, kill: tuple[int, str] | None = None) -> None:
        before = self.look()
        op = self.carry_out(goal, kill, before)
        if op is None:
            return
        names = set(self.world.git("ls-tree", "-r", "-z", "--name-only", goal.tree).split("\0"))
        assert verify(self.world.worktree, goal.tree) == []
        now = self.world.disk()
        stay = [path for path in before.rest if path not in names]
        assert {path: now.get(path) for path in stay} == {p: before.rest[p] for p in stay}

    def undo(self, op: Op | None, kill: tuple[int, str] | None = None) -> None:
        if op is None:
            return
        before = self.look()
        if self.carry_out(undo_goal(op), kill, before) is None:
            return
        now, was = self.look(), self.states[op.id]
        # What was ignored here stays, and may be a plain untracked file by the rules of then.
        stayed = {path: what for path, what in before.rest.items() if path not in was.seen}
        found = differing({**now.seen, **stayed}, {**was.seen, **stayed})
        lost = {path: both for path, both in found.items() if self.is_lost(op.id, path, *both)}
        assert lost == {}, op.id
        assert (now.staged, now.head) == (was.staged, was.head)
        gone = set(was.rest) - set(now.rest)
        assert not gone & {*before.seen, *before.rest}, "an ignored file went away"

    def is_lost(self, op: str, path: str, now: Any, was: Any) -> bool:
        """Tell whether a difference is one.

        What the op did not touch comes back as git has it: with the executable bit of all
        permissions, and, where it was committed, with the line ends that git writes.
        """
        if now is None or was is None or path in self.plans[op]:
            return True
        if (now[0] == "link") is not (was[0] == "link") or is_executable(now) != is_executable(was):
            return True
        if path in self.states[op].edited:
            return bool(now[1] != was[1])
        return one_line_end(now[1]) != one_line_end(was[1])

    def carry_out(self, goal: Goal, kill: tuple[int, str] | None, before: Look) -> str | None:
        """Bring the work tree to a goal, through a kill where there is one; None if it is not."""
        world, aside = self.world, self.worlds[1].disk()
        known = {op.id for op in self.history().ops}
        try:
            if kill is None:
                carry_out(world.store, world.worktree, goal)
            else:
                self.killed(goal, *kill)
        except Refused as error:
            self.said.append(f"{error.message} {error.details}")
        assert self.worlds[1].disk() == aside, "the other work tree changed"
        assert find_unfinished(world.git_dir, world.store.layout) is None
        history = self.history()
        new = [op for op in history.ops if op.id not in known and history.state[op.id] == "done"]
        if not new:
            assert self.look() == before
            return None
        (op,) = new
        self.states[op.id] = before
        self.plans[op.id] = {row[0] for row in op.after["plan"]}
        return op.id

    def killed(self, goal: Goal, at: int, way: str) -> None:
        world = self.world

        def run() -> None:
            try:
                carry_out(world.store, world.worktree, goal)
            except Refused:
                pass

        if survives(Bomb(at), run) or find_unfinished(world.git_dir, world.store.layout) is None:
            return
        (continue_ if way == "continue" else abort)(world.store, world.worktree)

    def unwind(self) -> None:
        """Take back all that stands, the newest first, in both work trees."""
        for _ in range(2):
            while op := self.history().newest_to_undo(str(self.world.git_dir)):
                standing = len(self.history().ops)
                self.undo(op)
                if len(self.history().ops) == standing:
                    break  # it is refused
            self.worlds.reverse()

    def check_rescue(self) -> None:
        """Find every saved file with plain git: by its name in the commit that each op keeps."""
        for op, look in self.states.items():
            kept = self.kept(f"{REFS}undo/{op}")
            raw = self.kept(f"{REFS}undo/{op}^2^")
            for path, (kind, data) in look.seen.items():
                mode, blob = kept[path]
                assert (mode == "120000") is (kind == "link")
                assert (mode == "100755") is is_executable((kind, data))
                if path in raw:
                    assert raw[path][1] == blob_of(data), f"{op}: {path!r}"
                else:  # what git converts here, it converts back
                    assert blob in (blob_of(data), blob_of(one_line_end(data))), f"{op}: {path!r}"

    def kept(self, commit: str) -> dict[str, tuple[str, str]]:
        found = {}
        listed = self.world.git("ls-tree", "-r", "-z", commit, check=False)
        for line in listed.split("\0")[:-1]:
            left, _, path = line.partition("\t")
            mode, _, blob = left.split(" ")
            found[path] = (mode, blob)
        return found


def differing(now: dict[str, Any], was: dict[str, Any]) -> dict[str, Any]:
    """Return path -> (what is there, what was there) where that is not the same."""
    paths = {path for path in {*now, *was} if now.get(path) != was.get(path)}
    return {path: (now.get(path), was.get(path)) for path in paths}


def is_executable(what: tuple[str, bytes]) -> bool:
    return what[0] != "link" and bool(int(what[0], 8) & stat.S_IXUSR)


def one_line_end(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")


def blob_of(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def play_through(seed: int, make: type[World]) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        top = folder / "main"
        subprocess.run(["git", "init", "-q", "-b", "main", top], check=True)
        first = make(top)
        first.write({".gitignore": "/runs/\n*.bin\n", "a.py": "0\n"})
        first.commit()
        first.git("worktree", "add", "-q", "--detach", str(folder / "side"))
        second = make(top)
        second.top = folder / "side"
        play = Play(first, second, random.Random(seed))
        for _ in range(play.rng.randint(1, 3)):
            for _ in range(play.rng.randint(0, 5)):
                play.edit()
            play.pin()
        for _ in range(play.rng.randint(3, 9)):
            play.move()
        play.roll_back(play.goals[0])
        play.check_rescue()
        play.unwind()
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(at, marks=() if at < 50 else pytest.mark.soak)
        for at in range(0, 2_000 * int(os.environ.get("SOAK", "1")), 25)
    ],
)
def test_nothing_is_lost(world: World, first: int) -> None:
    for seed in range(first, first + 25):
        try:
            play_through(seed, type(world))
        except BaseException as error:
            error.add_note(f"in the play of seed {seed}")
            raise
