"""Logs the run that `many_store` makes the others after; the script of a process of its own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from bench import data


def main() -> None:
    """Log one run."""
    import expdb

    job = json.loads(sys.argv[1])
    config: dict[str, Any] = {
        "expdb": {"print": "quiet"},
        "seed": 0,
        "optim": {"lr": 0.001, **{f"k{number}": number * 0.5 for number in range(12)}},
        "model": {f"d{number}": number for number in range(13)},
        "data": {f"s{number}": f"text {number}" for number in range(13)},
    }
    names = [*data.metric_names(job["metrics"] - 1), "val/loss"]
    objective = {"metric": "val/loss", "mode": "min"}
    run = expdb.start(config, name="template", store=Path(job["store"]), objective=objective)
    for step, row in enumerate(data.rows("template", names, job["steps"] + 1)):
        run.log(row, step)
    run.finish()
    os.write(1, b"{}\n")
