"""A real run that stops and goes on in one process, and a fork of one."""

from __future__ import annotations

import os
import signal

import pytest
import torch

import expdb
from expdb.store.points import read_series
from expdb.store.runs import read_run
from tests.track import tiny_training as tiny

pytestmark = pytest.mark.slow


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
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # no commit of this repository is pinned
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
