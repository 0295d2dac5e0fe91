"""What `log()` costs inside one process: run as the script of a process of its own by `write_path`.

tight   20,000 calls one after the other, the time of each
paced   between steps of 10 ms, whose work throws the call's code out of the caches
whole   start to finish, and the CPU of log and finish against `once`
bytes   with steps of 100 +- 3 ms by the clock that `log` reads
watch   the rules that watch by default, called as the loop calls them
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench import data

METRICS: Final = 10
STEP_S: Final = 0.01
RUN: Final = "r0000"


def main() -> None:
    """Answer one job in a line of JSON."""
    job = json.loads(sys.argv[1])
    answer = JOBS[job["kind"]](Path(job["store"]), job["steps"], job.get("float", "d"))
    os.write(1, json.dumps(answer).encode() + b"\n")


def start(store: Path, name: str = RUN) -> Any:
    """Start a run that prints nothing."""
    import expdb

    return expdb.start({"expdb": {"print": "quiet"}, "lr": 0.1}, name=name, store=store)


def values(steps: int, kind: str) -> list[dict[str, float]]:
    """Return what is logged, as float64 or rounded to float32."""
    rows = data.rows(RUN, data.metric_names(METRICS), steps)
    if kind == "d":
        return rows
    return [dict(zip(row, array("f", row.values()), strict=True)) for row in rows]


def tight(store: Path, steps: int, kind: str) -> dict[str, float]:
    """Time each call of a loop that does nothing else."""
    rows, run, clock = values(steps, kind), start(store), time.perf_counter_ns
    taken: list[int] = []
    note, log = taken.append, run.log
    for step, row in enumerate(rows):
        before = clock()
        log(row, step)
        note(clock() - before)
    run.finish()
    taken.sort()
    return {"p50_us": taken[len(taken) // 2] / 1e3, "p99_us": taken[int(len(taken) * 0.99)] / 1e3}


def paced(store: Path, steps: int, kind: str) -> dict[str, float]:
    """Return the share of `log` in steps of at least 10 ms of work on arrays."""
    import numpy as np

    rows, run, clock = values(steps, kind), start(store), time.perf_counter
    matrix = np.random.default_rng(0).normal(size=(200, 200))
    inside, began = 0.0, clock()
    for step, row in enumerate(rows):
        until = clock() + STEP_S
        while clock() < until:
            matrix @ matrix
        before = clock()
        run.log(row, step)
        inside += clock() - before
    whole = clock() - began
    run.finish()
    return {"share_pct": inside / whole * 100, "us": inside / steps * 1e6}


def whole(store: Path, steps: int, kind: str) -> dict[str, float]:
    """Return the wall time from start to finish, and the CPU against writing the table once."""
    rows = values(steps, kind)
    once(store.with_name("warm.parquet"), rows)  # imports what both need
    start(store, "warm").finish()
    began = time.perf_counter()
    run = start(store)
    started, cpu = time.perf_counter(), time.process_time()
    for step, row in enumerate(rows):
        run.log(row, step)
    logged = time.process_time()
    run.finish()
    finished, wall = time.process_time(), time.perf_counter() - began
    before = time.process_time()
    once(store.with_name("once.parquet"), rows)
    single = time.process_time() - before
    return {
        "wall_s": wall,
        "start_s": started - began,
        "log_cpu_us": (logged - cpu) / steps * 1e6,
        "finish_cpu_s": finished - logged,
        "once_cpu_s": single,
        "cpu_ratio": (finished - cpu) / single,
    }


def once(path: Path, rows: list[dict[str, float]]) -> None:
    """Collect the same values in lists and write one table, with the encodings of a sealed part."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    kept: list[tuple[int, int, tuple[float, ...]]] = []
    for step, row in enumerate(rows):
        kept.append((step, time.time_ns() // 1_000_000, tuple(row.values())))
    names, num = list(rows[0]), len(kept)
    steps = np.array([step for step, _, _ in kept])
    times = np.array([moment for _, moment, _ in kept])
    table = np.array([item for _, _, item in kept])
    codes = np.repeat(np.arange(len(names), dtype=np.int32), num)
    columns = {
        "key": pa.DictionaryArray.from_arrays(codes, pa.array(names)),
        "step": np.tile(steps, len(names)),
        "time": np.tile(times, len(names)),
        "value": table.T.ravel(),
        "attempt": np.ones(num * len(names), np.int32),
        "rank": np.zeros(num * len(names), np.int32),
        "seq": np.tile(steps, len(names)),
    }
    packed = "DELTA_BINARY_PACKED"
    pq.write_table(
        pa.table(columns),
        path,
        compression="zstd",
        use_dictionary=["key", "attempt", "rank"],
        column_encoding={
            "step": packed, "time": packed, "seq": packed, "value": "BYTE_STREAM_SPLIT",
        },
        write_statistics=[name for name in columns if name != "value"],
        write_page_checksum=True,
    )  # fmt: skip
    with path.open("rb") as file:
        os.fsync(file.fileno())


def bytes_a_point(store: Path, steps: int, kind: str) -> dict[str, float]:
    """Return the bytes of all files of the run, by point."""
    rows, clock = values(steps, kind), _Clock()
    time.time_ns = clock.now_ns
    run = start(store)
    for step, row in enumerate(rows):
        clock.pass_step()
        run.log(row, step)
    run.finish()
    size = sum(path.stat().st_size for path in run.dir.rglob("*") if path.is_file())
    return {"bytes_a_point": size / (steps * METRICS)}


class _Clock:
    """A clock that a step of 100 +- 3 ms moves on."""

    def __init__(self) -> None:
        self._ms, self._draw = time.time_ns() // 1_000_000, random.Random(1).gauss

    def now_ns(self) -> int:
        return self._ms * 1_000_000

    def pass_step(self) -> None:
        self._ms += round(self._draw(100, 3))


def watch(store: Path, steps: int, kind: str) -> dict[str, float]:
    """Return the CPU of the default rules, in percent of steps of 10 ms."""
    rows, run = values(steps, kind), start(store)
    before = time.thread_time()
    for step, row in enumerate(rows):
        run._watching.see(step, tuple(row), tuple(row.values()), step)
    spent = time.thread_time() - before
    run.finish()
    return {"share_pct": spent / (steps * STEP_S) * 100}


JOBS: Final[dict[str, Callable[[Path, int, str], dict[str, float]]]] = {
    "tight": tight,
    "paced": paced,
    "whole": whole,
    "bytes": bytes_a_point,
    "watch": watch,
}
