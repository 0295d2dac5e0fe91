"""A killed run that goes on: what its rules found in both lives is found again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch

import expdb
from expdb.query.replay import replay
from expdb.store.runs import find_run_dir, read_run
from tests.track import tiny_linear as linear

pytestmark = pytest.mark.slow
EAGER = {
    "loss_spike": {"window": 8, "start": 3, "least": 4, "k": 1.5, "floor": 1e-6, "cooldown": 3},
    "grad_spike": {"window": 8, "start": 3, "least": 4, "k": 1.5, "floor": 1e-3, "cooldown": 3},
    "divergence": {"block": 4, "floor": 1e-6, "errors": 0.1},
    "plateau": {"steps": 20, "blocks": 5, "share": 0.5},
    "stall": False,
}


def trained(store: Path, kill_at: int | None = None, resume: str | None = None) -> str:
    torch.manual_seed(3)
    batches = [(torch.randn(2, 5, 3, dtype=torch.float64), torch.ones(2, 5)) for _ in range(40)]
    state = linear.linear(linear.Rows(*batches), lr=1e-3)
    settings = {"print": "quiet", "dirty": "allow", "keep": {"last": None}, "monitor": EAGER}
    run = expdb.start({"seed": 1, "expdb": settings}, name="tiny", store=store, resume=resume)
    loop = expdb.Loop(
        run, state, max_steps=80, save_every=20, eval_every=10,
        evaluate=lambda step: {"val/loss": 2.0 + (step % 7) / 50},
    )  # fmt: skip
    with run:
        for update in loop:
            for batch in update:
                update.backward(*linear.squared(state, batch))
            update.step()
            if loop.step == kill_at:
                run.settle(wait=True)
                os.kill(os.getpid(), signal.SIGKILL)
    return str(run.id)


@pytest.mark.parametrize("kill_at", [35, 61])
def test_what_was_found_before_and_after_a_kill_is_found_again(
    tmp_path: Path, kill_at: int
) -> None:
    store = tmp_path / "runs"
    child = os.fork()
    if child == 0:
        trained(store, kill_at=kill_at)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    [folder] = store.glob("exp=*/run=*")
    run = trained(store, resume=folder.name.removeprefix("run="))
    found = replay(find_run_dir(store, run))
    assert found.is_equal
    assert found.num_recorded >= 6
    events = read_run(folder, store_root=store).events
    assert {one.facts["attempt"] for one in events} == {1, 2}
    assert max(one.step for one in events if one.facts["attempt"] == 1) <= kill_at
