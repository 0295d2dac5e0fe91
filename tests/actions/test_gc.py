"""`gc`: what is not needed goes to the trash and comes back; what anybody needs stays."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from expdb.actions.gc.checkpoints import Override
from expdb.actions.gc.collect import Wanted, collect, plan_gc
from expdb.actions.gc.pins import _needed
from expdb.actions.gc.results import GcPlan, GcResult
from expdb.actions.rm import plan_removal, remove
from expdb.actions.tag import add_tag
from expdb.actions.undo import undo
from expdb.errors import Conflict, Refused
from expdb.git.stores import dropping, pinning, registered
from expdb.model import RunAt
from expdb.store import trash_checkpoints
from expdb.store.checkpoints import verify
from expdb.store.files import write_json
from expdb.store.layout import RunLayout
from expdb.store.ops import now_ms
from expdb.store.recover import run_lock
from expdb.store.status import read_status, relist
from tests.actions.conftest import World

pytestmark = pytest.mark.slow

STEPS = (100, 200, 300, 400, 500)
VALUES = {100: 3.0, 200: 1.5, 300: 2.0, 400: 1.9, 500: 1.8}
DAY_MS = 86_400_000


def made(world: World, experiment: str = "a", **facts: object) -> str:
    """Write a run with five checkpoints, of which the one at 200 is best."""
    run = world.run(experiment, values=VALUES, checkpoints=STEPS, **facts)  # type: ignore[arg-type]
    relist(RunLayout(world.folder(run)), "checkpoints")
    return run


def plan(world: World, later_ms: int = 0, **wanted: object) -> GcPlan:
    with world.reader() as reader:
        asked = Wanted(**wanted)  # type: ignore[arg-type]
        return plan_gc(reader, asked, now_ms=now_ms() + later_ms, worktree=world.worktree)


def gc(world: World, later_ms: int = 0, **wanted: object) -> GcResult:
    asked = Wanted(**wanted)  # type: ignore[arg-type]
    with world.reader() as reader:
        found = plan_gc(reader, asked, now_ms=now_ms() + later_ms, worktree=world.worktree)
        return collect(reader, found, asked, worktree=world.worktree)


def why(found: GcPlan, run: str) -> dict[int, tuple[bool, str]]:
    return {one.step: (one.goes, one.why) for one in found.items if one.run == run and one.step}


def steps(world: World, run: str) -> list[int]:
    return sorted(int(path.name[5:]) for path in (world.folder(run) / "checkpoints").iterdir())


def pins(world: World) -> set[str]:
    refs = world.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/expdb/pins/")
    return set(refs.split())


def test_the_declared_rule_holds_and_every_checkpoint_has_its_reason(world: World) -> None:
    run = made(world)
    assert why(plan(world), run) == {
        100: (True, "beyond keep: last 2, best 1"),
        200: (False, "best"),
        300: (True, "beyond keep: last 2, best 1"),
        400: (False, "keep: last 2"),
        500: (False, "newest"),
    }
    declared = made(world, "b", settings={"keep": {"last": 1, "best": 2}})
    assert {step for step, (goes, _) in why(plan(world), declared).items() if goes} == {
        100,
        300,
        400,
    }
    keeps_all = made(world, "c", settings={"keep": {"last": None}})
    assert set(why(plan(world), keeps_all).values()) == {(False, "keep: all")}
    over = plan(world, rule=Override(last=1, best=0), runs=[run])
    assert {one.step for one in over.going()} == {100, 200, 300, 400}


def test_it_goes_to_the_trash_and_undo_brings_it_back_byte_for_byte(world: World) -> None:
    run = made(world)
    folder = world.folder(run)
    before = {path: path.read_bytes() for path in (folder / "checkpoints").rglob("*.*")}
    done = gc(world)
    assert [one.step for one in done.done] == [100, 300]
    assert steps(world, run) == [200, 400, 500]
    with world.reader() as reader:
        assert [one.step for one in reader.run(run).checkpoints] == [200, 400, 500]
        assert reader.run(run).problems == ()
    listed = read_status(RunLayout(folder)).files
    assert not [name for name in listed if name.startswith("checkpoints/step=100/")]
    with world.reader() as reader:
        result = undo(reader, world.worktree)
    assert result.record == ("gc", "2 checkpoints back")
    after = {path: path.read_bytes() for path in (folder / "checkpoints").rglob("*.*")}
    assert after == before
    assert verify(RunLayout(folder), 100).complete
    with world.reader() as reader:
        assert [one.step for one in reader.run(run).checkpoints] == list(STEPS)
    assert not list(world.store.layout.trash.glob("gc-*"))


def test_what_a_tag_a_fork_or_a_later_eval_names_stays(world: World) -> None:
    run = made(world)
    with world.reader() as reader:
        add_tag(reader, "v1", RunAt(run=run, step=100), worktree=world.worktree)
    made(world, "b", fork={"run": run, "step": 300})
    assert why(plan(world), run)[100] == (False, "tag v1")
    assert why(plan(world), run)[300][1].startswith("fork of ")
    other = made(world, "c")
    ended = read_status(RunLayout(world.folder(other))).ended_at_ms
    assert ended is not None
    for name, step, at in (("late", 100, ended + 1), ("inside", 300, ended - 1)):
        body = {
            "format": 1, "id": name, "task": "cloze", "step": step, "metrics": {"acc": 0.5},
            "created_at_ms": at,
        }  # fmt: skip
        folder = world.folder(other) / "evals"
        folder.mkdir(exist_ok=True)
        write_json(folder / f"{name}.json", body)
    os.utime(RunLayout(world.folder(other)).status_json)
    found = why(plan(world), other)
    assert found[100] == (False, "eval cloze")
    assert found[300][0], "what a run evaluates while it trains needs no weights any more"


def test_a_run_that_is_alive_damaged_or_locked_is_left_alone(world: World) -> None:
    alive = made(world, state="running", alive=True)
    assert set(why(plan(world), alive).values()) == {(False, "its run is running")}
    damaged = made(world, "b")
    (world.folder(damaged) / "checkpoints/step=100/model.pt").write_bytes(b"torn")
    assert why(plan(world), damaged)[100] == (False, "not complete")
    locked = made(world, "c")
    with run_lock(world.store.root, RunLayout(world.folder(locked))):
        done = gc(world, runs=[locked])
    assert done.done == ()
    assert len(done.left) == 1
    assert done.left[0].startswith(f"{locked} stays: ")
    assert steps(world, locked) == list(STEPS)


def test_it_looks_again_before_it_moves(world: World) -> None:
    run = made(world)
    asked = Wanted()
    with world.reader() as reader:
        found = plan_gc(reader, asked, now_ms=now_ms(), worktree=world.worktree)
        add_tag(reader, "kept", RunAt(run=run, step=100), worktree=world.worktree)
        done = collect(reader, found, asked, worktree=world.worktree)
    assert [one.step for one in done.done] == [300]
    assert done.left == (f"{run}@100 stays: tag kept",)


def test_damaged_points_keep_every_checkpoint(world: World) -> None:
    run = made(world)
    [part] = (world.folder(run) / "points").iterdir()
    part.write_bytes(part.read_bytes()[:40])
    assert {goes for goes, _ in why(plan(world), run).values()} == {False}


def test_only_a_purge_deletes_and_only_what_is_old_enough(world: World) -> None:
    run = made(world)
    gc(world)
    gone = made(world, "b")
    with world.reader() as reader:
        remove(reader, plan_removal(reader, [gone]))
    held = plan(world)
    assert held.trash_bytes > 0
    assert not held.going("trash")
    young = gc(world, purge_ms=30 * DAY_MS)
    assert young.op is None
    done = gc(world, later_ms=31 * DAY_MS, purge_ms=30 * DAY_MS)
    assert sorted(one.what for one in done.of("trash")) == sorted(
        [gone, f"{run}@100", f"{run}@300"]
    )
    assert list(world.store.layout.trash.iterdir()) == []
    with world.reader() as reader, pytest.raises(Refused, match="in the trash any more"):
        undo(reader, world.worktree, _op_of(world, "gc"))


def _op_of(world: World, kind: str) -> str:
    found = [json.loads(path.read_text()) for path in sorted(world.store.layout.ops.glob("*/*"))]
    return str(next(one["id"] for one in found if one["kind"] == kind))


def test_a_pin_goes_when_no_run_of_any_store_needs_it(world: World) -> None:
    first = made(world)
    world.write({"train.py": "lr = 2\n"})
    second = made(world, "b")
    world.write({"train.py": "lr = 1\n"})
    both = pins(world)
    assert len(both) == 2
    with world.reader() as reader:
        remove(reader, plan_removal(reader, [second]))
    assert not plan(world).going("pin"), "the trash needs it"
    gc(world, purge_ms=0, runs=None)
    assert len(pins(world)) == 1
    commit = json.loads((world.folder(first) / "attempts/1/pin.json").read_text())["git"]["commit"]
    assert pins(world) == {commit}
    with world.reader() as reader:
        undo(reader, world.worktree)
    assert pins(world) == both


def test_a_pin_of_another_store_stays(world: World, tmp_path: Path) -> None:
    world.write({"train.py": "lr = 2\n"})
    run = made(world)
    other = tmp_path / "elsewhere" / "runs"
    shutil.copytree(world.store.root, other)
    meta = other / ".expdb/store.json"
    meta.write_text(meta.read_text().replace(world.store.id, "zzzzzzzzzz"))
    with pinning(world.worktree, "zzzzzzzzzz", other):
        pass
    shutil.rmtree(world.folder(run))
    assert registered(world.worktree) == {"zzzzzzzzzz": other}
    assert [one.why for one in plan(world).items if one.kind == "pin"] == [f"needed in {other}"]
    shutil.rmtree(other)
    found = plan(world)
    assert not found.going("pin")
    assert "every pin stays" in found.problems[0]
    assert str(world.worktree.common_dir / "expdb/stores/zzzzzzzzzz") in found.problems[0]


def test_no_pin_goes_between_a_start_and_its_run(world: World) -> None:
    with (
        pinning(world.worktree, world.store.id, world.store.root),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("expdb.git.stores.WAIT_S", 0.0)
        with pytest.raises(Conflict, match="being started"), dropping(world.worktree):
            pass
    with dropping(world.worktree):
        pass


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
def test_a_store_that_cannot_be_listed_keeps_every_pin(world: World) -> None:
    """As another user, since root may look everywhere."""
    made(world)
    for path in (world.store.root, *world.store.root.parents):
        if path.stat().st_uid == 0 and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    [experiment] = world.store.root.glob("exp=*")
    store, root = world.store.id, world.store.root
    assert len(list(_needed(store, root, ()))) == 1
    experiment.chmod(0o700)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setuid(65534)
            list(_needed(store, root, ()))
        except PermissionError:
            code = 7
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_names_in_the_trash_that_are_not_ours_are_left(world: World) -> None:
    made(world)
    strange = world.store.layout.trash / "gc-x" / "notarun" / "step=1"
    strange.mkdir(parents=True)
    (strange / "f").write_text("mine")
    gc(world, later_ms=DAY_MS, purge_ms=0)
    assert (strange / "f").read_text() == "mine"
    assert [one.step for one in trash_checkpoints.entries(world.store.layout)] == [100, 300]
