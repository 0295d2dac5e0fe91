"""A tiny decoder with dropout, its data, and a stand-in for the run handle.

Every generator has a say in the loss: dropout (torch), the loader's own generator, a coin of
`random` and a shift of numpy. Whole runs that stop and go on are in tests/resume.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from expdb.model import Objective
from expdb.store.layout import RunLayout
from expdb.track.checkpoint import Checkpointer, load_checkpoint
from expdb.track.loop import Loop
from expdb.track.state import State

torch.set_num_threads(1)
VOCAB, LENGTH = 17, 12


class TinyDecoder(nn.Module):
    def __init__(self, width=16, dropout=0.1):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(width, VOCAB)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, tokens):
        x = self.embed(tokens)
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.drop(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        if self.training:
            self.seen += 1
        return self.head(x)


class Windows:
    """30 windows of text in epochs of its own order; knows where it is."""

    def __init__(self, batch=1, num=30):
        generator = torch.Generator().manual_seed(5)
        self.data = torch.randint(0, VOCAB, (num, LENGTH + 1), generator=generator)
        self.batch, self.generator, self.order, self.at = batch, generator, [], 0
        self.given = []

    def __iter__(self):
        if not self.order:
            self.order = torch.randperm(len(self.data), generator=self.generator).tolist()
        while self.at < len(self.order):
            ids = self.order[self.at : self.at + self.batch]
            self.at += self.batch
            self.given.append(ids)
            yield self.data[ids]
        self.order, self.at = [], 0

    def state_dict(self):
        return {"order": self.order, "at": self.at, "generator": self.generator.get_state()}

    def load_state_dict(self, saved):
        self.order, self.at = list(saved["order"]), saved["at"]
        self.generator.set_state(saved["generator"])


def summed_loss(model, window, *, mask=None):
    logits = model(window[:, :-1])
    nll = F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten(), reduction="none")
    if mask is None:
        return nll.sum(), nll.numel()
    return (nll * mask.flatten()).sum(), int(mask.sum())


def build(**changes):
    """Return a State with a model, AdamW, a schedule, averaged weights, a loader and extras."""
    model = TinyDecoder()
    optim = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    parts = {
        "model": model,
        "optim": optim,
        "sched": torch.optim.lr_scheduler.LambdaLR(optim, lambda k: min(1.0, (k + 1) / 30)),
        "ema": torch.optim.swa_utils.AveragedModel(
            model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
        ),
        "loader": Windows(),
        "extra": {"noise": torch.Generator().manual_seed(3), "phase": {"name": "warm", "n": 1}},
    }
    return State(**{**parts, **changes})


class Lines:
    """What the console was told, in order."""

    def __init__(self):
        self.steps, self.said = [], []

    def step(self, step, max_steps, **values):
        self.steps.append((step, max_steps, values))

    def phase(self, text):
        self.said.append(("phase", text))

    def evaluated(self, step):
        self.said.append(("evaluated", step))

    def warn(self, step, text, runbook=""):
        self.said.append(("warn", step, text))


class StandIn:
    """The part of a run handle that the loop calls."""

    def __init__(self, root, *, attempt=1, resumed_from=None, fork=None, keep=None, rank=0):
        self.layout = RunLayout(Path(root))
        self.layout.root.mkdir(parents=True, exist_ok=True)
        self.attempt, self.resumed_from, self.fork = attempt, resumed_from, fork
        self.objective = Objective(metric="val/loss")
        self.step, self.num_tokens = 0, None
        self.points, self.events, self.saved = [], [], []
        self.console = Lines()
        self.checkpointer = Checkpointer(
            self.layout, attempt=attempt, keep=keep or {"last": None}, rank=rank
        )

    def took(self, step, first, last):
        self.taken = (step, first, last)

    def log(self, metrics, step=None):
        self.points += [(key, step, value) for key, value in metrics.items()]
        if self.objective.metric in metrics:
            self.checkpointer.note_value(step, float(metrics[self.objective.metric]))

    def checkpoint(self, step, state):
        self.checkpointer.save(step, state)
        self.settle(wait=False)

    def settle(self, *, wait):
        self.saved += self.checkpointer.wait() if wait else self.checkpointer.poll()

    def restore(self, state):
        if self.resumed_from is not None:
            loaded = self.checkpointer.load(self.resumed_from, state)
        elif self.fork is not None:
            loaded = load_checkpoint(*self.fork, state, fork=True)
        else:
            return 0
        self.events += [("note", note) for note in loaded.notes]
        return loaded.step

    def fail(self, reason):
        self.events.append(("failed", reason))

    def preempt(self, reason):
        self.events.append(("preempted", reason))

    def series(self, key):
        return {step: value for name, step, value in self.points if name == key}


def evaluate(_step):
    """Return a validation loss, and draw from every generator on the way."""
    torch.rand(7), random.random(), np.random.rand(3)
    return {"val/loss": 1.0}


def train(run, state, *, steps, seed, at_step=None, num_micro=2, **options):
    """Train to `steps` and return the trace as text: floats as hex, so that bits are compared."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    options = {"save_every": 10, "eval_every": 7, "evaluate": evaluate, "clip": 1.0, **options}
    loop = Loop(run, state, max_steps=steps, accum=num_micro, **options)
    [model] = state.models.values()
    for update in loop:
        for window in update:
            if random.random() < 0.5:
                window = window.flip(1)
            window = window.roll(int(np.random.randint(LENGTH)), 1)
            jitter = 1 + 0.01 * torch.rand((), generator=state.extra["noise"])
            with update.autocast():
                nll, n = summed_loss(model, window)
            update.backward(nll * jitter, n)
        update.step()
        if at_step is not None:
            at_step(loop.step)
    keys = ("train/loss", "train/grad_norm", "train/lr")
    return {
        "points": {key: {k: v.hex() for k, v in run.series(key).items()} for key in keys},
        "ids": {
            str(loop.step - i): ids
            for i, ids in enumerate(reversed(pairs(state.loader.given, num_micro)), start=1)
        },
        "digest": state.digest(),
    }


def pairs(given, size):
    return [given[i : i + size] for i in range(0, len(given), size)]
