"""A series of a million points to what a plot draws; the script of a process of its own."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Final

from bench.bars.log_loop import start

BUCKETS: Final = 240


def main() -> None:
    """Log the series, then read it several times; answer in a line of JSON."""
    import numpy as np

    from expdb.store.points import read_series

    job = json.loads(sys.argv[1])
    store, num = Path(job["store"]), job["points"]
    run = start(store)
    values = 2 + 3 / np.sqrt(1 + np.arange(num)) + np.random.default_rng(0).normal(0, 0.1, num)
    for step, value in enumerate(values.tolist()):
        run.log({"train/loss": value}, step)
    run.finish()
    raw, read = [], []
    for _ in range(job["reps"] + 1):
        began = time.perf_counter()
        table = read_series(run.dir, ["train/loss"])
        taken = time.perf_counter()
        found = table["value"].to_numpy()
        edges = np.linspace(0, len(found), BUCKETS + 1).astype(int)[:-1]
        low, high = np.minimum.reduceat(found, edges), np.maximum.reduceat(found, edges)
        raw.append((time.perf_counter() - began) * 1e3)
        read.append((taken - began) * 1e3)
    right = len(found) == num and low.min() == values.min() and high.max() == values.max()
    answer = {
        "raw_ms": raw[1:],
        "read_ms": read[1:],
        "right": bool(right),
        "curve": (run.dir / "curves.parquet").exists(),
    }
    os.write(1, json.dumps(answer).encode() + b"\n")
