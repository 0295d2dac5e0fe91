"""No space at one operation or for a while: in a record, a seal, a status, a recovery, an index."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import expdb
from expdb.cli.main import main
from expdb.errors import Corrupt
from expdb.index.reader import open_reader
from expdb.model import RunState
from expdb.store import media_recorder, recorder
from expdb.store.layout import RunLayout, StoreLayout
from expdb.store.media import read_media
from expdb.store.recorder import Recorder
from expdb.store.recover import recover
from expdb.store.runs import read_run
from expdb.store.store import open_store
from tests import warm
from tests.faults.counting import Tally
from tests.faults.killing import Child, Trap
from tests.faults.lives import (
    config,
    fill,
    left_behind,
    leftovers,
    only_run,
    steps,
    sweep,
    unsound,
)
from tests.store.fsck_made import points

pytestmark = pytest.mark.slow

Mount = Callable[[str], Path]
MakeRun = Callable[..., RunLayout]
STEPS = 12
SPANS = [
    pytest.param(1, 29, id="one-some"),
    pytest.param(25, 41, id="while-some"),
    *(pytest.param(span, 1, id=f"{span}-all", marks=pytest.mark.soak) for span in (1, 4, 25, 100)),
]


def about_space(error: Corrupt, *words: str) -> None:
    """See that an error is in plain words."""
    assert "no space left" in error.message
    assert all(word in error.message for word in words)


def train(root: Path, child: Child, trap: Trap) -> None:
    """Log in spite of a disk that finds no space for a while; end when it is there again."""
    recorder.SEAL_POINTS, recorder.RETRY_S = 12, 0.0  # type: ignore[misc]
    media_recorder.SEAL_BYTES, media_recorder.RETRY_S = 400, 0.0  # type: ignore[misc]
    run = expdb.start(config(), name="spaceless", store=root)
    trap.arm()
    for step in range(STEPS):
        run.log({"a": float(step), "b": 0.5}, step=step)
        run.log_text("said", f"at {step}" * 9, step=step)
        if run._recorder._sealing is not None:
            run._recorder._sealing.join()
        if step % 4 == 1:
            run._heartbeat._beat()
            run._recorder.sync()
            run._media.sync()
            run.event(step, "warn", "own", "seen")
            run.note(f"note {step}")
            run.log_eval("cloze", {"acc": 0.5}, step=step)
            run.use_data("train", "corpus", digest="sha256:1", num_bytes=4)
    for _ in range(trap.span + 1):
        try:
            run.finish()
        except Corrupt as error:
            about_space(error)
        else:
            break
    child.tell(trap.count)


@pytest.mark.parametrize(("span", "stride"), SPANS)
def test_training_goes_on_without_space_and_all_is_there_at_its_end(
    tmp_path: Path, faults: Tally, span: int, stride: int
) -> None:
    root = tmp_path / "store" / "runs"

    def survives(number: int) -> bool:
        trap = Trap(number, effect="full", span=span, within=root)
        child = Child(lambda own: train(root, own, trap))
        assert child.survives()
        run = only_run(root)
        assert run is not None
        assert (run.state, run.num_dropped, run.problems) == (RunState.FINISHED, 0, ())
        layout = RunLayout(root / run.path)
        faults.compare(range(STEPS), steps(layout))
        faults.compare(range(STEPS), read_media(layout.root, "text")["step"].to_pylist())
        assert run.notes == tuple(f"note {step}" for step in (1, 5, 9))
        assert [event.step for event in run.events] == [1, 5, 9]
        assert [one.step for one in run.evals] == [1, 5, 9]
        assert unsound(root) == []
        assert leftovers(root) == []
        shutil.rmtree(root.parent)
        return child.told < number

    assert sweep(survives, faults, stride) > 150


@pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.soak)])
def test_start_without_space_says_so_and_a_later_one_works(
    tmp_path: Path, faults: Tally, stride: int
) -> None:
    root = tmp_path / "store" / "runs"

    def survives(number: int) -> bool:
        root.mkdir(parents=True)

        def begin(child: Child) -> None:
            Trap(number, effect="full", span=10**6, within=root).arm()
            try:
                run = expdb.start(config(), name="full", store=root)
            except Corrupt as error:
                about_space(error, "cannot write to the store")
                return
            run.log({"a": 1.0}, step=0)
            child.tell(0)
            os._exit(0)

        child = Child(begin)
        assert child.survives()
        with expdb.start(config(), name="full", store=root) as run:
            run.log({"a": 1.0}, step=0)
        faults.compare([0], steps(run.layout))
        assert unsound(root) == []
        shutil.rmtree(root.parent)
        return child.told == 0

    assert sweep(survives, faults, stride) > 40


# ----------------------------------------------------------------------------- a real full disk


def test_a_seal_on_a_full_disk_is_done_when_there_is_space(
    small_disk: Mount, faults: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "SEAL_POINTS", 50)
    monkeypatch.setattr(recorder, "RETRY_S", 0.0)
    said: list[str] = []
    disk = small_disk("2m")
    run = expdb.start(config(), name="seal", store=disk / "runs")
    item = Recorder(run.layout, run=run.id, attempt=1, rank=7, on_trouble=said.append)
    filler = fill(disk, leave=9000)
    faults.fault()
    for step in range(200):
        item.write(("a", "b"), (float(step), 0.5), step, step)
        if item._sealing is not None:
            item._sealing.join()
    assert said != []
    filler.unlink()
    item.write(("a", "b"), (200.0, 0.5), 200, 200)
    item.close()
    faults.compare(range(201), steps(run.layout))
    assert list(run.layout.attempt(1).glob("rank-7.*.wal")) == []
    run.finish()


def test_a_recovery_on_a_full_disk_loses_nothing_and_is_done_later(
    small_disk: Mount, faults: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = small_disk("2m")
    root = open_store(disk / "runs", create=True).root
    layout = made_in(root)
    left_behind(layout)
    before = points(layout)
    filler = fill(disk)
    faults.fault(2)
    with pytest.raises(OSError, match="No space left"):
        recover(root, layout)
    assert points(layout) == before
    with open_reader(open_store(root)) as reader:
        assert reader.rows("SELECT id, state FROM runs") == [(layout.id, "crashed")]
        assert any("the index cannot be written" in text for text in reader.warnings)
    assert points(layout) == before
    filler.unlink()
    assert recover(root, layout) is RunState.CRASHED
    faults.compare(before, points(layout))
    assert unsound(root) == []


def made_in(root: Path) -> RunLayout:
    """An empty run of a process that is gone, in any store."""
    from expdb.store import owner
    from expdb.store.files import write_json
    from expdb.store.ids import new_id
    from expdb.store.status import Status, write_status

    layout = RunLayout(StoreLayout(root).run_dir("baseline", new_id()))
    layout.attempt(1).mkdir(parents=True)
    write_json(layout.run_json, {"format": 1, "id": layout.id, "experiment": "baseline"})
    write_json(layout.attempt(1) / "owner.json", {**owner.describe(), "start": -1})
    write_status(layout, Status())
    return layout


@pytest.mark.parametrize("leave", [0, 4096, 100_000, 300_000])
def test_an_index_on_a_full_disk_is_read_from_memory_and_said(
    small_disk: Mount, faults: Tally, leave: int, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = small_disk("3m")
    root = open_store(disk / "runs", create=True).root
    ids = set()
    for _ in range(3):
        layout = made_in(root)
        item = Recorder(layout, run=layout.id, attempt=1)
        item.write(("val/loss",), (1.0,), 1, 0)
        item.close()
        ids.add(layout.id)
    with open_reader(open_store(root)):
        pass
    layout = made_in(root)
    ids.add(layout.id)
    filler = fill(disk, leave=leave)
    faults.fault()
    for _ in range(2):
        with open_reader(open_store(root)) as reader:
            assert {row[0] for row in reader.rows("SELECT id FROM runs")} == ids
            for text in reader.warnings:
                assert text == "the index cannot be written: no space left"
        assert main(["--store", str(root), "ls"]) == 0
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        assert all(run[:4] in said.out for run in ids)
    filler.unlink()
    with open_reader(open_store(root)) as reader:
        assert reader.warnings == ()
        assert {row[0] for row in reader.rows("SELECT id FROM runs")} == ids
    assert leftovers(StoreLayout(root).index) == []


CHECKPOINTS = """
import os, sys
import torch
torch.set_num_threads(1)
from torch import nn
import expdb
from expdb.errors import Corrupt
from expdb.track.state import State
from tests.faults.lives import fill
from pathlib import Path

disk = Path(sys.argv[1])
run = expdb.start({"expdb": {"print": "quiet"}}, name="saves", store=disk / "runs")
state = State(model=nn.Linear(100, 100))
run.checkpoint(1, state)
run.settle(wait=True)
failed = 0
for number, leave in enumerate((0, 5000, 30_000, 41_000, 42_000, 43_000, 44_000, 46_000, 50_000)):
    filler = fill(disk, leave=leave)
    run.log({"a": float(number)}, step=number)
    try:
        run.checkpoint(2 + number, state)
        run.settle(wait=True)
    except Corrupt as error:
        assert "could not be written" in error.message, error.message
        failed += 1
    filler.unlink()
assert failed > 2, failed
run.checkpoint(50, state)
run.finish()
print(failed)
"""


def test_a_checkpoint_on_a_full_disk_leaves_the_earlier_ones_and_training_goes_on(
    small_disk: Mount, faults: Tally, tmp_path: Path
) -> None:
    disk = small_disk("2m")
    script = tmp_path / "train.py"
    script.write_text(CHECKPOINTS)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    done = warm.run([str(script), str(disk)], cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    faults.fault(int(done.stdout))
    run = only_run(disk / "runs")
    assert run is not None
    assert all(one.complete for one in run.checkpoints)
    assert [one.step for one in run.checkpoints][-1] == 50
    layout = RunLayout(disk / "runs" / run.path)
    assert leftovers(layout.root) == []
    faults.compare(range(9), steps(layout))
    assert unsound(disk / "runs") == []


def test_a_resume_on_a_full_disk_says_so_and_a_later_one_works(
    small_disk: Mount, faults: Tally
) -> None:
    disk = small_disk("2m")
    root = disk / "runs"

    def dies(child: Child) -> None:
        run = expdb.start(config(), name="again", store=root)
        for step in range(20):
            run.log({"a": float(step)}, step=step)
        os._exit(0)

    assert Child(dies).survives()
    record = only_run(root)
    assert record is not None
    before = steps(RunLayout(root / record.path))
    for leave in (0, 200, 5000, 9000, 14_000, 20_000, 30_000):
        filler = fill(disk, leave=leave)

        def resume(child: Child) -> None:
            try:
                run: Any = expdb.start(config(), name="again", store=root, resume=record.id)
            except Corrupt as error:
                about_space(error)
                child.tell(1)
                return
            run.log({"a": 1.0}, step=0)
            os._exit(0)

        child = Child(resume)
        assert child.survives()
        faults.fault(child.told == 1)
        filler.unlink()
        faults.compare(before, steps(RunLayout(root / record.path))[-len(before) :])
    with expdb.start(config(), name="again", store=root, resume=record.id) as run:
        run.log({"a": 1.0}, step=0)
    again = read_run(root / record.path, store_root=root)
    assert (again.state, again.problems) == (RunState.FINISHED, ())
    assert unsound(root) == []
