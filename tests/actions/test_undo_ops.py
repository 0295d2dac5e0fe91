from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from expdb.actions.baseline import set_baseline, show_baseline
from expdb.actions.go_on import continue_
from expdb.actions.ops import op_rows
from expdb.actions.results import UndoResult
from expdb.actions.rollback import execute, prepare
from expdb.actions.undo import undo
from expdb.errors import Ambiguous, BadInput, Conflict, NotFound, Refused
from expdb.model import Op, RunAt
from expdb.query.lookup import lookup
from expdb.store.head import read_head
from expdb.store.ops import write_op
from expdb.store.refs import move_ref, read_refs

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import World


def roll_back(world: World, word: str) -> str:
    with world.reader() as reader:
        plan = prepare(reader, world.worktree, word)
        return execute(reader, world.worktree, plan).op


def take_back(world: World, word: str | None = None) -> UndoResult:
    with world.reader() as reader:
        return undo(reader, world.worktree, word)


def baseline(world: World, word: str) -> str | None:
    with world.reader() as reader:
        return set_baseline(reader, lookup(reader, word), worktree=world.worktree).op


def train(world: World) -> str:
    return (world.top / "train.py").read_text()


def test_twice_goes_back_two_and_an_undo_is_undone_by_its_id(world: World) -> None:
    first = world.run()
    world.write({"train.py": "lr = 2\n"})
    second = world.run("exp01")
    world.write({"train.py": "lr = 3\n"})
    one = roll_back(world, first)
    two = roll_back(world, second)
    assert train(world) == "lr = 2\n"
    back_two = take_back(world)
    assert (back_two.undone.id, train(world)) == (two, "lr = 1\n")
    assert back_two.head == RunAt(run=first, step=300)
    back_one = take_back(world)
    assert (back_one.undone.id, train(world)) == (one, "lr = 3\n")
    assert back_one.head is None
    with pytest.raises(NotFound, match="nothing to undo"):
        take_back(world)
    again = take_back(world, back_one.op)
    assert (again.undone.id, train(world)) == (back_one.op, "lr = 1\n")
    head = read_head(world.git_dir)
    assert head is not None
    assert head.run == first
    assert take_back(world).undone.id == one
    assert train(world) == "lr = 3\n"


def test_edits_made_after_a_rollback_come_back_with_the_undo_of_its_undo(world: World) -> None:
    run = world.run()
    world.write({"train.py": "lr = 2\n", "mine.txt": "before"})
    before = world.disk()
    roll_back(world, run)
    world.write({"train.py": "lr = 99\n", "since.txt": "since"})
    world.git("add", "since.txt")
    between, staged = world.disk(), world.staged()
    back = take_back(world)
    assert world.disk() == before
    take_back(world, back.op)
    assert world.disk() == between
    assert world.staged() == staged


def test_what_cannot_be_undone_is_refused(world: World, tmp_path: Path) -> None:
    run = world.run()
    world.write({"train.py": "lr = 2\n"})
    op = roll_back(world, run)
    back = take_back(world)
    with pytest.raises(Refused, match=f"undone already, by {back.op}"):
        take_back(world, op)
    with pytest.raises(NotFound):
        take_back(world, "zzzzzz")
    with pytest.raises(BadInput):
        take_back(world, op[:3])
    write_op(world.store.layout, Op(id=op[:9] + ("0" if op[9] != "0" else "1"), kind="x"))
    with pytest.raises(Ambiguous):
        take_back(world, op[:5])
    world.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    linked = type(world)(world.top)
    linked.top = tmp_path / "linked"
    with pytest.raises(Refused, match="another work tree"):
        take_back(linked, back.op)
    with pytest.raises(NotFound):
        take_back(linked)
    (world.git_dir / "expdb" / f"{back.op}.index").unlink()
    before = world.everything()
    with pytest.raises(Refused, match="is gone"):
        take_back(world, back.op)
    assert world.everything() == before


def test_baseline_moves_shows_and_comes_back(world: World) -> None:
    first, second = world.run(), world.run("exp01")
    with world.reader() as reader:
        assert show_baseline(reader).after is None
    op = baseline(world, first)
    assert op is not None
    assert baseline(world, first) is None
    moved = baseline(world, f"{second}@300")
    assert moved is not None
    refs = read_refs(world.store.layout)
    assert (refs["baseline"].run, refs["baseline"].step, refs["baseline"].op) == (
        second,
        300,
        moved,
    )
    with world.reader() as reader:
        shown = show_baseline(reader)
        assert shown.run is not None
        assert (shown.run.id, shown.after, shown.op) == (second, RunAt(run=second, step=300), None)
    back = take_back(world)
    assert (back.ref, back.ref_after) == ("baseline", RunAt(run=first))
    assert read_refs(world.store.layout)["baseline"].run == first
    again = take_back(world, back.op)
    assert again.ref_after == RunAt(run=second, step=300)
    assert take_back(world).ref_after == RunAt(run=first)
    assert take_back(world).ref_after is None
    assert read_refs(world.store.layout) == {}


def test_a_ref_that_was_moved_since_is_not_pulled_back(world: World) -> None:
    first, second = world.run(), world.run("exp01")
    op = baseline(world, first)
    assert op is not None
    other = Op(id="zzzzzzzzzz", kind="baseline", before={"ref": "baseline"})
    move_ref(
        world.store.layout,
        "baseline",
        "ref",
        before=RunAt(run=first),
        after=RunAt(run=second),
        op=other,
    )
    before = world.everything()
    with pytest.raises(Conflict, match="moved meanwhile"):
        take_back(world, op)
    assert world.everything() == before


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"state": "failed", "values": {10: 2.0, 50: float("nan")}}, "NaN since step 50"),
        ({"state": "finished", "values": {50: float("nan")}}, "val/loss is NaN since step 50"),
        ({"state": "failed"}, "it failed"),
        ({"state": "running"}, "it crashed"),
        ({"state": "running", "alive": True}, "it is running"),
        ({"state": "preempted"}, "it was preempted"),
        ({"state": "finished", "values": {}}, "it has no val/loss"),
    ],
)
def test_a_run_that_cannot_be_the_baseline(world: World, how: dict[str, object], said: str) -> None:
    run = world.run("exp09", **how)  # type: ignore[arg-type]
    before = world.everything()
    with pytest.raises(Refused, match=f"{run[:4]} exp09 cannot be the baseline: .*{said}"):
        baseline(world, run)
    assert world.everything() == before


def test_ops_are_listed_with_their_undos(world: World, tmp_path: Path) -> None:
    run = world.run()
    set_op = baseline(world, run)
    world.write({"train.py": "lr = 2\n"})
    rolled = roll_back(world, run)
    back = take_back(world).op
    rows = op_rows(world.store, world.worktree)
    assert [(row.id, row.num_paths, row.undone_by, row.can_undo, row.is_here) for row in rows] == [
        (back, 1, None, True, True),
        (rolled, 1, back, False, False),
        (set_op, None, None, True, False),
    ]
    assert [row.what for row in rows] == [
        f"undo of {rolled[:4]}",
        f"rollback to {run[:4]} baseline@300",
        f"baseline → {run[:4]} (was none)",
    ]
    world.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    linked = type(world)(world.top)
    linked.top = tmp_path / "linked"
    assert [row.id for row in op_rows(world.store, linked.worktree)] == [set_op]
    everywhere = op_rows(world.store, linked.worktree, all_trees=True)
    assert [row.id for row in everywhere] == [back, rolled, set_op]
    assert [row.other_work_tree for row in everywhere] == [True, True, True]


def test_nothing_unfinished_to_continue(world: World) -> None:
    with pytest.raises(NotFound, match="nothing is unfinished"):
        continue_(world.store, world.worktree)


def test_a_damaged_op_is_named_and_does_not_stop_the_others(world: World) -> None:
    run = world.run()
    world.write({"train.py": "lr = 2\n"})
    op = roll_back(world, run)
    folder = next(world.store.layout.ops.iterdir())
    (folder / "17-aaaaaaaaaa.json").write_text("{")
    (folder / "18-bbbbbbbbbb.json").write_text("[]")
    problems: list[str] = []
    rows = op_rows(world.store, world.worktree, problems=problems)
    assert [row.id for row in rows] == [op]
    assert [line.split(" is damaged")[0] for line in problems] == [
        "the op file 17-aaaaaaaaaa.json",
        "the op file 18-bbbbbbbbbb.json",
    ]
    again: list[str] = []
    with world.reader() as reader:
        undo(reader, world.worktree, problems=again)
    assert again == problems
    assert train(world) == "lr = 2\n"
