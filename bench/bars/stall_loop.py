"""A training loop that fills a million points, and how long its steps take while they are sealed.

Run as the script of a process of its own by `sealing`.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Final

from bench.bars.log_loop import METRICS, start, values

SEAL_POINTS: Final = 1_000_000
BASE: Final = 100
WINDOW: Final = 500


def main() -> None:
    """Answer in one line of JSON."""
    import numpy as np

    job = json.loads(sys.argv[1])
    run, rows = start(Path(job["store"])), values(1_000, "d")
    matrix = np.random.default_rng(0).normal(size=(300, 300)).astype(np.float32)
    first = SEAL_POINTS // METRICS - BASE
    for step in range(first):
        run.log(rows[step % len(rows)], step)

    def steps(start_at: int, num: int) -> list[float]:
        taken = []
        for step in range(start_at, start_at + num):
            began = time.perf_counter()
            for _ in range(6):
                matrix @ matrix
            run.log(rows[step % len(rows)], step)
            taken.append(time.perf_counter() - began)
        return taken

    steps(first, BASE - 10)  # the last few before the part is full
    is_sealed_before = bool(_parts(run.dir))
    beside = steps(first + BASE - 10, WINDOW)
    until = time.monotonic() + 60
    while not _parts(run.dir) and time.monotonic() < until:
        time.sleep(0.01)
    is_sealed = bool(_parts(run.dir))
    without = steps(first + BASE + WINDOW, WINDOW)
    answer: dict[str, Any] = {
        "stall_ms": (_over(beside) - _over(without)) * 1e3,
        "without_ms": _over(without) * 1e3,
        "median_ms": statistics.median(without) * 1e3,
        "worst_ms": max(beside) * 1e3,
        "sealed": is_sealed and not is_sealed_before,
    }
    run.finish()
    os.write(1, json.dumps(answer).encode() + b"\n")


def _over(taken: list[float]) -> float:
    middle = statistics.median(taken)
    return sum(step - middle for step in taken)


def _parts(folder: Path) -> list[Path]:
    return list(folder.glob("points/part-*.parquet"))
