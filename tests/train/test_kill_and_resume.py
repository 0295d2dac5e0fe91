"""SIGKILL at a random step, then `expdb resume`: the bits of an uninterrupted run."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pyarrow as pa
import pytest
import torch

from expdb.store.points import read_series
from tests import warm
from tests.train.project import TINY, Project, copy_project

pytestmark = pytest.mark.slow

LONG = ("loop.max_steps=60", "loop.save_every=10", "loop.eval_every=20", "model.dropout=0.1")
TIMED = ("train/tokens_per_s", "train/data_wait_pct", "sys/monitor_overhead_pct")


def points(run: Path) -> list[tuple[str, int, float]]:
    table = read_series(run)
    keep = pa.array([key not in TIMED for key in table["key"].to_pylist()], pa.bool_())
    table = table.filter(keep)
    columns = (table[name].to_pylist() for name in ("key", "step", "value"))
    return list(zip(*columns, strict=True))


def weights(run: Path, step: int) -> dict[str, torch.Tensor]:
    path = run / "checkpoints" / f"step={step}" / "model.pt"
    found = torch.load(path, weights_only=True)
    return {key: value for key, value in found.items() if isinstance(value, torch.Tensor)}


def kill_in_the_middle(project: Project, at: int) -> None:
    words = ["train.py", "+exp=exp01", *TINY, *LONG]
    child = warm.Job(words, cwd=project.top, env=project.environment())
    try:
        until = time.monotonic() + 240
        while time.monotonic() < until and child.poll() is None:
            found = list(project.store.glob("exp=exp01/run=*"))
            if found and any(
                step >= at for key, step, _ in points(found[0]) if key == "train/loss"
            ):
                break
            time.sleep(0.02)
        assert child.poll() is None, "the run ended before it could be killed"
    finally:
        child.kill()
        assert child.wait().returncode == -signal.SIGKILL


@pytest.mark.soak
def test_a_killed_run_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    whole = copy_project(tmp_path / "whole")
    whole.train("+exp=exp01", *LONG)
    cut = copy_project(tmp_path / "cut")
    at = random.randint(12, 45)
    kill_in_the_middle(cut, at)
    run = cut.run_of("exp01")

    listed = cut.json("ls")["runs"]
    assert [row["state"] for row in listed] == ["crashed"], f"killed at {at}"
    logged = points(run)

    cut.expdb("resume", run.name.removeprefix("run=")[:4], "-y")
    assert cut.json("ls")["runs"][0]["state"] == "finished"
    pins = sorted((run / "attempts").iterdir())
    assert [path.name for path in pins] == ["1", "2"]
    resumed_from = json.loads((pins[1] / "pin.json").read_text())["resumed_from"]
    assert resumed_from % 10 == 0

    expected = points(whole.run_of("exp01"))
    assert points(run) == expected, f"killed at {at}, resumed from {resumed_from}"
    assert set(logged) <= set(expected), (
        "what the killed attempt logged is what the whole run logged"
    )
    left, right = weights(whole.run_of("exp01"), 60), weights(run, 60)
    assert left.keys() == right.keys()
    assert left
    assert all(torch.equal(left[key], right[key]) for key in left)
