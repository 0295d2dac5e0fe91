"""Push and pull between two stores and a folder: what comes over is what was there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from expdb.actions.baseline import set_baseline
from expdb.actions.rollback import execute, prepare
from expdb.actions.undo import undo
from expdb.errors import Conflict, NotFound, Refused
from expdb.query.lookup import lookup
from expdb.store.layout import RunLayout
from expdb.store.marks import add_mark
from expdb.store.ops import read_ops
from expdb.store.points import read_series
from expdb.store.runs import read_run
from tests.actions.conftest import World
from tests.actions.exchanged import (
    MakeWorld,
    contents,
    linked,
    outcomes,
    pulled,
    pushed,
    resumed,
    rich,
    stamps,
)

pytestmark = pytest.mark.slow


def test_a_run_goes_there_and_comes_back_byte_for_byte(two: tuple[World, World], lab: Path) -> None:
    one, other = two
    runs = [rich(one), rich(one, "Exp/01 ü", state="failed")]
    done = pushed(one)
    assert outcomes(done) == dict.fromkeys(runs, "new")
    got = pulled(other)
    assert outcomes(got) == dict.fromkeys(runs, "new")
    for run in runs:
        assert contents(other.folder(run)) == contents(one.folder(run))
        assert other.folder(run).parent.name == one.folder(run).parent.name
        found = read_run(other.folder(run), store_root=other.store.root)
        assert found.problems == ()
        assert found.labels == ("keep",)
    assert [path for path in lab.rglob(".tmp-*")] == []


def test_a_second_push_and_a_second_pull_copy_nothing(two: tuple[World, World], lab: Path) -> None:
    one, other = two
    run = rich(one)
    pushed(one)
    before = stamps(lab)
    done = pushed(one)
    assert (outcomes(done), done.commits, done.bytes) == ({run: "same"}, 0, 0)
    assert stamps(lab) == before
    pulled(other)
    before, num_ops = stamps(other.store.root), len(read_ops(other.store.layout))
    assert outcomes(pulled(other)) == {run: "same"}
    assert stamps(other.store.root) == before
    assert len(read_ops(other.store.layout)) == num_ops
    # Times that were lost on the way, as rsync without -t does it, cost a look and nothing else.
    for path in lab.rglob("*"):
        os.utime(path, (1, 1))
    before = stamps(lab)
    assert outcomes(pushed(one)) == {run: "same"}
    assert stamps(lab) == before


def test_two_push_to_one_remote_and_both_have_all(two: tuple[World, World]) -> None:
    one, other = two
    mine, theirs = rich(one), rich(other, "exp01")
    pushed(one)
    pushed(other)
    assert outcomes(pulled(one)) == {mine: "same", theirs: "new"}
    assert outcomes(pulled(other)) == {mine: "new", theirs: "same"}
    assert outcomes(pushed(one)) == dict.fromkeys([mine, theirs], "same")


def test_a_run_that_went_on_is_brought_up_to_date(two: tuple[World, World], lab: Path) -> None:
    one, other = two
    run = rich(one, state="preempted")
    pushed(one)
    pulled(other)
    resumed(one, run)
    done = pushed(one)
    assert outcomes(done) == {run: "updated"}
    there = next(lab.glob(f"exp=*/run={run}"))
    assert contents(there) == contents(one.folder(run))
    assert outcomes(pulled(other)) == {run: "updated"}
    assert contents(other.folder(run)) == contents(one.folder(run))
    found = read_run(other.folder(run), store_root=other.store.root)
    assert (found.last_step, found.problems, len(found.attempts)) == (400, (), 2)
    assert outcomes(pushed(one)) == {run: "same"}
    # Who has less pushes nothing over it, and is told.
    assert outcomes(pushed(other)) == {run: "same"}


def test_who_has_less_of_a_run_pushes_nothing_over_it(two: tuple[World, World], lab: Path) -> None:
    one, other = two
    run = rich(one, state="preempted")
    pushed(one)
    pulled(other)
    resumed(one, run)
    pushed(one)
    add_mark(RunLayout(other.folder(run)), "label", "mine")
    assert outcomes(pushed(other)) == {run: "updated"}
    there = next(lab.glob(f"exp=*/run={run}"))
    found = read_run(there, store_root=lab)
    assert (found.last_step, found.labels, found.problems) == (400, ("keep", "mine"), ())
    assert outcomes(pushed(other)) == {run: "behind"}


def test_labels_and_evals_of_two_meet(two: tuple[World, World]) -> None:
    one, other = two
    run = rich(one)
    pushed(one)
    pulled(other)
    for world, word in ((one, "a"), (other, "b")):
        layout = RunLayout(world.folder(run))
        add_mark(layout, "label", word)
        (layout.evals / f"{word}.json").write_text(
            json.dumps({"format": 1, "id": word, "task": "t", "step": 300, "metrics": {"x": 1.0}})
        )
    for world in (one, other, one):
        pushed(world)
    pulled(one)
    pulled(other)
    for world in (one, other):
        found = read_run(world.folder(run), store_root=world.store.root)
        assert set(found.labels) == {"keep", "a", "b"}
        assert {item.id for item in found.evals} == {"e1", "a", "b"}
        assert outcomes(pushed(world)) == {run: "same"}
        assert outcomes(pulled(world)) == {run: "same"}


@pytest.mark.parametrize(
    "path",
    [
        "run.json", "points/part-a1-r0-1-3.parquet", "evals/e1.json", "media/text-a1-r0-1.parquet",
        "artifacts/plot.bin", "attempts/1/owner.json", "attempts/1/pin.json",
        "checkpoints/step=300/manifest.json",
    ],
)  # fmt: skip
def test_other_sealed_content_is_refused_by_name_and_the_rest_comes(
    two: tuple[World, World], lab: Path, path: str
) -> None:
    one, other = two
    run, fine = rich(one), rich(one, "exp01")
    pushed(one)
    pulled(other)
    file = one.folder(run) / path
    data = file.read_bytes()
    is_json = path.endswith(".json")
    file.write_bytes(data[:-2] + (b',"x":1}\n' if is_json else bytes([data[-2] ^ 1]) + data[-1:]))
    add_mark(RunLayout(one.folder(run)), "label", "more")
    add_mark(RunLayout(one.folder(fine)), "label", "more")
    there = next(lab.glob(f"exp=*/run={run}"))
    before = contents(there)
    done = pushed(one)
    assert outcomes(done) == {run: "refused", fine: "updated"}
    (refused,) = done.of("refused")
    assert path in refused.why
    assert contents(there) == before
    here = contents(other.folder(run))
    for place in (there / path,):
        place.write_bytes(file.read_bytes())
    os.utime(there / "status.json", (1, 1))
    got = pulled(other)
    assert outcomes(got)[run] == "refused"
    assert contents(other.folder(run)) == here


def test_what_goes_on_is_left_for_later(two: tuple[World, World]) -> None:
    one, _ = two
    live, over = one.run(state="running", alive=True), rich(one, "exp01")
    done = pushed(one)
    assert outcomes(done) == {live: "skipped", over: "new"}


def test_a_dry_run_writes_nothing(two: tuple[World, World], lab: Path) -> None:
    one, other = two
    run = rich(one)
    before = contents(lab)
    assert outcomes(pushed(one, dry_run=True)) == {run: "new"}
    assert contents(lab) == before
    pushed(one)
    here = contents(other.store.layout.ops)
    done = pulled(other, dry_run=True)
    assert (outcomes(done), done.commits) == ({run: "new"}, 1)
    assert not list(other.store.root.glob("exp=*"))
    assert contents(other.store.layout.ops) == here


# --------------------------------------------------------------------------------------- code


def back(world: World, run: str) -> None:
    with world.reader() as reader:
        execute(reader, world.worktree, prepare(reader, world.worktree, run))


def test_a_rollback_in_the_second_clone_to_a_dirty_run_of_the_first(
    two: tuple[World, World],
) -> None:
    one, other = two
    one.write({"model.py": "width = 7\n", "new.py": "x = 1\n"})
    run = one.run()
    pushed(one)
    with other.reader() as reader, pytest.raises(NotFound):
        lookup(reader, run)
    assert pulled(other).commits == 1
    back(other, run)
    assert (other.top / "model.py").read_text() == "width = 7\n"
    assert (other.top / "new.py").read_text() == "x = 1\n"
    other.git("fsck", "--full", "--strict")
    other.git("gc", "--quiet", "--prune=now")
    assert other.git("cat-file", "-t", f"refs/expdb/pins/{read_pin(other, run)}") == "commit"


def read_pin(world: World, run: str) -> str:
    pinned = read_run(world.folder(run), store_root=world.store.root).pin.pinned
    assert pinned is not None
    return pinned


def test_only_what_the_remote_lacks_is_packed(two: tuple[World, World], lab: Path) -> None:
    one, other = two
    one.write({"big.py": os.urandom(200_000)})
    one.commit()
    one.run()
    assert pushed(one).commits == 1
    one.write({"model.py": "width = 3\n"})
    one.run("exp01")
    assert pushed(one).commits == 1
    packs = sorted(lab.glob("code/*/objects.pack"), key=lambda path: path.parent.name)
    assert len(packs) == 2
    assert packs[0].stat().st_size > 200_000 > 5_000 > packs[1].stat().st_size
    # An older commit of the same history has nothing of its own to bring.
    one.git("stash", "--quiet")
    one.git("checkout", "--quiet", "HEAD~1")
    old = one.run("exp02")
    assert pushed(one).commits == 1
    assert len(list(lab.glob("code/*/objects.pack"))) == 2
    assert pulled(other, old).commits == 1
    assert pulled(other).commits == 2
    other.git("fsck", "--full")
    assert set(other.git("for-each-ref", "--format=%(objectname)", "refs/expdb/pins").split()) == {
        read_pin(other, run.name.removeprefix("run="))
        for run in other.store.root.glob("exp=*/run=*")
    }


def test_a_shallow_clone_pushes_runs_and_no_code(two: tuple[World, World], tmp_path: Path) -> None:
    one, other = two
    one.write({"model.py": "width = 9\n"})
    one.commit()
    clone = tmp_path / "shallow"
    one.git("clone", "--quiet", "--depth=1", f"file://{one.top}", str(clone))
    shallow = World(clone)
    linked(tmp_path / "lab", shallow)
    run = shallow.run()
    done = pushed(shallow)
    assert (outcomes(done), done.commits, done.no_code) == ({run: "new"}, 0, (run,))
    assert "git fetch --unshallow" in done.notes[0]
    assert pulled(other).no_code == (run,)
    shallow.git("fetch", "--quiet", "--unshallow")
    assert pushed(shallow).commits == 1
    assert pulled(other).no_code == ()
    other.git("fsck", "--full")


def test_code_of_a_repository_with_other_ids_stays_away(
    two: tuple[World, World], tmp_path: Path
) -> None:
    one, _ = two
    run = one.run()
    pushed(one)
    top = tmp_path / "sha256"
    top.mkdir()
    one.git("init", "--quiet", "--object-format=sha256", str(top))
    third = World(top)
    third.write({"a.py": "1\n"})
    third.commit()
    linked(tmp_path / "lab", third)
    done = pulled(third)
    assert (outcomes(done), done.commits, done.no_code) == ({run: "new"}, 0, (run,))
    own = third.run("exp01")
    assert pushed(third).commits == 1
    assert pulled(one).no_code == (own,)


def test_without_a_repository_the_runs_come_and_rollback_names_where_the_code_is(
    two: tuple[World, World],
) -> None:
    one, other = two
    one.write({"model.py": "width = 7\n"})
    run = one.run()
    done = pushed(one, code=False)
    assert (done.commits, done.no_code) == (0, (run,))
    assert "not in a git repository" in done.notes[0]
    got = pulled(other)
    assert (outcomes(got), got.no_code) == ({run: "new"}, (run,))
    assert pushed(one).commits == 1
    got = pulled(other, code=False)
    assert (outcomes(got), got.no_code) == ({run: "same"}, (run,))
    with pytest.raises(Refused) as caught:
        back(other, run)
    assert "is not in this repository" in caught.value.message
    assert f"expdb pull lab {run[:4]}" in caught.value.hints[0]
    assert pulled(other, run[:6]).no_code == ()
    back(other, run)


# ------------------------------------------------------------------------------- refs, ops, undo


def test_refs_of_others_are_named_by_the_remote_and_none_here_moves(
    two: tuple[World, World], make_world: MakeWorld, lab: Path
) -> None:
    one, other = two
    first, second = one.run(), one.run("exp01")
    mine = other.run("mine")
    for world, run in ((one, first), (other, mine)):
        with world.reader() as reader:
            set_baseline(reader, lookup(reader, run), worktree=world.worktree)
    before = contents(other.store.layout.refs)
    pushed(one)
    pulled(other)
    refs = {
        name: data for name, data in contents(other.store.layout.refs).items()
        if not name.startswith("remotes/")
    }  # fmt: skip
    assert refs == before
    with other.reader() as reader:
        assert lookup(reader, "lab/baseline").run == first
        assert lookup(reader, f"lab/{one.store.id[:4]}/baseline").run == first
        assert lookup(reader, "baseline").run == mine
    third = make_world("three")
    linked(lab, third)
    pushed(other)
    pulled(third)
    with third.reader() as reader:
        with pytest.raises(NotFound):  # two stores say different things
            lookup(reader, "lab/baseline")
        assert lookup(reader, f"lab/{other.store.id[:4]}/baseline").run == mine
        assert lookup(reader, f"lab/{one.store.id[:4]}/baseline").run == first
    with one.reader() as reader:
        set_baseline(reader, lookup(reader, second), worktree=one.worktree)
    pushed(one)
    pulled(other)
    with other.reader() as reader:
        assert lookup(reader, "lab/baseline").run == second
    assert len(list((other.store.layout.refs / "remotes/lab").glob("*/ops/*/*.json"))) == 2


def test_an_undo_of_a_pull_puts_its_runs_into_the_trash(two: tuple[World, World]) -> None:
    one, other = two
    run = rich(one)
    pushed(one)
    done = pulled(other)
    with other.reader() as reader:
        found = undo(reader, other.worktree)
        assert found.undone.id == done.op
    assert not list(other.store.root.glob("exp=*/run=*"))
    got = pulled(other)
    assert (outcomes(got), got.runs[0].why) == ({run: "skipped"}, "it is in the trash")
    with other.reader() as reader:
        undo(reader, other.worktree, found.op)
    assert contents(other.folder(run)) == contents(one.folder(run))
    add_mark(RunLayout(one.folder(run)), "label", "more")
    pushed(one)
    assert outcomes(pulled(other)) == {run: "updated"}
    with other.reader() as reader, pytest.raises(Refused, match="brought no new run"):
        undo(reader, other.worktree, pulled_op(other))


def pulled_op(world: World) -> str:
    return [op.id for op in read_ops(world.store.layout) if op.kind == "pull"][-1]


def test_a_checkpoint_that_was_removed_here_stays_away_unless_named(
    two: tuple[World, World],
) -> None:
    one, other = two
    run = one.run(checkpoints=(100, 200, 300))
    pushed(one)
    pulled(other)
    from expdb.store import checkpoints

    layout = RunLayout(other.folder(run))
    checkpoints.remove(layout, 100)
    assert outcomes(pulled(other)) == {run: "same"}
    assert checkpoints.steps(layout) == (200, 300)
    assert outcomes(pushed(other)) == {run: "same"}
    assert outcomes(pulled(other, run)) == {run: "updated"}
    assert checkpoints.steps(layout) == (100, 200, 300)


def test_points_are_the_same(two: tuple[World, World], lab: Path) -> None:
    one, other = two
    run = rich(one, state="preempted")
    resumed(one, run)
    pushed(one)
    pulled(other)
    tables = [
        read_series(next(root.glob(f"exp=*/run={run}")), ["val/loss"], problems=[])
        for root in (one.store.root, other.store.root, lab)
    ]
    assert tables[0].num_rows > 3
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])


def test_old_temporary_files_of_kills_go(two: tuple[World, World], lab: Path) -> None:
    one, _ = two
    one.run()
    pushed(one)
    names = ("locks/.tmp-a", f"stores/{one.store.id}/refs/.tmp-b", "packages/.tmp-c", ".tmp-d")
    (lab / "packages").mkdir(exist_ok=True)
    for name in names:
        (lab / name).write_text("x")
        os.utime(lab / name, (1, 1))
    (lab / "locks/.tmp-new").write_text("x")
    pushed(one)
    assert [path.name for path in lab.rglob(".tmp-*")] == [".tmp-new"]


def test_a_push_that_is_under_way_keeps_another_out(two: tuple[World, World], lab: Path) -> None:
    one, _ = two
    one.run()
    from expdb.store.files import exclusive

    with exclusive(lab / f"locks/push-{one.store.id}.lock", what="x"), pytest.raises(Conflict):
        pushed(one)
