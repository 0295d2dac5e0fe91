"""Media, other ranks and attached processes, killed between any two operations on files."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import expdb
from expdb.model import RunState
from expdb.store import media_recorder, recorder
from expdb.store.fold import fold
from expdb.store.layout import RunLayout
from expdb.store.media import read_media
from expdb.store.media_journal import media_journals
from expdb.store.media_recorder import MediaRecorder
from expdb.store.points import ATTACHED, journals
from expdb.store.recover import needs_recovery, recover
from expdb.store.runs import read_run
from expdb.store.series import load
from expdb.store.status import Status, write_status
from tests.faults.counting import Tally
from tests.faults.killing import Child, Effect, Trap, die
from tests.faults.lives import STRIDES, finish, own, steps, sweep
from tests.store.test_media import BODIES, HIST

pytestmark = pytest.mark.slow

MakeRun = Callable[..., RunLayout]
EFFECTS = pytest.mark.parametrize("effect", ["kill", "tear"])


def media_steps(layout: RunLayout, kind: str) -> list[int]:
    return sorted(read_media(layout.root, kind, problems=[])["step"].to_pylist())


# -------------------------------------------------------------------------------------- media


@pytest.mark.parametrize("number", [0, 1, 7, 40])
def test_what_a_returned_call_logged_survives_a_kill(
    make_run_dir: MakeRun, store_root: Path, faults: Tally, number: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(media_recorder, "SEAL_BYTES", 3000)
    layout = make_run_dir()

    def work(child: Child) -> None:
        own(layout)
        item = MediaRecorder(layout, run=layout.id, attempt=1)
        for step in range(1000):
            item.add("image", "i", step, 0, BODIES["image"][0][0], bytes([step % 256]) * 500)
            child.tell(step)
            if step == number:
                die()

    child = Child(work)
    assert child.wait() == -signal.SIGKILL
    faults.fault()
    before = read_media(layout.root, "image").to_pylist()
    faults.compare(range(child.told + 1), [row["step"] for row in before])
    assert needs_recovery(layout) or not media_journals(layout, 1)
    assert recover(store_root, layout) is RunState.CRASHED
    assert read_media(layout.root, "image").to_pylist() == before
    assert media_journals(layout, 1) == {}
    assert not needs_recovery(layout)


def log_media(layout: RunLayout, child: Child, trap: Trap) -> None:
    own(layout)
    item = MediaRecorder(layout, run=layout.id, attempt=1)
    trap.arm()
    done = itertools.count()
    for step, (body, blob) in enumerate((*BODIES["text"], *BODIES["text"])):
        item.add("text", "k", step, 0, body, blob)
        child.tell(next(done))
        item.add("hist", "k", step, 0, HIST)
        child.tell(next(done))
    item.sync()
    item.close()


@STRIDES
@EFFECTS
def test_a_kill_between_any_two_operations_on_media_loses_and_doubles_nothing(
    make_run_dir: MakeRun, store_root: Path, faults: Tally, effect: Effect, stride: int
) -> None:
    def survives(number: int) -> bool:
        layout = make_run_dir()
        trap = Trap(number, effect=effect, within=store_root)
        child = Child(lambda own: log_media(layout, own, trap))
        ended = child.survives()
        for kind, count in (("text", (child.told + 2) // 2), ("hist", (child.told + 1) // 2)):
            faults.compare(range(count), media_steps(layout, kind), begun=[count])
        before = {kind: read_media(layout.root, kind).to_pylist() for kind in ("text", "hist")}
        assert recover(store_root, layout) is RunState.CRASHED
        for kind, rows in before.items():
            assert read_media(layout.root, kind).to_pylist() == rows
            part = layout.media / f"{kind}-a1-r0-1.parquet"
            assert (pq.read_table(part).num_rows if rows else 0) == len(rows)
        assert media_journals(layout, 1) == {}
        finish(layout, store_root)
        return ended

    assert sweep(survives, faults, stride) > 20


# --------------------------------------------------------------------------- attached processes


def judged(layout: RunLayout, child: Child, trap: Trap, *, root: Path) -> None:
    """Attach, log points, a text and an eval, and leave; the trap strikes somewhere."""
    recorder.SEAL_POINTS = 8  # type: ignore[misc]
    trap.arm()
    with expdb.attach(layout.id, store=root) as other:
        for step in range(10):
            other.log({"judge": float(step)}, step=step)
            child.tell(step)
        other.log_text("said", "a", step=1)
        other.log_eval("cloze", {"acc": 0.5}, step=9)
        other.note("seen")


@STRIDES
def test_a_kill_of_an_attached_process_leaves_the_run_and_what_it_added(
    make_run_dir: MakeRun, store_root: Path, faults: Tally, stride: int, dead: dict[str, Any]
) -> None:
    def survives(number: int) -> bool:
        layout = make_run_dir(None, who=dead)
        item = recorder.Recorder(layout, run=layout.id, attempt=1)
        item.write(("a",), (1.0,), 1, 0)
        item.close()
        write_status(layout, Status(state="finished", last_step=1))
        trap = Trap(number, within=store_root)
        child = Child(lambda own: judged(layout, own, trap, root=store_root))
        ended = child.survives()
        run = read_run(layout.root, store_root=store_root)
        assert (run.state, run.series["a"].count) == (RunState.FINISHED, 1)
        found = steps(layout, key="judge")
        faults.compare(range(child.told + 1), found, begun=[child.told + 1])
        recover(store_root, layout)
        fold(store_root, layout)
        assert journals(layout, 1) == {}
        run = read_run(layout.root, store_root=store_root)
        if found:
            assert run.series["judge"].count == load(layout.series_json)["judge"].count
            assert run.series["judge"].count == len(found)
        assert steps(layout, key="judge") == found
        finish(layout, store_root)
        return ended

    assert sweep(survives, faults, stride if stride == 1 else 4 * stride) > 60


# ---------------------------------------------------------------------------------------- ranks


@STRIDES
def test_a_kill_while_ranks_are_counted_counts_each_point_once(
    make_run_dir: MakeRun, store_root: Path, faults: Tally, stride: int, dead: dict[str, Any]
) -> None:
    def survives(number: int) -> bool:
        layout = make_run_dir(None, who=dead)
        for rank in (0, 1, ATTACHED):
            item = recorder.Recorder(layout, run=layout.id, attempt=1, rank=rank)
            for step in range(5):
                item.write((f"of/{rank}",), (1.0,), step, 0)
            item.close()
        write_status(layout, Status(state="finished", last_step=4))

        def work(child: Child) -> None:
            Trap(number, within=store_root).arm()
            assert fold(store_root, layout)

        ended = Child(work).survives()
        assert ended or os.listdir(layout.root)
        for _ in range(2):
            run = read_run(layout.root, store_root=store_root)
            wanted = [f"of/{rank}" for rank in (0, 1, ATTACHED) for _ in range(5)]
            read = [key for key, one in run.series.items() for _ in range(one.count)]
            faults.compare(wanted, read)
            fold(store_root, layout)
        assert not fold(store_root, layout)
        finish(layout, store_root)
        return ended

    assert sweep(survives, faults, stride) > 6
