"""A resumed process computes the bits of one that never stopped; every saved item is needed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
import torch

import expdb
from expdb.store.checkpoints import read_manifests
from expdb.store.layout import RunLayout
from expdb.store.points import read_series
from expdb.store.runs import read_run
from tests import warm
from tests.track import tiny_training as tiny

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("tiny_training.py")
ROOT = Path(__file__).parents[2]
ITEMS = ("torch", "python", "numpy", "loader", "optim", "adam step", "sched", "extra", "ema")


def work(**job):
    """Run one job in a new process and return its answer."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = warm.run([str(SCRIPT), json.dumps(job)], cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """Train 40 steps at once, killed at 27, stopped at 18; then go on from all in a new process."""
    folder = tmp_path_factory.mktemp("exact")
    straight, killed, stopped = (str(folder / name) for name in ("straight", "killed", "stopped"))
    ends = work(
        trainings=[
            {"folder": straight, "seed": 1},
            {"folder": killed, "seed": 1, "signal": "SIGKILL", "at": 27},
            {"folder": stopped, "seed": 1, "signal": "SIGTERM", "at": 18},
        ]
    )
    there = [one.step for one in read_manifests(RunLayout(Path(killed))) if one.complete]
    resumes = [
        {"name": "middle of an epoch", "step": 20},
        {"name": "border of an epoch", "step": 30},
        {"name": "twice in a row", "step": 10, "stops": [20, 30]},
        {"name": "after SIGKILL", "step": max(there), "run": killed},
        {"name": "after SIGTERM", "step": 18, "run": stopped},
        *({"name": item, "step": 20, "without": item} for item in ITEMS),
        {"name": "all again", "step": 20},
    ]
    answers = work(folder=str(folder), resumes=[{"run": straight, **one} for one in resumes])
    whole = json.loads(Path(straight + ".json").read_text())
    events = json.loads(Path(stopped + ".events").read_text())
    return {"straight": whole, **answers, "ends": ends, "events": events}


def tail(trace, first):
    """The part of a trace from step `first` on."""
    points = {
        key: {k: v for k, v in series.items() if int(k) >= first}
        for key, series in trace["points"].items()
    }
    return points, {k: v for k, v in trace["ids"].items() if int(k) >= first}


def first_loss_that_differs(left, right, first):
    a, b = (tail(one, first)[0]["train/loss"] for one in (left, right))
    return next((int(k) for k in a if a[k] != b[k]), None)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("middle of an epoch", 20),
        ("border of an epoch", 30),
        ("twice in a row", 30),
        ("after SIGKILL", 20),
        ("after SIGTERM", 18),
        ("all again", 20),
    ],
)
def test_a_new_process_goes_on_with_the_same_bits(traces, name, step):
    straight, resumed = traces["straight"], traces[name]
    assert tail(resumed, 0) == tail(straight, step)
    assert len(resumed["points"]["train/loss"]) == 40 - step
    assert resumed["digest"] == straight["digest"]


@pytest.mark.parametrize("item", ITEMS)
def test_leaving_one_item_out_is_seen(traces, item):
    straight, resumed = traces["straight"], traces[item]
    assert resumed["digest"] != straight["digest"]
    at_once = {"torch": 20, "python": 20, "numpy": 20, "loader": 20, "extra": 20}
    later = {"optim": 21, "adam step": 21, "sched": 22}
    expected = {**at_once, **later}.get(item)
    found = first_loss_that_differs(straight, resumed, 20)
    if item == "ema":  # it takes no part in the loss
        assert found is None
    elif item in at_once:
        # A coin may fall the same way once.
        assert found is not None
        assert found - expected <= 1
    else:
        assert found == expected


def test_killed_without_warning_the_last_checkpoint_stands(traces):
    assert traces["ends"][1] == -signal.SIGKILL
    assert len(traces["after SIGKILL"]["points"]["train/loss"]) == 20


def test_sigterm_saves_at_the_border_and_exits_143(traces):
    assert traces["ends"][2] == 143
    assert traces["events"] == [["preempted", "SIGTERM at step 18, checkpoint saved"]]


def real_training(store, *, resume=None, fork=None, lr=1e-2, stop_at=None, steps=12):
    """Train with `expdb.start`; return (run handle, state, exit code)."""
    torch.manual_seed(50 if resume or fork else 1)
    state = tiny.build()
    [group] = state.optims[""].param_groups
    group["lr"] = group["initial_lr"] = lr
    state.scheds = {"": torch.optim.lr_scheduler.LambdaLR(state.optims[""], lambda k: 1 / (k + 1))}
    run = expdb.start(
        {"optim": {"lr": lr}, "seed": 1},
        name="tiny",
        store=store,
        objective={"metric": "val/loss", "mode": "min"},
        resume=resume,
        fork=fork,
    )
    loop = expdb.Loop(
        run,
        state,
        max_steps=steps,
        clip=1.0,
        eval_every=4,
        save_every=4,
        evaluate=lambda k: {"val/loss": 3 - k / 100},
    )
    code = 0
    try:
        with run:
            for update in loop:
                if loop.step == stop_at:
                    os.kill(os.getpid(), signal.SIGTERM)
                for window in update:
                    update.backward(*tiny.summed_loss(state.models[""], window))
                update.step()
    except SystemExit as stop:
        code = stop.code
    return run, state, code


def losses(run):
    table = read_series(run.dir, ["train/loss"])
    return dict(zip(table["step"].to_pylist(), table["value"].to_pylist(), strict=True))


@pytest.fixture
def store(tmp_path):
    return tmp_path / "runs"


def test_a_real_run_stops_and_goes_on_with_the_same_bits(store):
    whole, straight, code = real_training(store)
    assert code == 0
    stopped, _, code = real_training(store, stop_at=5)
    assert code == 143
    read = read_run(stopped.dir, store_root=store)
    assert (read.state, read.reason) == ("preempted", "SIGTERM at step 6, checkpoint saved")
    assert [one.step for one in read.checkpoints] == [4, 6]
    resumed, state, code = real_training(store, resume=stopped.id)
    assert (resumed.id, resumed.attempt, resumed.resumed_from, code) == (stopped.id, 2, 6, 0)
    assert losses(resumed) == losses(whole)
    assert sorted(losses(whole)) == list(range(12))
    assert state.digest() == straight.digest()
    read = read_run(resumed.dir, store_root=store)
    assert read.state == "finished"
    assert [one.step for one in read.checkpoints] == [8, 12]
    val = read_series(resumed.dir, ["val/loss"])
    assert val["step"].to_pylist() == [0, 4, 8, 12]


def test_a_fork_takes_the_weights_and_its_own_learning_rate(store):
    parent, _, _ = real_training(store)
    fork, _, _ = real_training(store, fork=f"{parent.id}@8", lr=0.05, steps=10)
    assert fork.id != parent.id
    table = read_series(fork.dir, ["train/lr", "train/loss", "val/loss"])
    rows = list(zip(*(table[name].to_pylist() for name in ("key", "step", "value")), strict=True))
    rates = [(step, value) for key, step, value in rows if key == "train/lr"]
    assert rates == [(8, pytest.approx(0.05 / 9)), (9, pytest.approx(0.05 / 10))]
    assert [step for key, step, _ in rows if key == "val/loss"] == [8, 10]
    same = [value for key, step, value in rows if (key, step) == ("train/loss", 8)]
    assert same == [losses(parent)[8]]
