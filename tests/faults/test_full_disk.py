"""A disk that is full, at every place where that can be met; training goes on."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import expdb
from expdb.model import RunState
from expdb.store import recorder
from expdb.store.layout import RunLayout
from tests.faults.counting import Tally
from tests.faults.lives import (
    SOAK,
    config,
    fill,
    only_run,
    steps,
    unsound,
)

pytestmark = pytest.mark.slow

Mount = Callable[[str], Path]
MakeRun = Callable[..., RunLayout]


def warnings_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("warning:")]


# ------------------------------------------------------------------------------------ case A32


def test_case_a32_a_full_disk_neither_stops_nor_blocks_training(
    small_disk: Mount, faults: Tally, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(recorder, "RETRY_S", 0.05)
    disk = small_disk("2m")
    root = disk / "runs"
    run = expdb.start(config(), name="a32", store=root)
    logged = 0

    def log(count: int) -> None:
        nonlocal logged
        for _ in range(count):
            run.log({"a": float(logged), "b": 0.5}, step=logged)
            logged += 1

    log(200)
    filler = fill(disk, leave=5000)
    log(3000)  # the space ends in the middle of a record
    for number in range(40 * SOAK):
        log(50)
        run._heartbeat._beat()
        run._recorder.sync()
        run.note(f"note {number}")
        run.event(logged, "info", "own", f"event {number}")
        run.log_text("said", "x" * 100, step=logged)
        run.log_eval("cloze", {"acc": 0.5}, step=logged)
        faults.fault(7)
    written = steps(run.layout)
    assert written == list(range(len(written)))  # what was flushed is readable
    assert 200 <= len(written) < logged
    found = warnings_in(capsys.readouterr().err)
    assert len(found) == 1, found
    assert found[0] == "warning: store: no space left; points wait in memory, none lost"
    filler.unlink()
    time.sleep(0.1)
    log(10)
    run.note("last")
    again = warnings_in(capsys.readouterr().err)
    assert len(again) == 1
    assert re.fullmatch(r"warning: store is back: [\d,]+ waiting records written", again[0])
    run.finish()
    assert warnings_in(capsys.readouterr().err) == []
    record = only_run(root)
    assert record is not None
    assert (record.state, record.num_dropped, record.problems) == (RunState.FINISHED, 0, ())
    faults.compare(range(logged), steps(run.layout))
    assert record.notes == (*(f"note {at}" for at in range(40 * SOAK)), "last")
    assert len(record.events) == 40 * SOAK
    assert len(record.evals) == 40 * SOAK
    assert unsound(root) == []


def test_case_a32_what_memory_cannot_hold_is_dropped_counted_and_shown(
    small_disk: Mount, faults: Tally, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from expdb.cli.main import main

    monkeypatch.setattr(recorder, "RETRY_S", 0.05)
    monkeypatch.setattr(recorder, "WAITING_BYTES", 4000)
    disk = small_disk("2m")
    root = disk / "runs"
    with expdb.start(config(), name="a32", store=root) as run:
        filler = fill(disk)
        faults.fault()
        for step in range(1000):
            run.log({"a": float(step), "b": 0.5}, step=step)
        found = warnings_in(capsys.readouterr().err)
        assert [line.split("; ")[1] for line in found] == [
            "points wait in memory, none lost",
            "points are dropped, and counted",
        ]
        filler.unlink()
        time.sleep(0.1)
        for step in range(1000, 1010):
            run.log({"a": float(step), "b": 0.5}, step=step)
    record = only_run(root)
    assert record is not None
    kept = steps(run.layout)
    assert kept[-10:] == list(range(1000, 1010))
    assert record.num_dropped == 2 * (1010 - len(kept)) > 0
    faults.compare(kept, kept)
    capsys.readouterr()
    assert main(["--store", str(root), "show", run.id]) == 0
    assert f"{record.num_dropped:,} points were lost" in capsys.readouterr().out
    assert unsound(root) == []


SCRIPT = """
import os, sys
import expdb
from expdb.store import recorder
recorder.RETRY_S = 0.05
run = expdb.start({"expdb": {"print": "quiet"}}, name="ends", store=sys.argv[1])
for step in range(20):
    run.log({"a": float(step)}, step=step)
with open(sys.argv[2], "wb", buffering=0) as file:
    try:
        while file.write(b"x" * 4096):
            pass
    except OSError:
        pass
for step in range(20, 3020):
    run.log({"a": float(step)}, step=step)
if sys.argv[3] == "freed":
    os.remove(sys.argv[2])
    run.finish()
"""


@pytest.mark.parametrize("end", ["freed", "full"])
def test_case_a32_a_process_ends_by_itself_whatever_the_disk(
    small_disk: Mount, faults: Tally, tmp_path: Path, end: str
) -> None:
    from tests import warm

    disk = small_disk("2m")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    words = [str(script), str(disk / "runs"), str(disk / "filler"), end]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    done = warm.run(words, cwd=tmp_path, env=env, libraries=warm.LIGHT)
    faults.fault()
    record = only_run(disk / "runs")
    assert record is not None
    layout = RunLayout(disk / "runs" / record.path)
    if end == "freed":
        assert (done.returncode, record.state) == (0, RunState.FINISHED)
        faults.compare(range(3020), steps(layout))
    else:
        # Nobody called finish(): what the journal had room for is there, the rest is said.
        assert record.state is RunState.CRASHED
        assert "Traceback" not in done.stderr
        assert "could not be finished: no space left" in done.stderr
        faults.compare(range(20), steps(layout)[:20])
