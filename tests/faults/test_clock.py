"""Case A33: killed runs, processes of the same id, and a clock that steps back."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

import expdb
from expdb.actions.rm import plan_removal, remove
from expdb.cli.main import main
from expdb.index.reader import open_reader
from expdb.model import RunState
from expdb.store import owner
from expdb.store.files import read_json, write_json
from expdb.store.layout import RunLayout
from expdb.store.points import read_series
from expdb.store.runs import read_run
from expdb.store.store import open_store
from expdb.track import run as track_run
from tests.faults.counting import Tally
from tests.faults.killing import Child, die
from tests.faults.lives import config, only_run, steps, unsound

pytestmark = pytest.mark.slow

HOUR_NS = 3_600_000_000_000


def set_clock(shift_ns: int) -> None:
    """Let this process see another wall clock; the clock that only grows stays."""
    real = time.time_ns
    time.time_ns = lambda: real() + shift_ns
    time.time = lambda: time.time_ns() / 1e9
    track_run.time_ns = time.time_ns  # bound there by name: `log()` is counted in microseconds


def killed_at(root: Path, last: int) -> RunLayout:
    """A run whose process dies after it has logged the steps before `last`."""

    def work(child: Child) -> None:
        run = expdb.start(config(), name="killed", store=root)
        for step in range(last):
            run.log({"a": float(step)}, step=step)
        die()

    assert not Child(work).survives()
    run = only_run(root)
    assert run is not None
    return RunLayout(root / run.path)


@pytest.mark.parametrize("after", ["kill", "reused pid", "reboot"])
@pytest.mark.parametrize("then", ["resume", "remove"])
def test_case_a33_a_killed_run_is_crashed_and_can_be_resumed_and_removed(
    tmp_path: Path, faults: Tally, after: str, then: str
) -> None:
    root = tmp_path / "runs"
    layout = killed_at(root, 50)
    faults.fault()
    path = layout.attempt(1) / "owner.json"
    who: dict[str, Any] = read_json(path)
    if after == "reused pid":
        write_json(path, {**who, "pid": os.getpid()})
    elif after == "reboot":
        write_json(path, {**who, **owner.describe(), "boot": "of another start"})
    faults.compare(range(50), steps(layout))
    store = open_store(root)
    with open_reader(store) as reader:
        assert reader.rows("SELECT state, last_step FROM runs") == [("crashed", 49)]
        if then == "remove":
            remove(reader, plan_removal(reader, [layout.id]))
    if then == "remove":
        with open_reader(store) as reader:
            assert reader.rows("SELECT * FROM runs") == []
        return
    with expdb.start(config(), name="killed", store=root, resume=layout.id) as run:
        run.log({"a": 50.0}, step=50)
    again = read_run(layout.root, store_root=root)
    assert (again.state, len(again.attempts)) == (RunState.FINISHED, 2)
    faults.compare(range(51), steps(layout))
    assert unsound(root) == []


@pytest.mark.parametrize("shift_ns", [-HOUR_NS, HOUR_NS])
@pytest.mark.parametrize("is_killed", [False, True])
def test_case_a33_a_clock_that_steps_changes_no_order_and_no_duration(
    tmp_path: Path, faults: Tally, shift_ns: int, is_killed: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    root = tmp_path / "runs"

    def work(child: Child) -> None:
        run = expdb.start(config(), name="stepped", store=root)
        for step in range(40):
            if step == 20:
                set_clock(shift_ns)
                child.tell(1)
            run.log({"a": float(step)}, step=step)
            run.log_text("said", f"at {step}", step=step)
        run.event(39, "warn", "own", "seen")
        if is_killed:
            die()
        run.finish()

    child = Child(work)
    assert child.survives() is not is_killed
    faults.fault()
    run = only_run(root)
    assert run is not None
    layout = RunLayout(root / run.path)
    table = read_series(layout.root, ["a"]).to_pylist()
    faults.compare(range(40), [row["step"] for row in table])
    assert [row["value"] for row in table] == [float(step) for step in range(40)]
    seqs = [row["seq"] for row in table]
    assert seqs == sorted(seqs)
    first, last = table[0]["time"], table[-1]["time"]
    assert abs((last - first) * 1_000_000 - shift_ns) < HOUR_NS // 2  # as measured
    with open_reader(open_store(root)) as reader:
        wanted = "crashed" if is_killed else "finished"
        assert reader.rows("SELECT state, last_step FROM runs") == [(wanted, 39)]
    again = read_run(layout.root, store_root=root)
    assert again.problems == ()
    assert again.duration_s is not None
    assert again.duration_s >= 0
    assert (again.series["a"].first_step, again.series["a"].last) == (0, 39.0)
    for words in (["ls"], ["show", run.id], ["log"], ["events"], ["tail", run.id], ["status"]):
        capsys.readouterr()
        assert main(["--store", str(root), *words]) == 0, words
        said = capsys.readouterr().out
        assert " -1" not in said, said
        assert "-59m" not in said, said
    assert unsound(root) == []


def test_case_a33_ops_and_the_index_stand_in_order_when_the_clock_steps_back(
    tmp_path: Path, faults: Tally
) -> None:
    root = tmp_path / "runs"
    runs = []
    for _ in range(2):
        with expdb.start(config(), name="one", store=root) as run:
            run.log({"a": 1.0}, step=0)
        runs.append(run.id)
    assert main(["--store", str(root), "baseline", runs[0]]) == 0

    def later(child: Child) -> None:
        set_clock(-24 * HOUR_NS)
        assert main(["--store", str(root), "baseline", runs[1]]) == 0
        with expdb.start(config(), name="two", store=root) as run:
            run.log({"a": 1.0}, step=0)
        for _ in range(5):
            open_store(root).layout.index.joinpath("CURRENT").unlink(missing_ok=True)
            with open_reader(open_store(root)) as reader:
                assert len(reader.rows("SELECT id FROM runs")) == 3

    faults.fault()
    assert Child(later).survives()
    with open_reader(open_store(root)) as reader:
        assert reader.refs["baseline"].run == runs[1]
        assert len(reader.rows("SELECT id FROM runs")) == 3
    assert main(["--store", str(root), "undo"]) == 0
    with open_reader(open_store(root)) as reader:
        assert reader.refs["baseline"].run == runs[0]
    assert unsound(root) == []


@pytest.mark.parametrize("shift_ns", [-24 * HOUR_NS, 24 * HOUR_NS])
def test_case_a33_a_live_run_is_never_marked_crashed(
    tmp_path: Path, faults: Tally, shift_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "runs"
    run = expdb.start(config(), name="alive", store=root)
    run.log({"a": 1.0}, step=0)
    then = time.time() - 24 * 3600
    for path in (run.dir, *run.dir.rglob("*")):
        os.utime(path, (then, then))

    def look(child: Child) -> None:
        set_clock(shift_ns)
        with open_reader(open_store(root)) as reader:
            assert reader.rows("SELECT state FROM runs") == [("running",)]

    faults.fault()
    assert Child(look).survives()
    run.log({"a": 2.0}, step=1)
    run.finish()
    faults.compare(range(2), steps(run.layout))
