"""`python -m tests.monitor.record_series [NAME ...]`: trains the demo once for each case, with its
fault, and keeps what the rules look at in tests/monitor/series. About a minute a case.

Times are CPU time, to which the slow loader adds what it waits; tokens/s are not kept, as they
would say what else ran on the machine.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
CASES: dict[str, list[str]] = {
    "baseline": ["+exp=baseline"],
    "exp01": ["+exp=exp01"],
    "lr_jump": ["+exp=exp03_lr_jump"],
    "bad_batch": ["+exp=exp04_bad_batch"],
    "overfit": ["+exp=exp05_overfit", "loop.eval_every=10"],
    "leak": ["+exp=baseline"],
    "moe": ["+exp=exp06_moe", "model.gamma=0"],
    "init": ["+exp=baseline", "model.init_std=0.3"],
    "dead": ["+exp=baseline"],
    "slow": ["+exp=baseline"],
}
LATE_S = 0.05
SPEED = "train/tokens_per_s"


def unshifted() -> None:
    """Train on labels at the place of their input; validation stays as it is."""
    from expdb.demo import evaluate, loss
    from expdb.track import lm

    assert evaluate.lm_loss is loss.lm_loss

    def wrong(model: Any, batch: Any, observe: Any = None) -> Any:
        tokens = batch["tokens"][:, :-1]
        logits = model(tokens)
        if observe is not None:
            observe(logits, tokens)
        nll, num = lm.lm_loss(logits, tokens, shift=False)
        return nll, int(num)

    loss.lm_loss = wrong


def dead_units() -> None:
    """Give every layer an MLP with ReLU whose units are switched off by a bias of -10."""
    import torch
    from torch import nn

    from expdb.demo import build

    made = build.build_model

    def with_dead(config: Any, **given: Any) -> Any:
        model = made(config, **given)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(given["seed"])
            for block in model.blocks:
                up, down = nn.Linear(config.d, config.hidden), nn.Linear(config.hidden, config.d)
                for layer in (up, down):
                    nn.init.normal_(layer.weight, std=config.init_std)
                nn.init.constant_(up.bias, -10.0)
                nn.init.zeros_(down.bias)
                block.mlp = nn.Sequential(up, nn.ReLU(), down)
        return model

    build.build_model = with_dead


def slow_loader() -> None:
    """Let every batch take 50 ms, by a clock that knows of nothing else than this process."""
    import time

    from expdb.demo.batches import ByteBatches

    following, slept = ByteBatches.__next__, [0.0]

    def late(self: Any) -> Any:
        time.sleep(LATE_S)
        slept[0] += LATE_S
        return following(self)

    ByteBatches.__next__ = late  # type: ignore[method-assign]
    by_clock(lambda: time.process_time() + slept[0])


def own_time() -> None:
    """Measure in CPU time of this process, so that what else runs beside it is not recorded."""
    import time

    by_clock(time.process_time)


def by_clock(clock: Callable[[], float]) -> None:
    """Let the loop measure by another clock than its own."""
    from expdb.track.loop import Loop

    defaults = Loop.__init__.__kwdefaults__
    assert defaults is not None
    defaults["clock"] = clock


FAULTS: dict[str, tuple[Callable[[], None], ...]] = {
    "leak": (own_time, unshifted),
    "dead": (own_time, dead_units),
    "slow": (slow_loader,),
}


def train(name: str, store: str) -> None:
    """Train a case in this process."""
    for change in FAULTS.get(name, (own_time,)):
        change()
    given = ["loop.cloze_items=100", f"expdb.store={store}", "expdb.dirty=allow"]
    sys.argv = ["train.py", *CASES[name], *given, "expdb.print=quiet"]
    runpy.run_path(str(TOP / "train.py"), run_name="__main__")


def keep(name: str, store: Path) -> str:
    """Keep what the rules of today look at in the newest run of a store; return what they found."""
    from expdb.monitor.rules import build_rules
    from expdb.query.replay import frames_of, replay
    from expdb.store.layout import RunLayout
    from tests.monitor import series_files

    [run] = [path.parent for path in store.glob("exp=*/run=*/run.json")]
    again = replay(run)
    assert again.is_equal, "the rules find something else in the records than in training"
    rules = build_rules(None)
    named = {"train/lr", *(key for rule in rules for key in rule.named)}
    calls = []
    for frame in frames_of(RunLayout(run), rules, []):
        pairs = [
            (key, value)
            for key, value in zip(frame.keys, frame.values, strict=True)
            if key != SPEED and (key in named or any(rule.takes(key) for rule in rules))
        ]
        if pairs:
            keys, values = zip(*pairs, strict=True)
            calls.append(series_files.Call(frame.step, frame.time_ms, keys, values))
    series_files.write(series_files.FOLDER / f"{name}.parquet", calls)
    found = {f"{one.rule} {one.severity} {one.step}" for one in again.events}
    return f"{name}: {len(calls):,} calls; {', '.join(sorted(found)) or 'nothing'}"


def main() -> int:
    """Record the cases named, or all."""
    if sys.argv[1:2] == ["--train"]:
        train(*sys.argv[2:4])
        return 0
    for name in sys.argv[1:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / "runs"
            words = [sys.executable, "-m", "tests.monitor.record_series", "--train", name]
            env = {**os.environ, "OMP_NUM_THREADS": "1"}
            subprocess.run([*words, str(store)], cwd=TOP, env=env, check=True)
            sys.stdout.write(f"{keep(name, store)}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
