"""Going on with a run, and starting from another one's weights."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import expdb
from expdb.errors import Conflict, NotFound, Refused
from expdb.model import RunAt, RunState
from expdb.store.checkpoints import read_manifests
from expdb.store.points import read_series
from expdb.store.runs import read_run

pytestmark = pytest.mark.slow

torch.set_num_threads(1)
CONFIG = {"optim": {"lr": 0.1}, "loop": {"num_workers": 1}, "expdb": {"print": "lines"}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def state() -> expdb.State:
    return expdb.State(model=torch.nn.Linear(1, 1))


def start(root: Path, cfg: Any = None, **options: Any) -> Any:
    seed = options.pop("seed", 0)
    return expdb.start(cfg or CONFIG, store=root, seed=seed, name="exp01", **options)


def stopped(root: Path, *steps: int, objective: Any = None) -> str:
    """A preempted run with checkpoints; at step k the weight is k and the loss 10 - k."""
    run = start(root, objective=objective or "val/loss")
    made = state()
    for step in steps:
        run.log({"val/loss": 10.0 - step, "x": float(step)}, step=step)
        torch.nn.init.constant_(next(iter(made.models.values())).weight, step)
        run.checkpoint(step, made)
        run.settle(wait=True)
    run.log({"x": 99.0}, step=(steps[-1] if steps else 0) + 5)
    run.preempt("SIGTERM")
    return str(run.id)


def weight(run: Any) -> tuple[int, float]:
    made = state()
    step = run.restore(made)
    return step, next(iter(made.models.values())).weight.item()


def said(run: Any) -> str:
    return (run.dir / "attempts" / str(run.attempt) / "log.txt").read_text()


def test_a_resume_adds_an_attempt_that_goes_on_from_the_last_checkpoint(root: Path) -> None:
    first = stopped(root, 3, 6)
    for word in (first, first[:4], "exp01"):
        with start(root, resume=word, objective="val/loss") as run:
            assert (run.id, run.step, run.resumed_from) == (first, 6, 6)
            assert weight(run) == (6, 6.0)
            run.log({"x": 7.0}, step=7)
            run.preempt("again")
    assert f"exp01  {first}  seed 0  resumes at step 6  attempt 4" in said(run)
    kept = read_run(run.dir, store_root=root)
    assert [attempt.resumed_from for attempt in kept.attempts] == [None, 6, 6, 6]
    table = read_series(run.dir, ["x"])
    # Points beyond the checkpoint belong to a past that was left.
    pairs = list(zip(table["step"].to_pylist(), table["value"].to_pylist(), strict=True))
    assert pairs == [(3, 3.0), (6, 6.0), (7, 7.0)]
    assert kept.series["x"].last == 7.0


def test_without_a_checkpoint_it_starts_again(root: Path) -> None:
    first = stopped(root)
    with start(root, resume=first, objective="val/loss") as run:
        assert (run.id, run.step, run.resumed_from) == (first, 0, 0)
        assert run.restore(state()) == 0
    assert len(read_series(run.dir, ["x"])) == 0


def damage(root: Path, run: str, step: int) -> None:
    folder = root / "exp=exp01" / f"run={run}" / "checkpoints" / f"step={step}"
    file = max(folder.glob("*.pt"), key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


def test_a_damaged_checkpoint_is_passed_over_and_named(root: Path) -> None:
    first = stopped(root, 3, 6)
    damage(root, first, 6)
    with start(root, resume=first, objective="val/loss") as run:
        assert weight(run) == (3, 3.0)
    assert "warning: checkpoint 6 is not used: " in said(run)
    assert read_run(run.dir, store_root=root).attempts[-1].resumed_from == 3


@pytest.mark.parametrize(
    ("cfg", "options", "words"),
    [
        ({**CONFIG, "optim": {"lr": 0.2}}, {}, "another config: optim.lr was 0.1, is 0.2"),
        ({**CONFIG, "optim": {"lr": 0.1, "wd": True}, "n": 1}, {}, "n was -, is 1 (and 1 more)"),
        (CONFIG, {"seed": 1}, "has seed 0, not 1"),
    ],
)
def test_another_config_or_seed_is_refused_with_the_way_out(
    root: Path, cfg: Any, options: dict[str, Any], words: str
) -> None:
    first = stopped(root, 3)
    with pytest.raises(Refused) as caught:
        start(root, cfg, resume=first, **options)
    assert words in caught.value.message
    assert caught.value.exit_code == 4
    assert caught.value.hints == (f"start a new run from its weights: expdb.fork={first[:4]}@last",)
    assert len(read_run(root / "exp=exp01" / f"run={first}", store_root=root).attempts) == 1


def test_ignored_keys_may_change(root: Path) -> None:
    first = stopped(root, 3)
    with start(root, {**CONFIG, "loop": {"num_workers": 8}}, resume=first) as run:
        assert run.id == first


def test_what_is_finished_or_alive_is_not_resumed(root: Path) -> None:
    with start(root) as done:
        pass
    with pytest.raises(Refused, match="is finished; there is nothing to resume") as caught:
        start(root, resume=done.id)
    assert f"expdb.fork={done.id[:4]}@last" in caught.value.hints[0]
    with start(root) as alive, pytest.raises(Refused, match="is running"):
        start(root, resume=alive.id)
    first = stopped(root, 3)
    with pytest.raises(Refused, match="is finished; there is nothing to resume"):
        start(root, resume=f"{done.id}@0")
    with pytest.raises(NotFound, match=r"has no checkpoint 4; it has 3"):
        start(root, resume=f"{first}@4")
    with pytest.raises(NotFound, match="exp07"):
        start(root, resume="exp07")


KILLED = """
import os, signal, sys, expdb
run = expdb.start({"optim": {"lr": 0.1}}, store=sys.argv[1], seed=0, name="exp01")
for step in range(20):
    run.log({"x": float(step)}, step=step)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_of_several_processes_that_resume_a_killed_run_one_goes_on(root: Path) -> None:
    words = [sys.executable, "-c", KILLED, str(root)]
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    [folder] = (root / "exp=exp01").iterdir()
    assert read_run(folder, store_root=root).state is RunState.CRASHED
    cfg = {"optim": {"lr": 0.1}, "expdb": {"print": "quiet"}}
    ready, ends = threading.Barrier(4), []

    def resume() -> None:
        ready.wait()
        try:
            ends.append(start(root, cfg, resume="exp01"))
        except (Refused, Conflict) as error:
            ends.append(error)

    threads = [threading.Thread(target=resume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [winner] = [end for end in ends if not isinstance(end, Exception)]
    winner.log({"x": 1.0}, step=1)
    winner.finish()
    kept = read_run(folder, store_root=root)
    assert (kept.state, kept.series["x"].count) == (RunState.FINISHED, 2)
    # Step 0 of before, step 1 of now; nothing of the others is left.
    assert len(list((folder / "attempts").iterdir())) == 2


# --------------------------------------------------------------------------------------- fork


def test_a_fork_is_a_new_run_from_a_checkpoint(root: Path) -> None:
    first = stopped(root, 3, 6, 9, objective={"metric": "val/loss", "mode": "max"})
    for word, step in (
        (f"{first}@6", 6),
        (first, 9),
        (f"{first[:4]}@last", 9),
        (f"{first}@best", 3),
    ):
        kept = {item.step for item in read_manifests(run_layout(root, first)) if item.complete}
        if step not in kept:
            with pytest.raises(NotFound):
                start(root, fork=word)
            continue
        cfg = {**CONFIG, "optim": {"lr": 0.5}}
        with start(root, cfg, fork=word) as run:
            assert weight(run) == (step, float(step))
        made = read_run(run.dir, store_root=root)
        assert made.fork == made.parent == RunAt(run=first, step=step)
        assert run.id != first
        assert f"forks {first[:4]}@{step}\n  parent     {first[:4]} exp01, 1 key differs" in said(
            run
        )


def run_layout(root: Path, run: str) -> Any:
    from expdb.store.layout import RunLayout

    return RunLayout(root / "exp=exp01" / f"run={run}")


def test_a_fork_needs_a_good_checkpoint(root: Path) -> None:
    none = stopped(root)
    with pytest.raises(NotFound, match="has no checkpoint"):
        start(root, fork=none)
    first = stopped(root, 3)
    with pytest.raises(NotFound, match="has no checkpoint 4"):
        start(root, fork=f"{first}@4")
    damage(root, first, 3)
    with pytest.raises(expdb.Corrupt, match="checkpoint 3"):
        start(root, fork=f"{first}@3")
    assert json.loads((run_layout(root, first).root / "status.json").read_text())["attempt"] == 1
    assert len(os.listdir(root / "exp=exp01")) == 2


def test_a_lost_run_of_another_host_is_taken_over_only_when_told(root: Path) -> None:
    first = stopped(root, 3)
    folder = next(root.glob(f"exp=*/run={first}"))
    owner = folder / "attempts" / "1" / "owner.json"
    owner.write_text(json.dumps({**json.loads(owner.read_text()), "host": "elsewhere"}))
    status = folder / "status.json"
    status.write_text(json.dumps({**json.loads(status.read_text()), "state": "running"}))
    with pytest.raises(Refused, match="is running"):
        start(root, resume=first, objective="val/loss")
    for path in (folder / "attempts" / "1").iterdir():
        os.utime(path, (1, 1))
    assert read_run(folder, store_root=root).state is RunState.LOST
    with pytest.raises(Refused, match="no sign for 10 minutes"):
        start(root, resume=first, objective="val/loss")
    assert sorted(path.name for path in (folder / "attempts").iterdir()) == ["1"]
    known = {**CONFIG, "expdb": {"print": "lines", "assume_dead": True}}
    with start(root, known, resume=first, objective="val/loss") as run:
        assert (run.attempt, run.resumed_from) == (2, 3)
