"""A linear model in float64 whose gradients are easy to check; as a script, two ranks train it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import torch
from torch import nn

from expdb.track.loop import Loop
from expdb.track.state import State
from tests.track import tiny_training as tiny

torch.set_num_threads(1)


class Rows:
    """The same list of batches over and over, without a state."""

    def __init__(self, *batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


def linear(rows, *, lr=0.1, **parts):
    """A linear model of 3 inputs under SGD, in float64 so that 1e-6 means something."""
    torch.manual_seed(0)
    model = nn.Linear(3, 1).double()
    optim = torch.optim.SGD(model.parameters(), lr=lr)
    return State(model=model, optim=optim, loader=rows, **parts)


def squared(state, batch):
    inputs, mask = batch
    return (state.models[""](inputs).squeeze(-1).square() * mask).sum(), int(mask.sum())


def drive(run, state, **options):
    """Train to the end; return the loop."""
    loop = Loop(run, state, **options)
    for update in loop:
        for batch in update:
            update.backward(*squared(state, batch))
        update.step()
    return loop


def halves(num, seed=1):
    """Micro-batches of 2 rows each with unequal masks, and the same as one batch."""
    torch.manual_seed(seed)
    inputs = torch.randn(2 * num, 5, 3, dtype=torch.float64)
    mask = (torch.rand(2 * num, 5) < torch.linspace(0.1, 0.9, 2 * num)[:, None]).double()
    return list(zip(inputs.split(2), mask.split(2), strict=True)), (inputs, mask)


ONE = (torch.ones(2, 3, dtype=torch.float64), torch.ones(2))


def wrapped(rows):
    """The linear model inside DistributedDataParallel."""
    from torch.nn.parallel import DistributedDataParallel

    state = linear(rows)
    state.models = {"": DistributedDataParallel(state.models[""])}
    return state


def values_of(state):
    return [one.tolist() for one in state.models[""].module.state_dict().values()]


def train_rank(rank, world, folder):
    """Train on one rank, with its share of the micro-batches, until one is told to stop."""
    import torch.distributed as dist

    meet = f"file://{folder}/meet"
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=world)
    parts, _ = halves(4)
    state = wrapped(Rows(*parts[rank::world]))
    run = tiny.StandIn(f"{folder}/run", rank=rank)
    torch.manual_seed(rank)
    stop = None
    try:
        for update in Loop(run, state, max_steps=9, accum=2, save_every=3):
            for batch in update:
                update.backward(*squared(state, batch))
            torch.rand(rank + 1)
            if rank == 1 and state.loop.step == 4:
                os.kill(os.getpid(), signal.SIGTERM)
            update.step()
    except SystemExit as end:
        stop = end.code
    weights = values_of(state)
    drawn = torch.rand(3).tolist()
    dist.barrier()  # rank 0 has waited for its checkpoint
    torch.manual_seed(99)
    resumed = wrapped(Rows(*parts[rank::world]))
    step = tiny.StandIn(f"{folder}/run", rank=rank, attempt=2, resumed_from=5).restore(resumed)
    answer = {
        "weights": weights,
        "loss": run.series("train/loss"),
        "stop": stop,
        "events": run.events,
        "tokens": state.loop.tokens,
        "resumed": [step, values_of(resumed)],
        "drawn": [drawn, torch.rand(3).tolist()],
        "wrote": bool(run.saved),
    }
    Path(folder, f"rank-{rank}.json").write_text(json.dumps(answer))
    dist.destroy_process_group()


if __name__ == "__main__":
    children = []
    for number in range(2):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                train_rank(number, 2, sys.argv[1])
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(max(map(abs, ends)))
