"""The data of all benchmarks: noisy curves and parameters, the same in every environment.

Standard library only, so that a peer's environment makes them too; values are full float64, drawn
from a generator seeded by run and metric.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

START = 2.0
NOISE = 0.1


def metric_names(num: int) -> list[str]:
    """Return the names of the metrics."""
    return [f"train/m{number}" for number in range(num)]


def run_names(num: int) -> list[str]:
    """Return the names of the runs."""
    return [f"r{number:04d}" for number in range(num)]


def curve(run: str, metric: str, steps: int) -> list[float]:
    """Return the values of one metric of one run, step 0 first."""
    draw = random.Random(f"{run}/{metric}").gauss
    return [START + 3.0 / math.sqrt(1.0 + step) + draw(0.0, NOISE) for step in range(steps)]


def rows(run: str, metrics: Sequence[str], steps: int) -> list[dict[str, float]]:
    """Return what one run logs: metric -> value, a row a step."""
    columns = [curve(run, metric, steps) for metric in metrics]
    return [dict(zip(metrics, values, strict=True)) for values in zip(*columns, strict=True)]


def params(run: str) -> dict[str, float | int | str]:
    """Return the 20 parameters of a run; the first three differ from run to run."""
    draw = random.Random(f"{run}/params")
    found: dict[str, float | int | str] = {
        "p00": draw.uniform(1e-4, 1e-2),
        "p01": draw.randrange(1_000_000),
        "p02": f"variant {run}",
    }
    for number in range(3, 20):
        found[f"p{number:02d}"] = number * 0.5 if number % 2 else f"text {number}"
    return found
