"""A series of a million points to what a plot draws; the script of a process of its own."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.bars.log_loop import start

WIDTH: Final = 240
KEY: Final = "train/loss"


def main() -> None:
    """Log the series, then draw it several times; answer in a line of JSON."""
    import numpy as np

    job = json.loads(sys.argv[1])
    store, num = Path(job["store"]), job["points"]
    run = start(store)
    values = 2 + 3 / np.sqrt(1 + np.arange(num)) + np.random.default_rng(0).normal(0, 0.1, num)
    for step, value in enumerate(values.tolist()):
        run.log({KEY: value}, step)
    run.finish()
    answer: dict[str, Any] = {"right": True}
    drawn = _times(run.dir, job["reps"], values, answer, is_raw=False)
    answer["curve_ms"], answer["curve_cpu_ms"] = drawn
    answer["curve_bytes"] = (run.dir / "curves.parquet").stat().st_size
    (run.dir / "curves.parquet").unlink()
    answer["raw_ms"], answer["raw_cpu_ms"] = _times(
        run.dir, job["reps"], values, answer, is_raw=True
    )
    answer["read_ms"] = _read(run.dir, job["reps"])
    os.write(1, json.dumps(answer).encode() + b"\n")


def _times(
    folder: Path, reps: int, values: Any, answer: dict[str, Any], *, is_raw: bool
) -> tuple[list[float], list[float]]:
    """Draw the series several times; return wall times and CPU times, and check each answer."""
    from expdb.query.curve import curve

    found, walls, cpus = None, [], []
    for _ in range(reps + 1):
        began, cpu = time.perf_counter(), time.process_time()
        found = curve(folder, KEY, width=WIDTH)
        cpus.append((time.process_time() - cpu) * 1e3)
        walls.append((time.perf_counter() - began) * 1e3)
        answer["right"] &= found.is_raw == is_raw and _is_right(found, values)
    return walls[1:], cpus[1:]


def _is_right(found: Any, values: Any) -> bool:
    """Tell whether each column has the least and greatest of the values between its steps."""
    import numpy as np

    first = found.first_step
    low, high = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
    is_whole = found.num_points == len(values) and len(first) == WIDTH
    return bool(is_whole and (found.lo == low).all() and (found.hi == high).all())


def _read(folder: Path, reps: int) -> list[float]:
    """Return the times of reading the series as a table."""
    from expdb.store.points import read_series

    return [_timed(lambda: read_series(folder, [KEY])) for _ in range(reps + 1)][1:]


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3
