"""What `log()` costs: time a call, bytes a point, CPU against writing the same table once.

    python -m bench.log_cost [--steps 20000] [--keys 10]

Figures go to stdout as JSON; docs/log.md keeps the ones that were looked at.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from expdb.store import attempts
from expdb.store.layout import RunLayout
from expdb.store.parts import Column, build_table, write_part
from expdb.store.recorder import Recorder


def cpu_s() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime


def curves(steps: int, keys: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    base = 2.0 + 3.0 / np.sqrt(1.0 + np.arange(steps))[:, None]
    return (base + rng.normal(0, 0.1, (steps, keys))).astype(np.float32).astype(np.float64)


def times_ms(steps: int) -> list[int]:
    gaps = np.random.default_rng(1).normal(100, 3, steps).round().astype(np.int64)
    return (1_700_000_000_000 + np.cumsum(gaps)).tolist()


def recorded(
    folder: Path, names: tuple[str, ...], rows: list[tuple[float, ...]]
) -> dict[str, float]:
    layout = RunLayout(folder / "run=abcdefghjk")
    layout.root.mkdir(parents=True)
    attempt = attempts.claim(layout)
    clock = times_ms(len(rows))
    taken: list[int] = []
    before = cpu_s()
    recorder = Recorder(layout, run="abcdefghjk", attempt=attempt)
    for step, values in enumerate(rows):
        began = time.perf_counter_ns()
        recorder.write(names, values, step, clock[step])
        taken.append(time.perf_counter_ns() - began)
    recorder.close()
    spent = cpu_s() - before
    size = sum(path.stat().st_size for path in layout.root.rglob("*") if path.is_file())
    taken.sort()
    return {
        "median_us": taken[len(taken) // 2] / 1e3,
        "p99_us": taken[int(len(taken) * 0.99)] / 1e3,
        "bytes_a_point": size / (len(rows) * len(names)),
        "cpu_s": spent,
    }


def written_once(folder: Path, names: tuple[str, ...], rows: list[tuple[float, ...]]) -> float:
    clock = times_ms(len(rows))
    before = cpu_s()
    kept: list[tuple[int, int, tuple[float, ...]]] = []
    for step, values in enumerate(rows):
        kept.append((step, clock[step], values))
    steps = np.array([item[0] for item in kept])
    times = np.array([item[1] for item in kept])
    table = np.array([item[2] for item in kept])
    columns = {
        name: Column(steps, times, np.ascontiguousarray(table[:, index]), steps)
        for index, name in enumerate(names)
    }
    write_part(folder / "points" / "once.parquet", build_table(columns, attempt=1, rank=0))
    return cpu_s() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--keys", type=int, default=10)
    given = parser.parse_args()
    names = tuple(f"train/m{index}" for index in range(given.keys))
    rows = [tuple(row) for row in curves(given.steps, given.keys).tolist()]
    found: list[dict[str, float]] = []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            figures = recorded(folder, names, rows)
            figures["cpu_ratio_to_writing_once"] = figures["cpu_s"] / written_once(
                folder, names, rows
            )
            found.append(figures)
    middle = {key: float(np.median([item[key] for item in found])) for key in found[0]}
    print(json.dumps({"steps": given.steps, "keys": given.keys, **middle}, indent=2))


if __name__ == "__main__":
    main()
