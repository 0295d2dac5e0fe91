"""The index, `rm` and its way back, killed between any two operations and at random moments."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from expdb.actions.restore import restore
from expdb.actions.rm import plan_removal, remove
from expdb.index.generations import Generations
from expdb.index.reader import open_reader
from expdb.store import ops, trash
from expdb.store.layout import RunLayout
from expdb.store.store import Store, open_store
from tests.faults.counting import Tally
from tests.faults.killing import Child, Trap
from tests.faults.lives import SOAK, STRIDES, far, left_behind, sweep, unsound
from tests.store.fsck_made import finished, points

pytestmark = pytest.mark.slow

MakeRun = Callable[..., RunLayout]
ROUNDS = [
    *(pytest.param(number, id=str(number)) for number in range(3)),
    *(pytest.param(n, id=f"soak{n}", marks=pytest.mark.soak) for n in range(3, 3 + 20 * SOAK)),
]


def listed(store: Store) -> dict[str, str]:
    """Run -> state, as every reader shows it."""
    with open_reader(store) as reader:
        assert reader.warnings == ()
        return dict(reader.rows("SELECT id, state FROM runs"))


# -------------------------------------------------------------------------------------- index


@STRIDES
def test_a_kill_of_an_index_build_between_any_two_operations_shows_nowhere(
    make_run_dir: MakeRun, store_root: Path, faults: Tally, stride: int, tmp_path: Path
) -> None:
    store = open_store(store_root)
    ids = [finished(make_run_dir).id for _ in range(2)]
    assert listed(store) == dict.fromkeys(ids, "finished")
    left = make_run_dir()
    left_behind(left)
    before = points(left)
    wanted = {**dict.fromkeys(ids, "finished"), left.id: "crashed"}
    kept = tmp_path / "kept"
    shutil.copytree(store_root, kept)

    def survives(number: int) -> bool:
        def work(child: Child) -> None:
            Trap(number, within=store_root).arm()
            listed(store)

        ended = Child(work).survives()
        for _ in range(2):
            assert listed(store) == wanted
            faults.compare(before, points(left))
        assert Generations(store.layout.index).current() is not None
        assert unsound(store_root) == []
        shutil.rmtree(store_root)
        shutil.copytree(kept, store_root)
        return ended

    assert sweep(survives, faults, far(stride)) > 25


@pytest.mark.parametrize("number", ROUNDS)
def test_a_kill_of_an_index_build_at_any_moment_shows_nowhere(
    make_run_dir: MakeRun, store_root: Path, faults: Tally, number: int
) -> None:
    store = open_store(store_root)
    ids = [finished(make_run_dir).id for _ in range(3)]
    states = dict.fromkeys(ids, "finished")
    listed(store)

    def build(child: Child) -> None:
        while True:
            store.layout.index.joinpath("CURRENT").unlink(missing_ok=True)
            assert listed(store) == states
            child.tell(child.told + 1)

    for _ in range(4):
        children = [Child(build) for _ in range(2)]
        time.sleep(random.uniform(0.02, 0.2))
        for child in children:
            child.kill()
            assert child.wait() == -signal.SIGKILL
            faults.fault()
        assert listed(store) == states


# ----------------------------------------------------------------------------------------- rm


@STRIDES
@pytest.mark.parametrize("way", ["rm", "restore"])
def test_a_kill_of_rm_leaves_each_run_in_the_store_or_in_the_trash(
    make_run_dir: MakeRun, store_root: Path, faults: Tally, stride: int, tmp_path: Path, way: str
) -> None:
    store = open_store(store_root)
    gone = [finished(make_run_dir) for _ in range(2)]
    stays = finished(make_run_dir)
    before = {layout.id: points(layout) for layout in (*gone, stays)}
    listed(store)

    def put() -> None:
        with open_reader(store) as reader:
            remove(reader, plan_removal(reader, [layout.id for layout in gone]))

    def back() -> None:
        with open_reader(store) as reader:
            restore(reader)

    if way == "restore":
        put()
    kept = tmp_path / "kept"
    shutil.copytree(store_root, kept)

    def survives(number: int) -> bool:
        def work(child: Child) -> None:
            Trap(number, within=store_root).arm()
            (put if way == "rm" else back)()

        ended = Child(work).survives()
        there = {one.run for one in trash.entries(store.layout)}
        for layout in gone:
            in_trash = store.layout.trash / layout.id
            assert in_trash.is_dir() != layout.root.is_dir()
            home = RunLayout(in_trash if layout.id in there else layout.root)
            faults.compare(before[layout.id], points(home))
        assert listed(store) == dict.fromkeys(set(before) - there, "finished")
        assert len(ops.read_ops(store.layout)) <= (1 if way == "rm" else 2)
        assert unsound(store_root) == []
        while trash.entries(store.layout):
            back()
        assert listed(store) == dict.fromkeys(before, "finished")
        for layout in (*gone, stays):
            faults.compare(before[layout.id], points(layout))
        shutil.rmtree(store_root)
        shutil.copytree(kept, store_root)
        return ended

    assert sweep(survives, faults, far(stride)) > 15
