"""A tiny training in which every saved item has a say, and a script that runs it by `expdb.start`.

What says it: dropout (torch's generator), a jitter of `random`, of numpy, and of two generators of
one's own, the order and the place of the loader, a buffer of the model, the bias and the load of a
router, AdamW with its step, a schedule, a gradient scaler that grows until updates are skipped,
averaged weights in the evaluation, and the loop's counters, which are logged.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import expdb
from expdb.demo import moe

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
VOCAB, LENGTH, WINDOWS = 17, 12, 30
STEPS = 40
BALANCE_EVERY = 7
"""The load of a router is not zero at a checkpoint between two balancings."""
LOADED = (
    "pyarrow.compute", "yaml", "expdb.track.start", "expdb.track.loop", "expdb.track.checkpoint",
    "expdb.track.resume", "expdb.track.hist", "expdb.track.media", "expdb.store.seal",
    "expdb.store.parts", "expdb.store.recover", "expdb.store.points", "expdb.store.media_parts",
    "expdb.store.protected",
)  # fmt: skip


class TinyMoe(nn.Module):
    """One layer of attention with dropout and a mixture of experts."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.drop = nn.Dropout(0.1)
        self.mlp = moe.MixtureMlp(
            moe.MoeConfig(
                d=width, heads=2, layers=2, experts=4, top_k=2, expert_hidden=8, gamma=0.03
            )
        )
        self.head = nn.Linear(width, VOCAB)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.drop(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        if self.training:
            self.seen += 1
        return self.head(x + self.mlp(x)) * (1 + self.seen / 4096)


class Rows(torch.utils.data.Dataset):
    """Windows of text by number, with how many of their tokens count."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(5)
        self.windows = torch.randint(0, VOCAB, (WINDOWS, LENGTH + 1), generator=generator)

    def __len__(self) -> int:
        return WINDOWS

    def __getitem__(self, number: int) -> tuple[int, Tensor, int]:
        return number, self.windows[number], 3 + number % (LENGTH - 2)


class Loader:
    """Epochs in an order of its own, through torch's DataLoader; knows what was handed out.

    Workers fetch ahead, so the place is counted here and not by the sampler.
    """

    def __init__(self, workers: int, seed: int) -> None:
        self.rows, self.workers = Rows(), workers
        self.generator = torch.Generator().manual_seed(seed)
        self.order: list[int] = []
        self.at = 0

    def __iter__(self) -> Any:
        if not self.order:
            self.order = torch.randperm(WINDOWS, generator=self.generator).tolist()
        left = [[number] for number in self.order[self.at :]]
        loader = torch.utils.data.DataLoader(
            self.rows, batch_sampler=left, num_workers=self.workers
        )
        # At once and not with the first batch: this draws a seed from the global generator.
        return self._hand_out(iter(loader))

    def _hand_out(self, batches: Any) -> Any:
        for batch in batches:
            self.at += 1
            yield batch
        self.order, self.at = [], 0

    def state_dict(self) -> dict[str, Any]:
        return {"order": self.order, "at": self.at, "generator": self.generator.get_state()}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.order, self.at = list(saved["order"]), saved["at"]
        self.generator.set_state(saved["generator"])


def build(*, workers: int = 0, seed: int = 1, scaled: bool = True) -> expdb.State:
    """Return everything that a checkpoint holds, as a process makes it that knows the seed only."""
    torch.manual_seed(seed)
    model = TinyMoe()
    optim = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    averaged = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=3)
    return expdb.State(
        model=model,
        optim=optim,
        sched=torch.optim.lr_scheduler.LambdaLR(optim, lambda k: min(1.0, (k + 1) / 30)),
        scaler=scaler if scaled else None,
        ema=averaged,
        loader=Loader(workers, seed),
        extra={
            "noise": torch.Generator().manual_seed(seed),
            "more": np.random.default_rng(seed),
            "phase": {"name": "warm", "n": seed},
        },
    )


def evaluator(state: expdb.State) -> Any:
    """Return an evaluation of the averaged weights that draws from every generator on the way."""
    rows = torch.randint(0, VOCAB, (4, LENGTH + 1), generator=torch.Generator().manual_seed(6))

    def evaluate(step: int) -> dict[str, float]:
        torch.rand(7), random.random(), np.random.rand(3)
        averaged = state.emas[""].eval()
        logits = averaged(rows[:, :-1]).flatten(0, 1)
        loss = F.cross_entropy(logits, rows[:, 1:].flatten())
        return {"val/loss": float(loss), "val/made": float(-abs(step - 10))}

    return evaluate


def update_once(state: expdb.State, update: Any) -> int:
    """Do one update; return its batches as one number."""
    batches = 0
    model = state.models[""]
    for number, window, num_valid in update:
        batches = batches * WINDOWS + int(number)
        with update.autocast():
            logits = model(window[:, :-1]).flatten(0, 1).float()
        nll = F.cross_entropy(logits, window[:, 1:].flatten(), reduction="none")
        noise = float(torch.rand((), generator=state.extra["noise"])) + state.extra["more"].random()
        jitter = 1 + 0.01 * (random.random() + np.random.rand() + noise)
        n = int(num_valid)
        update.backward(nll[:n].sum() * jitter, n)
    update.step()
    return batches


def counted(state: expdb.State) -> dict[str, float]:
    """Return what is counted along the way."""
    router = state.models[""].mlp.router
    scale = {} if state.scaler is None else {"train/scale": state.scaler.get_scale()}
    return {"train/load": router.load_E.max().item(), **scale}


def train(job: dict[str, Any]) -> None:
    """Train as `job` says, from nothing or from where a run stopped; its end is in `<out>`.

    Keys: store, out, seed (of this process), resume (run id), workers, accum, eval_every, watched
    (monitors on), scaled, goal, and signal with the update `at` after which it comes: when the
    checkpoints before it are in place, or with `at_once` whatever is being written.
    """
    seed = job["seed"]
    random.seed(seed)
    np.random.seed(seed)
    state = build(workers=job.get("workers", 0), seed=seed, scaled=job.get("scaled", True))
    torch.manual_seed(seed + 1)
    watched, every = job.get("watched", True), job.get("eval_every", 10)
    watch = {
        "enabled": watched, "budget_pct": 0, "every": 5, "rare_every": 20, "histograms": True,
    }  # fmt: skip
    settings = {
        "watch": watch,
        "keep": {"last": None},
        "monitor": {} if watched else False,
        "print": "quiet",
    }
    run = expdb.start(
        {"seed": 1, "accum": job.get("accum", 2), "expdb": settings},
        name="tiny",
        store=job["store"],
        objective={"metric": "val/made", "mode": "max"},
        resume=job.get("resume"),
    )
    loop = expdb.Loop(
        run,
        state,
        max_steps=job.get("goal", STEPS),
        accum=job.get("accum", 2),
        precision="fp16" if job.get("scaled", True) else "fp32",
        clip=1.0,
        eval_every=every or None,
        evaluate=evaluator(state) if every else None,
        save_every=10,
    )
    Path(job["out"]).write_text(json.dumps({"run": run.id}))
    with run:
        for update in loop:
            batches = update_once(state, update)
            step = update.step_number
            run.log({"data/batches": batches, **counted(state)}, step=step)
            if loop.step % BALANCE_EVERY == 0:
                moe.balance(state.models[""])
            if watched:
                run.log_hist("layer/head", state.models[""].head.weight, step=step)
            if loop.step == job.get("at"):
                if not job.get("at_once"):
                    run.settle(wait=True)  # so that it is known which checkpoint is the last
                os.kill(os.getpid(), getattr(signal, job["signal"]))
    end = {"run": run.id, "digest": state.digest(), "weights": weights_digest(state)}
    Path(job["out"]).write_text(json.dumps(end))


def weights_digest(state: expdb.State) -> str:
    """Return the SHA-256 of the weights and of what the optimizer and the averaging hold."""
    from expdb.track.plain import digest_of

    parts = state.collect()
    return digest_of({name: parts[name].tree for name in ("model", "optim", "ema", "sched")})


def in_a_child(job: dict[str, Any]) -> int:
    """Train in a forked process and return how it ended: exit status, or minus the signal."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            train(job)
            status = 0
        except SystemExit as stop:
            status = int(stop.code or 0)
        except expdb.ExpdbError as error:
            Path(job["out"]).write_text(json.dumps({"refused": error.message}))
            status = error.exit_code
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    # What a training loads on its way is loaded before the forks.
    evaluator(build())(0)
    for name in LOADED:
        importlib.import_module(name)
    sys.stdout.write(json.dumps([in_a_child(one) for one in json.loads(sys.argv[1])]))
