"""`expdb ctl` against a real training process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from expdb.actions.ctl import ask
from expdb.actions.results import ControlResult
from expdb.errors import ExpdbError
from expdb.index.reader import open_reader
from expdb.model import RunState
from expdb.query.lookup import lookup
from expdb.store.runs import read_run
from expdb.store.store import open_store

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPT = """
import time
import expdb
from tests.track.tiny_linear import ONE, Rows, linear, squared

class Slow(Rows):
    def __iter__(self):
        for batch in self.batches:
            time.sleep(0.005)
            yield batch

state = linear(Slow(ONE), lr=0.0)
with expdb.start({"seed": 1}, name="tiny", store="runs", objective="val/loss") as run:
    loop = expdb.Loop(run, state, max_steps=10**6, evaluate=lambda k: {"val/loss": 1.0})
    for update in loop:
        for batch in update:
            update.backward(*squared(state, batch))
        update.step()
"""
PATIENCE_S = 120


def test_save_eval_pause_go_and_stop_of_a_live_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    child = subprocess.Popen(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        told = drive(tmp_path / "runs", child)
        _, said = child.communicate(timeout=PATIENCE_S)
    finally:
        child.kill()
    assert child.returncode == 143, said
    answers = {verb: (one.ok, one.outcome) for verb, one in told.items()}
    assert answers == {
        "save": (True, "checkpoint saved"),
        "eval": (True, "evaluated"),
        "pause": (True, "paused"),
        "go": (True, "goes on"),
        "stop": (True, "checkpoint saved"),
    }
    steps = [told[verb].done_step or 0 for verb in ("save", "eval", "pause", "go", "stop")]
    assert steps == sorted(steps)
    assert steps[2] == steps[3], "it trained while it was paused"
    store = open_store(tmp_path / "runs")
    run = read_run(store.root / told["stop"].run.path, store_root=store.root)
    assert (run.state, run.reason) == (
        RunState.PREEMPTED,
        f"ctl stop at step {steps[4]}, checkpoint saved",
    )
    assert [item.step for item in run.checkpoints if item.complete] == [steps[0], steps[4]]
    assert run.problems == ()
    asked = [event for event in run.events if event.rule == "ctl"]  # a slow machine fires others
    assert [event.step for event in asked] == [steps[2]] * 2
    line = next(line for line in said.splitlines() if "paused" in line)
    said_words = ["ctl:", "paused;", "go", "on:", "expdb", "ctl", run.id[:4], "go"]
    assert line.split() == ["step", str(steps[2]), "info", *said_words]


def drive(root: Path, child: subprocess.Popen[str]) -> dict[str, ControlResult]:
    """Ask for everything once the child trains; the last is `stop`."""
    told: dict[str, ControlResult] = {}
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and child.poll() is None:
        try:
            with open_reader(open_store(root)) as reader:
                found = lookup(reader, "tiny")
                for verb in ("save", "eval", "pause", "go", "stop"):
                    told[verb] = ask(reader, found, verb, wait_s=PATIENCE_S)
                    if verb == "pause":
                        assert reader.run(found.run).state is RunState.PAUSED
            return told
        except ExpdbError:
            time.sleep(0.1)  # it has not begun
    raise AssertionError(f"the child never trained: {told}, {child.poll()}")
