"""A git project with three runs that have all that the screen of a run shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """\
import hashlib, math, sys, time
import expdb

MODULES = ("embed", "blocks.0.attn", "blocks.10.attn", "blocks.2.attn", "head")


def train(name, seed, lr, until=60, lives=False):
    cfg = {
        "exp": name, "seed": seed, "optim": {"lr": lr}, "data": {"name": "[red]実験"},
        "objective": {"metric": "val/loss"}, "expdb": {"noise": {"val/loss": 0.008}},
    }
    with expdb.start(cfg, name=name, store="runs") as run:
        for step in range(1, until + 1):
            loss = 1.8 + 3 * math.exp(-step / 9) + (2.0 if lr > 0.05 and step > 40 else 0.0)
            run.log({
                "train/loss": loss, "train/grad_norm": math.nan if step in (44, 45) else 1.0,
                "train/lr": lr, "train/tokens": step * 1000, "sys/cpu_pct": 60.0,
                "moe/負荷 [x]": 0.5, "data/batch": 7000 + step,
            }, step=step)
            run.log({f"layer/{m}/{s}": 0.1 * at + step / 100 for at, m in enumerate(MODULES)
                     for s in ("grad_norm", "act_rms")}, step=step)
            if step % 20 == 0:
                run.log({"val/loss": loss + 0.1}, step=step)
                run.log_text("sample/fox", f"the quick\\n\\tfox at {step} \\x1b[31m", step=step)
                for task in ("cloze", "arith", "facts"):
                    items = "sha256:" + hashlib.sha256(task.encode()).hexdigest()
                    score = 0.5 - (0.3 if lr > 0.05 and task == "cloze" else 0.0)
                    run.log_eval(task, {"acc": score, "chance": 0.25}, step=step, n=400,
                                 items=items)
        if lr > 0.05:
            run.event(41, "critical", "loss_spike", "train/loss 3.9 is 41 deviations up")
            run.event(44, "warn", "non_finite", "train/grad_norm is NaN")
        print("step 60  train/loss", loss, flush=True)
        control = run.control if lives else None
        while lives:
            asked = control.take(until)
            for verb in ("save", "stop"):
                if getattr(asked, verb):
                    control.finish(verb, until, f"did {verb}")
                    lives = verb != "stop"
            until += 1
            run.log({"train/loss": 1.8, "train/tokens": until * 1000}, step=until)
            time.sleep(0.02)


if __name__ == "__main__":
    what = sys.argv[1]
    if what == "live":
        train("exp09_live", 0, 0.003, lives=True)
    else:
        train("baseline", 0, 0.003)
        train("baseline", 1, 0.003)
        open("train.py", "a").write("# an edit\\n")
        train("exp03_lr_jump", 0, 0.1)
"""


def environment() -> dict[str, str]:
    """Return what a script of ours runs with."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def make_rich(folder: Path) -> None:
    """Make the project, and train in it."""
    (folder / "train.py").write_text(SCRIPT)
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    done = subprocess.run(
        [sys.executable, "train.py", "all"],
        cwd=folder, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(done.stderr)
