"""A project in git with declared experiments and their runs: `python lab.py [rich]` in its folder.

Runs are composed as training composes them, so that they count for what is declared: the script
has to lie in the project, as the files that it imports from a repository count too. Of `exp06_moe`
the declaration is edited afterwards, so that it is stale.
"""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from pathlib import Path

G = "# @package _global_\n"
SEEDS = "hydra: {sweeper: {params: {seed: '0,1,2'}}}\n"
SCRIPT = """\
import hydra


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg):
    clip = 1.0
    for update in range(cfg.steps):
        step(update, clip)


main()
"""
EXPERIMENTS = {
    "baseline": "",
    "exp01": "optim: {lr: 0.01}\n",
    "exp02_cosine": "schedule: cosine\n",
    "exp06_moe": "model: {gamma: 0.0}\n",
    "exp07_leak": "data: leak\n",
}
MORE = {
    "exp03_lr_jump": "optim: {lr: 0.02}\n",
    "exp04_bad_batch": "data: bad\n",
    "exp04_lr_low": "optim: {lr: 0.00003}\n",
    "exp05_overfit": "data: small\n",
    "exp08_wide": "model: {n_layer: 4}\n",
    "exp09_qk_norm": "model: {norm: qk}\n",
    "exp10_init_std": "model: {init: 0.2}\n",
    "実験11_日本語": "data: ja\n",
}
ENDS = {
    "baseline": 1.856, "exp01": 2.028, "exp02_cosine": 1.842, "exp06_moe": 1.859,
    "exp07_leak": math.nan, "exp03_lr_jump": 4.1, "exp04_bad_batch": 2.117, "exp04_lr_low": 3.11,
    "exp05_overfit": 2.91, "exp08_wide": 1.721, "exp09_qk_norm": 1.85, "exp10_init_std": 2.196,
    "実験11_日本語": 1.993,
}  # fmt: skip
TASKS = ("cloze", "brackets", "arith", "instr", "facts")


def git(top: Path, *words: str) -> None:
    """Run git in the project."""
    own = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *own, *words], cwd=top, check=True, capture_output=True)


def write(top: Path, name: str, text: str) -> None:
    """Write one file of the project."""
    path = top / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def lay_out(top: Path, experiments: dict[str, str]) -> None:
    """Write the files of the project, and commit them."""
    write(top, "train.py", SCRIPT)
    write(top, ".gitignore", "__pycache__/\n/runs/\n")
    write(
        top,
        "conf/train.yaml",
        "defaults: [_self_]\nseed: 0\nsteps: 300\ndata: pydoc\nschedule: multi_step\n"
        "optim: {lr: 0.003}\nmodel: {n_layer: 2, norm: none, init: 0.02, gamma: 0.001}\n"
        "objective: {metric: val/loss}\nexpdb: {noise: {val/loss: 0.008}}\n",
    )
    for name, text in experiments.items():
        write(top, f"conf/exp/{name}.yaml", G + text + SEEDS)
    git(top, "init", "-q", "-b", "main")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "first")


def save(run: object, step: int) -> None:
    """Save a checkpoint of a few bytes."""
    from expdb.store import checkpoints
    from expdb.store.layout import RunLayout

    layout = RunLayout(run.dir)
    folder = checkpoints.temp_dir(layout, step)
    folder.mkdir(parents=True)
    (folder / "model.pt").write_bytes(b"weights %d" % step)
    parts = {"model": {"file": "model.pt", "names": []}}
    checkpoints.seal(folder, checkpoints.Manifest(step=step, attempt=run.attempt, parts=parts))
    checkpoints.put_in_place(layout, step)


def train(name: str, seed: int, *, steps: int, stop: int | None = None) -> object:
    """Record one run; with `stop` it fails there. Return its handle."""
    from hydra import compose

    import expdb

    cfg = compose("train", overrides=[f"+exp={name}", f"seed={seed}"])
    draw = random.Random(f"{name} {seed}")
    end = ENDS[name]
    level = (end if math.isfinite(end) else 2.5) + draw.gauss(0, 0.008)
    run = expdb.start(cfg, name=name, store="runs")
    every = max(1, 300 // steps)
    for step in range(0, 300 + 1, every):
        loss = level - 0.2 + 5.0 * math.exp(-step / 35) + draw.gauss(0, 0.03)
        lr = cfg.optim.lr * (1 - step / 400)
        point = {"train/loss": loss, "train/grad_norm": 0.8 * loss, "train/lr": lr}
        run.log(point | {"train/tokens_per_s": 19_000 + draw.gauss(0, 60)}, step=step)
        if stop is not None and step >= stop:
            run.log({"val/loss": math.nan}, step=step)
            run.fail("the loss is NaN")
            return run
    run.log({"val/loss": level, "val/ppl": math.exp(level)}, step=300)
    for at, task in enumerate(TASKS):
        acc = max(0.05, min(0.99, 0.45 + 0.12 * at - 0.3 * (level - 1.85) + draw.gauss(0, 0.004)))
        items = "sha256:" + f"{at:02d}" * 32
        run.log_eval(task, {"acc": acc}, step=300, n=500, items=items)
    save(run, 300)
    run.finish()
    return run


def main(top: Path, *, is_rich: bool) -> None:
    """Make all of it."""
    experiments = EXPERIMENTS | (MORE if is_rich else {})
    lay_out(top, experiments)
    os.chdir(top)
    from hydra import initialize_config_dir

    steps = 300 if is_rich else 20
    seeds = {"baseline": 3, "exp01": 3, "exp02_cosine": 2, "exp06_moe": 1}
    seeds |= {name: 3 for name in ("exp04_lr_low", "exp08_wide", "exp10_init_std")}
    with initialize_config_dir(str(top / "conf"), version_base="1.3"):
        first = None
        for name in filter(str.isascii, experiments):
            if name == "exp01":
                clip = "clip = cfg.clip\n    warm = 30"
                write(top, "train.py", SCRIPT.replace("clip = 1.0", clip))
                git(top, "commit", "-qam", "clip by the config")
            count = seeds.get(name, 1)
            for seed in range(count):
                run = train(name, seed, steps=steps, stop=143 if name == "exp07_leak" else None)
                first = first or run
            if name == "baseline":
                name_runs(top, first.id)
    name_runs(top, None)
    if is_rich:
        go_further(top)
    write(top, "conf/exp/exp06_moe.yaml", G + "model: {gamma: 0.01}\n" + SEEDS)


def go_further(top: Path) -> None:
    """Train on from one of the runs: two generations more, and some operations."""
    from hydra import initialize_config_dir

    with initialize_config_dir(str(top / "conf"), version_base="1.3"):
        expdb_(top, "label", "exp01", "keep")
        expdb_(top, "rollback", "exp08_wide:s0", "-y")
        train("exp09_qk_norm", 1, steps=300)
        train("exp05_overfit", 1, steps=300)
        expdb_(top, "undo")
        expdb_(top, "rollback", "exp08_wide:s1", "-y")


def name_runs(top: Path, baseline: str | None) -> None:
    """Make a run the baseline; without one, give the first seed of `exp02_cosine` a name."""
    from expdb.actions.baseline import set_baseline
    from expdb.actions.tag import add_tag
    from expdb.git.worktree import find_worktree
    from expdb.index.reader import open_reader
    from expdb.query.lookup import lookup
    from expdb.store.store import open_store

    worktree = find_worktree(top)
    with open_reader(open_store(top / "runs")) as reader:
        if baseline is not None:
            set_baseline(reader, lookup(reader, baseline), worktree=worktree)
        else:
            found = lookup(reader, "exp02_cosine:s0")
            add_tag(reader, "paper-v1", found, worktree=worktree, declared=[])


def expdb_(top: Path, *words: str) -> None:
    """Run a verb in the project."""
    start = "from expdb.cli.start import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", start, *words], cwd=top, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)


if __name__ == "__main__":
    main(Path.cwd(), is_rich="rich" in sys.argv[1:])
