"""The write path of points and media, killed at random, between operations and within a write."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from expdb.errors import Conflict
from expdb.model import RunState
from expdb.store import recorder
from expdb.store.layout import RunLayout
from expdb.store.recorder import Recorder
from expdb.store.recover import recover
from expdb.store.runs import read_run
from expdb.store.status import Status, write_status
from tests.faults.counting import Tally
from tests.faults.killing import Child, Effect, Trap, kill_before
from tests.faults.lives import (
    SOAK,
    STRIDES,
    check_recovered,
    finish,
    left_behind,
    leftovers,
    own,
    sweep,
    unsound,
)

pytestmark = pytest.mark.slow

MakeRun = Callable[..., RunLayout]
ROUNDS = [
    *(pytest.param(number, id=str(number)) for number in range(2)),
    *(pytest.param(n, id=f"soak{n}", marks=pytest.mark.soak) for n in range(2, 2 + 20 * SOAK)),
]


# ------------------------------------------------------------------------------- at random moments


@pytest.mark.parametrize("round_number", ROUNDS)
@pytest.mark.parametrize("pause_s", [0.0, 0.001])
def test_every_point_that_was_acknowledged_survives_a_kill(
    make_run_dir: MakeRun,
    store_root: Path,
    faults: Tally,
    pause_s: float,
    round_number: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorder, "SEAL_POINTS", 3000)
    monkeypatch.setattr(recorder, "RETRY_S", 0.0)
    layout = make_run_dir()

    def work(child: Child) -> None:
        own(layout)
        item = Recorder(layout, run=layout.id, attempt=1)
        for step in range(10**9):
            item.write(("a", "b"), (float(step), 0.5), step, step)
            child.tell(step)
            if pause_s:
                time.sleep(pause_s)

    child = Child(work)
    while child.told < 1:
        time.sleep(0.001)
    assert read_run(layout.root, store_root=store_root).state is RunState.RUNNING
    assert recover(store_root, layout) is RunState.RUNNING
    time.sleep(random.uniform(0.01, 0.08))
    child.kill()
    assert child.wait() == -signal.SIGKILL
    faults.fault()
    check_recovered(layout, store_root, child.told, faults)
    assert unsound(store_root) == []


# ------------------------------------------------------------------------- between two operations


def whole_life(layout: RunLayout, child: Child, trap: Trap) -> None:
    """Write, seal by size, beat, close and finish; the trap strikes somewhere."""
    recorder.SEAL_POINTS = 20  # type: ignore[misc]
    own(layout)
    item = Recorder(layout, run=layout.id, attempt=1)
    trap.arm()
    for step in range(14):
        item.write(("a", "b"), (float(step), 0.5), step, step)
        child.tell(step)
        if step == 3:
            item.save_book()
            item.sync()
        if item._sealing is not None:
            item._sealing.join()
    item.close()
    item.book.save(layout.series_json)
    write_status(layout, Status(state="finished", last_step=13))


@STRIDES
@pytest.mark.parametrize("effect", ["kill", "tear"])
def test_a_kill_between_any_two_operations_of_a_run_loses_and_doubles_nothing(
    make_run_dir: MakeRun, store_root: Path, faults: Tally, effect: Effect, stride: int
) -> None:
    def survives(number: int) -> bool:
        layout = make_run_dir()
        trap = Trap(number, effect=effect, within=store_root)
        child = Child(lambda own: whole_life(layout, own, trap))
        ended = child.survives()
        check_recovered(layout, store_root, child.told, faults)
        finish(layout, store_root)
        return ended

    assert sweep(survives, faults, stride) > 45


@STRIDES
def test_a_kill_between_any_two_operations_of_a_recovery_loses_and_doubles_nothing(
    make_run_dir: MakeRun, store_root: Path, faults: Tally, stride: int
) -> None:
    def survives(number: int) -> bool:
        layout = make_run_dir()
        left_behind(layout)

        def work(child: Child) -> None:
            kill_before(number)
            recover(store_root, layout)

        ended = Child(work).survives()
        check_recovered(layout, store_root, 13, faults)
        assert list(layout.attempt(1).glob("*.torn")) != []
        assert leftovers(layout.points) == []
        finish(layout, store_root)
        return ended

    assert sweep(survives, faults, stride) > 20


def test_many_recover_at_once(make_run_dir: MakeRun, store_root: Path, faults: Tally) -> None:
    for _ in range(4 * SOAK):
        layout = make_run_dir()
        left_behind(layout, torn=False)
        faults.fault()
        start = time.monotonic() + 0.05

        def work(child: Child, at: RunLayout = layout, when: float = start) -> None:
            time.sleep(max(0.0, when - time.monotonic()))
            try:
                found = recover(store_root, at)
            except Conflict:
                return
            assert found is RunState.CRASHED

        children = [Child(work) for _ in range(4)]
        assert [child.wait() for child in children] == [0] * 4
        check_recovered(layout, store_root, 13, faults)


@pytest.mark.parametrize("how", ["empty", "gone"])
def test_points_that_were_counted_and_are_in_no_file_are_named_and_counted_as_lost(
    make_run_dir: MakeRun, store_root: Path, faults: Tally, how: str, dead: dict[str, Any]
) -> None:
    layout = make_run_dir(who=dead)
    item = Recorder(layout, run=layout.id, attempt=1)
    for step in range(7):
        item.write(("a", "b"), (float(step), 0.5), step, step)
    item.save_book()
    item.abandon()
    [journal] = layout.attempt(1).glob("*.wal")
    if how == "empty":
        journal.write_bytes(b"")
    else:
        journal.unlink()
    faults.fault()
    said = ("points that series.json counts are in no file any more",)
    empty = () if how == "gone" else ("rank-0.1.wal is empty",)
    assert sorted(read_run(layout.root, store_root=store_root).problems) == sorted((*said, *empty))
    assert unsound(store_root) != []
    recover(store_root, layout)
    run = read_run(layout.root, store_root=store_root)
    kept = tuple(f"{item}; kept as attempts/1/rank-0.1.wal.damaged" for item in empty)
    assert (run.problems, run.num_dropped, dict(run.series)) == (kept, 14, {})
    recover(store_root, layout)
    assert read_run(layout.root, store_root=store_root).num_dropped == 14
    assert (unsound(store_root) == []) is (how == "gone")
