"""The same project each time, to compare pictures of it: `python fixed.py` in its folder.

Ids come from a seed, the clock is moved by hand, and git is told the time, so that whatever stands
on a screen is the same wherever it is made. It has what each screen shows: seeds, a stale cell, one
run that still trains, failures, events, layers, samples, evals, names in Chinese, Japanese, Arabic
and emoji, generations and operations. `lab_project.py` has to lie beside it.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
import sys
import time
from pathlib import Path
from types import SimpleNamespace

EPOCH_MS = 1_795_000_000_000
NOW_MS = EPOCH_MS + 7 * 3_600_000
"""When the pictures are taken."""
NAMES = {
    "exp11_日本語の実験": "data: ja\n",
    "实验12_学习率": "optim: {lr: 0.002}\n",
    "exp13_🚀_rocket": "schedule: cosine\n",
}
ODD = ("تجربة ١٤", "family 👩‍👩‍👧‍👦 run", "tab\tand \x1b[31mred\x1b[0m")
MODULES = (
    "embed", "blocks.0.attn", "blocks.0.mlp", "blocks.1.attn", "blocks.1.mlp", "blocks.2.attn",
    "blocks.2.mlp", "norm", "head",
)  # fmt: skip
LIVE = "exp06_moe"


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.ms = EPOCH_MS

    def time_ns(self) -> int:
        """Return the time in nanoseconds."""
        return self.ms * 1_000_000

    def time(self) -> float:
        """Return the time in seconds."""
        return self.ms / 1e3


def fix(clock: Clock) -> None:
    """Take the clock and the seed, before anything of ours is imported."""
    time.time_ns, time.time = clock.time_ns, clock.time
    draw = random.Random(7)
    from expdb.store import ids

    ids.os = SimpleNamespace(urandom=draw.randbytes)
    for name in ("AUTHOR", "COMMITTER"):
        os.environ[f"GIT_{name}_DATE"] = f"{EPOCH_MS // 1000} +0000"
        os.environ[f"GIT_{name}_NAME"] = "T"
        os.environ[f"GIT_{name}_EMAIL"] = "t@example.org"


def train(clock: Clock, name: str, seed: int, *, until: int = 300, end: str = "") -> object:
    """Record one run, with `end` as `failed`, `spike` or `live`."""
    import lab
    from hydra import compose

    import expdb

    clock.ms += 400_000
    if name in ODD:
        noise = {"noise": {"val/loss": 0.008}, "print": "quiet"}
        cfg = {"seed": seed, "objective": {"metric": "val/loss"}, "expdb": noise}
    else:
        words = [f"+exp='{name}'", f"seed={seed}", "+expdb.print=quiet"]
        cfg = compose("train", overrides=words)
    draw = random.Random(f"{name} {seed}")
    level = LEVELS.get(name, 2.4) + draw.gauss(0, 0.008)
    run = expdb.start(cfg, name=name, store="runs")
    run.console.max_steps = 300
    for step in range(0, until + 1, 4):
        clock.ms += 330
        loss = level - 0.2 + 5.0 * math.exp(-step / 35) + draw.gauss(0, 0.03)
        loss += 2.0 * math.exp(-((step - 150) ** 2) / 90) if end == "spike" else 0.0
        point = {"train/loss": loss, "train/grad_norm": 0.8 * loss, "train/lr": 3e-3 - step * 8e-6}
        point["train/tokens"] = step * 4096
        if name == "baseline" and step in (96, 100):
            point["train/grad_norm"] = math.nan
        run.log(point | {"train/tokens_per_s": 19_000 + draw.gauss(0, 60)}, step=step)
        if name in ("baseline", LIVE):
            grown = {
                f"layer/{module}/{stat}": 0.1 * (at + 1) + step / 200 + draw.random() / 20
                for at, module in enumerate(MODULES)
                for stat in ("grad_norm", "act_rms")
            }
            run.log({**grown, "sys/cpu_pct": 60.0 + draw.random(), "sys/mem_gb": 1.4}, step=step)
        if step and step % 100 == 0:
            run.log({"val/loss": level + 30 / step - 0.1, "val/ppl": math.exp(level)}, step=step)
            run.log_text(
                "sample/fox", f"the quick brown fox at {step}: 狐は犬を跳び越えた", step=step
            )
            evaluate(run, lab.TASKS, level, step, draw)
    if end == "spike":
        run.event(150, "critical", "loss_spike", "train/loss 4.1 is 41 deviations up")
        run.event(150, "warn", "divergence", "train/loss above its start for 9 steps")
        run.event(176, "warn", "grad_norm", "train/grad_norm 3.3 is 9 times its median")
    if end == "failed":
        run.log({"val/loss": math.nan}, step=until)
        run.event(until, "critical", "non_finite", "val/loss is NaN")
        run.fail("the loss is NaN")
    elif end != "live":
        lab.save(run, until)
        run.finish()
    return run


LEVELS = {
    "baseline": 1.856, "exp01": 2.028, "exp02_cosine": 1.842, LIVE: 1.859, "exp07_leak": 2.5,
    "exp03_lr_jump": 3.1, "exp11_日本語の実験": 1.993,
    "实验12_学习率": 1.851, "exp13_🚀_rocket": 1.72,
}  # fmt: skip


def evaluate(run, tasks, level: float, step: int, draw: random.Random) -> None:
    """Record the benchmarks at a step."""
    for at, task in enumerate(tasks):
        acc = max(0.05, min(0.99, 0.4 + 0.1 * at - 0.3 * (level - 1.85) + draw.gauss(0, 0.004)))
        items = "sha256:" + hashlib.sha256(task.encode()).hexdigest()
        run.log_eval(task, {"acc": acc, "chance": 0.25}, step=step, n=500, items=items)


def main(top: Path) -> None:
    """Make all of it; the last run is left as it trains."""
    clock = Clock()
    fix(clock)
    import lab
    from hydra import initialize_config_dir

    experiments = lab.EXPERIMENTS | {"exp03_lr_jump": "optim: {lr: 0.02}\n"} | NAMES
    lab.lay_out(top, experiments)
    os.chdir(top)
    with initialize_config_dir(str(top / "conf"), version_base="1.3"):
        first = train(clock, "baseline", 0)
        lab.name_runs(top, first.id)
        for seed in (1, 2):
            train(clock, "baseline", seed)
        lab.write(top, "train.py", lab.SCRIPT.replace("clip = 1.0", "clip = cfg.clip"))
        lab.git(top, "commit", "-qam", "clip by the config")
        for name in ("exp01", "exp02_cosine"):
            for seed in (0, 1):
                train(clock, name, seed)
        clock.ms += 1000
        lab.name_runs(top, None)
        train(clock, "exp03_lr_jump", 0, end="spike")
        train(clock, "exp07_leak", 0, until=144, end="failed")
        for name in (*NAMES, *ODD):
            train(clock, name, 0)
        go_back(clock, top, first.id)
        train(clock, "exp13_🚀_rocket", 1)
        lab.write(top, "conf/exp/exp01.yaml", lab.G + "optim: {lr: 0.02}\n" + lab.SEEDS)
        live = train(clock, LIVE, 0, until=212, end="live")
    live.settle(wait=True)
    live._save_status()
    sys.stdout.flush()
    os._exit(0)  # as a run that still trains leaves its files


def go_back(clock: Clock, top: Path, run: str) -> None:
    """Go back to a run, in the work tree."""
    from expdb.actions.rollback import execute, prepare
    from expdb.git.worktree import find_worktree
    from expdb.index.reader import open_reader
    from expdb.store.store import open_store

    clock.ms += 60_000
    worktree = find_worktree(top)
    with open_reader(open_store(top / "runs")) as reader:
        execute(reader, worktree, prepare(reader, worktree, run))


if __name__ == "__main__":
    main(Path.cwd())
