"""Whatever was edited, staged, deleted, linked before a rollback is there again after its undo."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from expdb.actions.change import Goal, carry_out
from expdb.actions.ops import History
from expdb.actions.undo import undo_goal
from expdb.errors import Refused
from expdb.git.restore import verify
from expdb.git.snapshot import take_pin
from expdb.model import RunAt
from expdb.store.head import read_head
from expdb.store.ids import new_id
from expdb.store.ops import read_ops

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from conftest import World

PATHS = st.sampled_from(["a.py", "b.py", "d/x.py", "d/y/z.py", "d", "ü \n'\"", "x.bin"])
TEXTS = st.sampled_from(["", "1\n", "2\n", "no end", "crlf\r\n", "\0\xff"])
RULES = st.sampled_from(["/runs/\n", "/runs/\n*.bin\n", "/runs/\nd/\n", "/runs/\n*.py\n!a.py\n"])
EDITS = st.one_of(
    st.tuples(st.just("write"), PATHS, TEXTS),
    st.tuples(st.just("delete"), PATHS),
    st.tuples(st.just("chmod"), PATHS),
    st.tuples(st.just("link"), PATHS, TEXTS),
    st.tuples(st.just("stage"), PATHS),
    st.tuples(st.just("write"), st.just(".gitignore"), RULES),
    st.tuples(st.just("commit")),
)
MOVES = st.one_of(
    EDITS,
    EDITS,
    EDITS,
    st.tuples(st.just("rollback"), st.integers(0, 2)),
    st.tuples(st.just("undo")),
)


class Play:
    """A world, the goals that were pinned in it, and what was there at each rollback."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.goals: list[Goal] = []
        self.states: dict[str, tuple[Any, ...]] = {}

    def pin(self) -> None:
        pin = take_pin(self.world.worktree, store_root=self.world.store.root)
        assert pin.tree is not None
        assert pin.pinned is not None
        run = RunAt(run=new_id(), step=1)
        goal = Goal(kind="rollback", what="x", tree=pin.tree, commit=pin.pinned, at=run)
        self.goals.append(goal)

    def look(self) -> tuple[dict[str, Any], dict[str, Any], str, Any]:
        """Return what git sees of the disk, what it ignores, the index and HEAD."""
        words = ("ls-files", "--others", "--ignored", "--exclude-standard", "-z")
        ignored = set(self.world.git(*words).split("\0"))
        disk = self.world.disk()
        seen = {path: what for path, what in disk.items() if path not in ignored}
        rest = {path: what for path, what in disk.items() if path in ignored}
        return seen, rest, self.world.staged(), read_head(self.world.git_dir)

    def apply(self, move: tuple[Any, ...]) -> None:
        kind = move[0]
        if kind == "rollback":
            self.roll_back(self.goals[move[1] % len(self.goals)])
        elif kind == "undo":
            self.undo()
        elif kind == "commit":
            self.world.commit()
        else:
            self.edit(kind, *move[1:])

    def edit(self, kind: str, path: str, text: str = "") -> None:
        full = self.world.top / path
        exists = full.is_symlink() or full.is_file()
        if kind == "stage":
            self.world.git("add", "--all", "--", ":(literal)" + path, check=False)
        elif kind == "delete" and exists:
            full.unlink()
        elif kind == "chmod" and exists and not full.is_symlink():
            full.chmod(0o755 if full.stat().st_mode & 0o111 == 0 else 0o600)
        elif kind in ("write", "link"):
            if full.is_dir() and not full.is_symlink():
                return
            for above in full.parents:
                if above.is_file() or above.is_symlink():
                    above.unlink()
            full.parent.mkdir(parents=True, exist_ok=True)
            full.unlink(missing_ok=True)
            if kind == "write":
                full.write_bytes(text.encode("latin-1"))
            else:
                full.symlink_to("to " + text.strip().replace("\0", "0"))

    def roll_back(self, goal: Goal) -> None:
        before = self.look()
        done = self.carry_out(goal)
        if done is None:
            assert self.look() == before
            return
        self.states[done] = before
        names = set(self.world.git("ls-tree", "-r", "-z", "--name-only", goal.tree).split("\0"))
        assert verify(self.world.worktree, goal.tree) == []
        now = self.world.disk()
        assert {path: now.get(path) for path in before[1] if path not in names} == {
            path: what for path, what in before[1].items() if path not in names
        }

    def undo(self) -> None:
        op = History(read_ops(self.world.store.layout)).newest_to_undo(str(self.world.git_dir))
        if op is None:
            return
        before = self.look()
        done = self.carry_out(undo_goal(op))
        if done is None:
            assert self.look() == before
            return
        seen, rest, staged, head = self.look()
        was = self.states[op.id]
        assert (seen, staged, head) == (was[0], was[2], was[3])
        gone = set(was[1]) - set(rest)
        assert not gone & {*before[0], *before[1]}, "an ignored file went away"

    def carry_out(self, goal: Goal) -> str | None:
        world = self.world
        try:
            done = carry_out(world.store, world.worktree, goal)
        except Refused as error:
            note(f"refused: {error.message} {error.details}")
            return None
        return done.op.id


def play_through(
    starts: list[list[tuple[Any, ...]]], moves: list[tuple[Any, ...]], world: World
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
        play = Play(type(world)(Path(folder)))
        play.world.write({".gitignore": "/runs/\n*.bin\n", "a.py": "0\n"})
        play.world.commit()
        for edits in starts:
            for edit in edits:
                play.apply(edit)
            play.pin()
        for move in [*moves, ("rollback", 0), ("undo",)]:
            play.apply(move)


def examples(number: int) -> settings:
    return settings(
        max_examples=number,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        derandomize=True,
        # Shrinking would make and move hundreds of work trees.
        phases=(Phase.explicit, Phase.generate),
    )


STARTS = st.lists(st.lists(EDITS, max_size=5), min_size=1, max_size=3)
PLAYS = st.lists(MOVES, min_size=3, max_size=12)


@pytest.mark.slow
@examples(7)
@given(starts=STARTS, moves=PLAYS)
def test_nothing_is_lost(
    starts: list[list[tuple[Any, ...]]], moves: list[tuple[Any, ...]], world: World
) -> None:
    play_through(starts, moves, world)


@pytest.mark.soak
@examples(100 * int(os.environ.get("SOAK", "1")))
@given(starts=STARTS, moves=PLAYS)
def test_nothing_is_lost_in_many_plays(
    starts: list[list[tuple[Any, ...]]], moves: list[tuple[Any, ...]], world: World
) -> None:
    play_through(starts, moves, world)
