"""Runs with known trouble, written as training writes them: points by call, events by the rules."""

from __future__ import annotations

import json
import math
import random
from typing import Any

from expdb.index.reader import open_reader
from expdb.model import Run, RunState
from expdb.monitor.engine import Monitor
from expdb.monitor.rules import build_rules
from expdb.query.health import health_of
from expdb.query.health_results import Health
from expdb.store.files import plain
from expdb.store.layout import RunLayout
from expdb.store.store import Store
from tests.query.made import make_run, write_run

Rows = list[dict[str, float]]


def healthy(num: int = 300, *, seed: int = 0, rate: float = 0.003, warmup: int = 30) -> Rows:
    """Return what a loop logs of a run that learns: loss, norm and rate at each step."""
    draw = random.Random(seed)
    return [
        {
            "train/loss": 1.8 + 3.7 * math.exp(-step / 25) + draw.gauss(0, 0.03),
            "train/grad_norm": 0.3 * math.exp(draw.gauss(0, 0.05)),
            "train/lr": rate * min(1.0, (step + 1) / warmup),
            "train/data_wait_pct": 0.5,
        }
        for step in range(num)
    ]


def jumped(at: int = 150) -> Rows:
    """A rate of thirty times for ten steps; the loss rises a step later and stays high."""
    rows = healthy()
    for step in range(at, len(rows)):
        if step < at + 10:
            rows[step]["train/lr"] *= 30
        if step > at:
            rows[step]["train/loss"] += 2.5
        if step in range(at + 1, at + 20):
            rows[step]["train/grad_norm"] *= 20
    return rows


def hit(at: int = 200, num: int = 3) -> Rows:
    """Some bad batches; the loss is back at once."""
    rows = healthy()
    for step in range(at, at + num):
        rows[step]["train/loss"] += 6.0
        rows[step]["train/grad_norm"] *= 15
    return rows


def lines_of(rows: Rows, section: Any = None, *, batches: bool = True) -> list[dict[str, Any]]:
    """Return the lines that training would write of rows."""
    monitor, lines = Monitor(build_rules(section)), []
    for step, row in enumerate(rows):
        for one in monitor.update(step, tuple(row), tuple(row.values()), step * 100):
            line = {
                "step": one.step, "severity": one.severity, "rule": one.rule,
                "message": one.message, "created_at_ms": 0, **one.facts(1),
            }  # fmt: skip
            if batches and one.state in ("open", "worse"):
                line["batches"] = [one.step, one.step]
            lines.append(plain(line))
    return lines


def write(
    store: Store,
    run: str,
    rows: Rows,
    *,
    live: bool = True,
    more: list[dict[str, Any]] | None = None,
    checkpoints: tuple[int, ...] = (),
    **fields: Any,
) -> Run:
    """Write a run with these rows; with `live` the rules looked at it."""
    points: dict[str, dict[int, float]] = {}
    for step, row in enumerate(rows):
        for key, value in row.items():
            points.setdefault(key, {})[step] = value
    made = make_run(run, points=points, **{"state": RunState.FINISHED, **fields})
    layout = RunLayout(write_run(store, made))
    _write_points(layout, points)
    lines = (lines_of(rows) if live else []) + (more or [])
    if lines:
        layout.events.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    for step in checkpoints:
        _write_checkpoint(layout, step)
    return made


def _write_points(layout: RunLayout, points: dict[str, dict[int, float]]) -> None:
    """Seal points so that all of one step are of one call."""
    import numpy as np

    from expdb.store.parts import Column
    from expdb.store.seal import seal

    columns, last = {}, 0
    for key, values in points.items():
        steps = np.array(list(values), np.int64)
        last = max(last, int(steps.max()) + 1)
        numbers = np.array(list(values.values()), np.float64)
        columns[key] = Column(steps, steps * 100, numbers, steps + 1)
    seal(layout, attempt=1, rank=0, columns=columns, first_seq=1, last_seq=last, journals=())


def _write_checkpoint(layout: RunLayout, step: int) -> None:
    from expdb.store import checkpoints

    folder = checkpoints.temp_dir(layout, step)
    folder.mkdir(parents=True)
    (folder / "model.pt").write_bytes(b"weights")
    parts = {"model": {"file": "model.pt", "names": []}}
    checkpoints.seal(folder, checkpoints.Manifest(step=step, attempt=1, parts=parts))
    checkpoints.put_in_place(layout, step)


def health(store: Store, run: str) -> Health:
    """Return the health of a run of a store."""
    with open_reader(store) as reader:
        return health_of(reader, reader.run(run))
