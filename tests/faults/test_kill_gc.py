"""`gc` killed between any two operations: what is to be kept is there, and the next one goes on."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from expdb.actions.gc.checkpoints import Override
from expdb.actions.gc.collect import Wanted, collect, plan_gc
from expdb.actions.rm import plan_removal, remove
from expdb.index.reader import open_reader
from expdb.model import Attempt, Pin
from expdb.store import attempts, checkpoints, trash_checkpoints
from expdb.store.files import read_json, write_json
from expdb.store.layout import RunLayout
from expdb.store.ops import now_ms
from expdb.store.packages import keep_packages, read_packages
from expdb.store.status import read_status, relist, write_status
from expdb.store.store import open_store
from tests.faults.counting import Tally
from tests.faults.killing import Child, Trap
from tests.faults.lives import STRIDES, far, sweep, unsound
from tests.store.fsck_made import points
from tests.store.test_fold_parts import made

pytestmark = pytest.mark.slow

STEPS = (1, 2, 3, 4, 5)
KEPT = (4, 5)
RULE = Override(last=2, best=0)
NEEDED, UNNEEDED = {"numpy": "1.0"}, {"numpy": "2.0"}


def collected(root: Path) -> None:
    with open_reader(open_store(root)) as reader:
        wanted = Wanted(rule=RULE, purge_ms=3_600_000)
        collect(reader, plan_gc(reader, wanted, now_ms=now_ms()), wanted)


def save(layout: RunLayout, step: int) -> None:
    folder = checkpoints.temp_dir(layout, step)
    folder.mkdir(parents=True)
    (folder / "model.pt").write_bytes(b"weights %d" % step)
    checkpoints.seal(folder, checkpoints.Manifest(step=step))
    checkpoints.put_in_place(layout, step)


def prepared(root: Path) -> tuple[RunLayout, RunLayout]:
    """A store with something of every kind that `gc` collects; the run, and one folded before."""
    store = open_store(root)
    layout = made(root, [(0, ["a", "b"], step) for step in range(20)])
    folded = made(root, [(0, ["a"], step) for step in range(48)])
    gone = made(root, [(0, ["a"], 0)])
    environment = {"packages": keep_packages(store.layout, NEEDED) or ""}
    attempts.write_pin(layout, Attempt(number=1, pin=Pin(), environment=environment))
    digest = keep_packages(store.layout, UNNEEDED) or ""
    then = time.time() - 90_000
    for path in store.layout.packages("").parent.glob("*.json"):
        os.utime(path, (then, then))
    assert digest
    for step in STEPS:
        save(layout, step)
    relist(layout, "checkpoints")
    with open_reader(store) as reader:
        remove(reader, plan_removal(reader, [gone.id]))
        note = store.layout.trash / f"{gone.id}.json"
        write_json(note, {**read_json(note), "removed_at_ms": now_ms() - 7_200_000})
        only = Wanted(runs=[folded.id])
        collect(reader, plan_gc(reader, only, now_ms=now_ms()), only)
    os.utime(folded.parts_list(1, 0), (then, then))
    write_status(folded, read_status(folded))
    return layout, folded


@STRIDES
def test_a_kill_of_gc_loses_nothing_and_the_next_gc_completes_it(
    store_root: Path, faults: Tally, stride: int, tmp_path: Path
) -> None:
    store = open_store(store_root)
    layout, folded = prepared(store_root)
    before = points(layout), points(folded)
    weights = {step: (layout.checkpoint(step) / "model.pt").read_bytes() for step in STEPS}
    with open_reader(store) as reader:
        needed = reader.run(layout.id).attempt.environment["packages"]
    kept = tmp_path / "kept"
    shutil.copytree(store_root, kept)

    def whole() -> None:
        faults.compare(before[0], points(layout))
        faults.compare(before[1], points(folded))
        assert unsound(store_root) == []
        assert read_packages(store.layout, needed) == NEEDED
        aside = {one.step: one.path for one in trash_checkpoints.entries(store.layout)}
        for step in STEPS:
            there = layout.checkpoint(step)
            assert there.is_dir() != (step in aside)
            path = aside.get(step, there) / "model.pt"
            assert path.read_bytes() == weights[step]
        assert not set(KEPT) & set(aside)

    def survives(number: int) -> bool:
        def work(child: Child) -> None:
            Trap(number, within=store_root).arm()
            collected(store_root)

        ended = Child(work).survives()
        whole()
        with open_reader(store) as reader:
            assert reader.run(layout.id).problems == ()
        collected(store_root)
        whole()
        assert checkpoints.steps(layout) == KEPT
        assert len(list(folded.points.iterdir())) == 1
        assert len(list(layout.points.glob("part-*.parquet"))) in (1, 11)
        assert not list(store.layout.trash.glob("*/run.json"))
        sets = list(store.layout.packages("").parent.glob("*.json"))
        assert [read_packages(store.layout, f"sha256:{one.stem}") for one in sets] == [NEEDED]
        with open_reader(store) as reader:
            assert plan_gc(reader, Wanted(rule=RULE), now_ms=now_ms()).going() == ()
            assert reader.run(layout.id).problems == ()
        shutil.rmtree(store_root)
        shutil.copytree(kept, store_root)
        return ended

    assert sweep(survives, faults, far(stride)) > 40
