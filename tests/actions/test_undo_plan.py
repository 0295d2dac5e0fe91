"""What an undo would do, told before it is done: the same as what it then does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from expdb.actions.baseline import set_baseline
from expdb.actions.note import add_note
from expdb.actions.rollback import execute, prepare
from expdb.actions.undo import undo
from expdb.actions.undo_plan import UndoPlan, plan_undo
from expdb.errors import NotFound, Refused
from expdb.model import RunAt
from expdb.query.lookup import lookup
from expdb.redact import Redactor

if TYPE_CHECKING:
    from conftest import World

pytestmark = pytest.mark.slow


def plan(world: World, word: str | None = None) -> UndoPlan:
    with world.reader() as reader:
        return plan_undo(reader, world.worktree, word)


def roll_back(world: World, word: str) -> str:
    with world.reader() as reader:
        return execute(reader, world.worktree, prepare(reader, world.worktree, word)).op


def test_of_a_rollback_every_path_is_told_and_nothing_is_written(world: World) -> None:
    first = world.run()
    world.write({"train.py": "lr = 2\n", "more.py": "x = 1\n"})
    second = world.run("exp01")
    roll_back(world, second)
    op = roll_back(world, first)
    before = world.everything()
    found = plan(world)
    assert world.everything() == before
    assert (found.op.id, found.is_of_tree, found.head) == (op, True, RunAt(run=second, step=300))
    assert [(one.action, one.path) for one in found.paths] == [
        ("create", "more.py"), ("change", "train.py"),
    ]  # fmt: skip
    assert found.blocked == ()
    world.write({"train.py": "lr = 9\n"})
    assert [one.note for one in plan(world).paths if one.path == "train.py"] == ["edited"]
    with world.reader() as reader:
        done = undo(reader, world.worktree)
    assert (done.num_created, done.num_changed, done.num_deleted) == (1, 1, 0)
    assert (world.top / "train.py").read_text() == "lr = 2\n"


def test_what_is_in_the_way_is_told(world: World) -> None:
    first = world.run()
    world.write({"table.csv": "tracked\n"})
    world.commit()
    second = world.run("exp01")
    roll_back(world, first)
    world.write({".git/info/exclude": "*.tmp\n", "table.csv/mine.tmp": "mine\n"})
    found = plan(world)
    assert [one.path for one in found.blocked] == ["table.csv"]
    with world.reader() as reader, pytest.raises(Refused):
        undo(reader, world.worktree)
    assert second


def test_what_the_rollback_brought_is_taken_away_though_the_goal_ignores_it(world: World) -> None:
    world.write({"made.txt": "by hand\n"})
    world.commit()
    first = world.run()
    world.write({"made.txt": None, ".gitignore": "made.txt\n"})
    world.commit()
    roll_back(world, first)
    assert (world.top / "made.txt").is_file()
    assert ("delete", "made.txt") in [(one.action, one.path) for one in plan(world).paths]
    with world.reader() as reader:
        undo(reader, world.worktree)
    assert not (world.top / "made.txt").exists()


def test_of_a_ref_it_is_told_where_it_was(world: World) -> None:
    runs = [world.run(), world.run("exp01")]
    for run in runs:
        with world.reader() as reader:
            set_baseline(reader, lookup(reader, run), worktree=world.worktree)
    found = plan(world)
    assert (found.ref, found.is_of_tree) == ("baseline", False)
    assert (found.ref_now, found.ref_then) == (runs[1][:4], runs[0][:4])


def test_of_a_note_the_store_alone_changes(world: World) -> None:
    run = world.run()
    with world.reader() as reader:
        redactor = Redactor(environment={})
        found = lookup(reader, run)
        add_note(reader, found, "so so", worktree=world.worktree, redactor=redactor)
    told = plan(world)
    assert (told.ref, told.is_of_tree, told.paths) == ("", False, ())


def test_nothing_to_undo_is_refused_as_by_undo(world: World) -> None:
    world.run()
    with pytest.raises(NotFound, match="nothing to undo"):
        plan(world)
