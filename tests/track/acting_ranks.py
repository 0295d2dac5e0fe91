"""Two ranks under gloo that train one run with rules that act; as a script."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch

import expdb
from tests.monitor.feeding import only
from tests.track.acting_run import RULE, SETTINGS
from tests.track.tiny_linear import Rows, halves, squared, values_of, wrapped

STEPS = 16
ACTIONS = [{"rewind": {"back": 2, "skip": 1, "lr_scale": 0.5, "tries": 1}}, "lower_lr"]
BAD = 8
"""The updates of this step are bad, in every attempt."""


class Places(Rows):
    """Batches over and over, that know where they are."""

    def __init__(self, *batches):
        super().__init__(*batches)
        self.at = 0

    def __iter__(self):
        while True:
            self.at += 1
            yield self.batches[(self.at - 1) % len(self.batches)]

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, saved):
        self.at = saved["at"]


def train_rank(rank: int, folder: str) -> None:
    """Train one of two ranks, and write what it saw."""
    import torch.distributed as dist

    meet = f"file://{folder}/meet"
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=2)
    parts, _ = halves(14)
    state = wrapped(Places(*parts[rank::2]))
    loss_rule = {**RULE, "signal": "train/loss", "actions": "skip_step", "above": 1e9}
    gain = {"window": 2, "min_rel_delta": 0.01, "patience": 2, "actions": "early_stop"}
    rules = only(bad={**RULE, "actions": ACTIONS}, loss=loss_rule, no_gain=gain)
    seen = []
    cfg = {"seed": 1, "expdb": {**SETTINGS, "monitor": rules}}
    with expdb.start(cfg, name="ranks", store=f"{folder}/runs") as run:
        loop = expdb.Loop(
            run, state, max_steps=STEPS, accum=1, save_every=3, eval_every=1,
            evaluate=lambda step: {"val/loss": max(4.0 - 0.25 * step, 1.0)},
        )  # fmt: skip
        for update in loop:
            for batch in update:
                nll, n = squared(state, batch)
                # One update of the first attempt cannot be: it is not taken, on either rank.
                update.backward(nll * (1e12 if (loop.step, run.attempt) == (5, 1) else 1.0), n)
            step = loop.step
            update.step()
            run.log({"own/bad": float(step == BAD)}, step=step)
            seen.append([run.attempt, step, state.loop.num_batches, values_of(state)])
    answer = {
        "seen": seen,
        "skipped": state.loop.num_skipped,
        "scale": state.loop.lr_scale,
        "weights": values_of(state),
    }
    Path(folder, f"rank-{rank}.json").write_text(json.dumps(answer))
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    children = []
    for number in range(2):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                train_rank(number, sys.argv[1])
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(max(map(abs, ends)))
