"""A process killed before any one of its file operations leaves nothing that cannot be settled.

The child counts, from outside, every call that changes a file (of Python, and git commands that
write), and kills itself before the Nth. Every eighth N is tried, and one of the two ways out of it;
in `make soak` every N, and both ways.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from expdb.actions.change import Goal, carry_out, finish
from expdb.actions.go_on import abort, continue_
from expdb.actions.undo import undo_goal
from expdb.actions.unfinished import unfinished
from expdb.git.snapshot import take_pin
from expdb.model import RunAt
from expdb.store.head import read_head
from expdb.store.ids import new_id
from expdb.store.ops import find_unfinished, read_ops
from tests.actions.bomb import Bomb, survives

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from conftest import World

SWEEPS = pytest.mark.parametrize(
    "stride", [pytest.param(16, id="some"), pytest.param(1, id="all", marks=pytest.mark.soak)]
)


def copy(world: World, top: Path) -> World:
    shutil.rmtree(top, ignore_errors=True)
    shutil.copytree(world.top, top, symlinks=True)
    return type(world)(top)


class Scene:
    """A work tree with edits of every kind, and the goal of a rollback."""

    def __init__(self, world: World) -> None:
        world.write({".gitattributes": "*.dos text\n", "x.dos": "one\n"})
        world.commit("with a file that git converts")
        self.target = world.disk()
        pin = take_pin(world.worktree, store_root=world.store.root)
        assert pin.pinned is not None
        assert pin.tree is not None
        self.goal = Goal(
            kind="rollback",
            what="rollback to x",
            tree=pin.tree,
            commit=pin.pinned,
            at=RunAt(run=new_id(), step=300),
        )
        world.write({"conf/exp/b.yaml": "b: 2\n", "new/committed.py": "c = 1\n"})
        world.commit("second")
        world.write({"train.py": "lr = 2\n"})
        world.git("add", "train.py")
        world.write({"train.py": "lr = 3\n", "model.py": None, "new/z.py": "z = 1\n"})
        (world.top / "tools/run.sh").chmod(0o644)
        (world.top / "link").symlink_to("train.py")
        world.write({"data.bin": b"\0keep", "private.txt": "mine", "x.dos": b"two\r\nthree\n"})
        (world.top / "private.txt").chmod(0o600)
        self.world = world
        self.before = (world.disk(), world.status(), world.staged())
        self.after = self.target | {"data.bin": self.before[0]["data.bin"]}

    def roll_back(self, world: World) -> None:
        carry_out(world.store, world.worktree, self.goal)


def way_back(world: World) -> Goal:
    """Return the goal that `undo` makes of the newest rollback."""
    found = reversed(read_ops(world.store.layout))
    return undo_goal(next(op for op in found if op.phase == "begin"))


def settle(world: World, way: str) -> str:
    """Look at a work tree after a kill, settle it, and say what was found."""
    read_ops(world.store.layout)
    found = unfinished(world.worktree, world.store)
    if found is None:
        assert not (world.git_dir / "expdb" / "UNFINISHED").exists()
        return "nothing to settle"
    assert not found.is_alive
    assert 0 <= found.num_done <= found.num_paths
    (continue_ if way == "continue" else abort)(world.store, world.worktree)
    assert find_unfinished(world.git_dir, world.store.layout) is None
    return "continued" if way == "continue" else "aborted"


def ways(number: int, stride: int) -> list[str]:
    both = ["continue", "abort"]
    return both if stride == 1 else [both[number // stride % 2]]


def numbers(stride: int) -> range:
    """Where to kill; with a stride from within the first, which lie close together."""
    return range(1 if stride == 1 else 4, 400, stride)


@pytest.mark.slow
@SWEEPS
def test_rollback_killed_before_any_file_operation(
    world: World, tmp_path: Path, stride: int
) -> None:
    scene = Scene(world)
    counts = {"nothing to settle": 0, "continued": 0, "aborted": 0}
    for number in numbers(stride):
        alive = False
        for way in ways(number, stride):
            other = copy(world, tmp_path / "other")
            alive = survives(Bomb(number), lambda o=other: scene.roll_back(o))  # type: ignore[misc]
            if alive:
                break
            said = settle(other, way)
            counts[said] += 1
            is_before = (other.disk(), other.status(), other.staged()) == scene.before
            is_after = other.disk() == scene.after
            head = read_head(other.git_dir)
            if said == "continued" or (said != "aborted" and not is_before):
                assert is_after, f"killed before {number}: {said}"
                assert head is not None
                assert other.git("write-tree") == scene.goal.tree
                if number % 5 == 0:
                    goal = way_back(other)
                    carry_out(other.store, other.worktree, goal)
                    assert (other.disk(), other.status(), other.staged()) == scene.before
            else:
                assert is_before, f"killed before {number}: {said}"
                assert head is None
        if alive:
            break
    else:
        raise AssertionError("it never came to its end")
    print(f"rollback: {counts}")  # noqa: T201
    assert min(counts.values()) > (5 if stride == 1 else 0)


@pytest.mark.slow
@SWEEPS
def test_undo_killed_before_any_file_operation(world: World, tmp_path: Path, stride: int) -> None:
    scene = Scene(world)
    scene.roll_back(world)
    head = read_head(world.git_dir)
    world.write({"train.py": "after = 1\n", "later.py": "l = 1\n"})
    world.git("add", "later.py")
    before = (world.disk(), world.status(), world.staged())
    counts = {"nothing to settle": 0, "continued": 0, "aborted": 0}

    def take_back(other: World) -> None:
        carry_out(other.store, other.worktree, way_back(other))

    for number in numbers(stride):
        alive = False
        for way in ways(number, stride):
            other = copy(world, tmp_path / "other")
            alive = survives(Bomb(number), lambda o=other: take_back(o))  # type: ignore[misc]
            if alive:
                break
            said = settle(other, way)
            counts[said] += 1
            now = (other.disk(), other.status(), other.staged())
            if said == "continued" or (said != "aborted" and now != before):
                assert now == scene.before, f"killed before {number}: {said}"
                assert read_head(other.git_dir) is None
            else:
                assert now == before, f"killed before {number}: {said}"
                assert read_head(other.git_dir) == head
        if alive:
            break
    else:
        raise AssertionError("it never came to its end")
    print(f"undo: {counts}")  # noqa: T201
    assert min(counts.values()) > (5 if stride == 1 else 0)


@pytest.mark.parametrize("way", ["continue", "abort"])
def test_git_killed_between_two_files(world: World, tmp_path: Path, way: str) -> None:
    scene = Scene(world)
    for partial in range(4):
        other = copy(world, tmp_path / "other")
        assert not survives(Bomb(0, partial), lambda o=other: scene.roll_back(o))  # type: ignore[misc]
        found = unfinished(other.worktree, other.store)
        assert found is not None
        assert 0 < found.num_done < found.num_paths
        assert settle(other, way)
        if way == "continue":
            assert other.disk() == scene.after
        else:
            assert (other.disk(), other.status(), other.staged()) == scene.before


def test_settling_that_is_killed_can_be_settled(world: World, tmp_path: Path) -> None:
    scene = Scene(world)
    assert not survives(Bomb(0, 1), lambda: scene.roll_back(world))
    for number, way in ((3, "continue"), (9, "continue"), (14, "abort"), (18, "abort")):
        other = copy(world, tmp_path / "other")
        begin = find_unfinished(other.git_dir, other.store.layout)
        assert begin is not None
        back = way == "abort"
        survives(
            Bomb(number),
            lambda o=other, b=begin, r=back: finish(o.store, o.worktree, b, back=r),  # type: ignore[misc]
        )
        settle(other, "continue" if back else "abort")
        if back:
            assert other.disk() == scene.after
        else:
            assert (other.disk(), other.status(), other.staged()) == scene.before
