"""W5: SIGKILL while logging, at 100 steps a second and at full speed; what is read afterwards.

A step counts as logged when its call has returned. One more than was counted may be found: the step
in flight. The page cache survives, so this says nothing about a power cut.
"""

from __future__ import annotations

import mmap
import struct
import time
from typing import Final

from bench import check, data, table
from bench.environments import Failed, Place
from bench.pairs import Figures, Options, Row

NAME: Final = "W5"
METRICS: Final = 10
PACED_S: Final = 0.01
START_S: Final = 60.0
"""So long may a tracker take until its first step."""


def measure(place: Place, peers: list[str], options: Options) -> list[Row]:
    """Return two rows a tracker: paced, and at full speed."""
    rows = []
    for every_s, words in ((PACED_S, "100 steps/s"), (0.0, "full speed")):
        for peer in peers:
            if peer.startswith("parquet"):
                continue  # nothing is written before the end
            name = f"{peer}, {words}"
            try:
                reps = [killed(place, peer, every_s, options) for _ in range(options.size(2, 1, 1))]
                rows.append(Row(workload=NAME, name=name, reps=reps))
            except Failed as error:
                rows.append(Row(workload=NAME, name=name, error=str(error)))
    return rows


def killed(place: Place, peer: str, every_s: float, options: Options) -> Figures:
    """Kill one run after some seconds of logging, read it, and log another after it."""
    store, run = place.store(peer), "r0000"
    job = {"store": store, "run": run, "metrics": METRICS}
    place.ask(peer, "prepare", job)
    counter = place.root / "counter"
    counter.write_bytes(bytes(8))
    running = place.start(peer, "pace", {**job, "counter": counter, "every_s": every_s})
    with counter.open("r+b") as file, mmap.mmap(file.fileno(), 8) as shared:
        until = time.monotonic() + START_S
        while not _count(shared) and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(options.size(5, 5, 1))
        running.kill()
        spent = running.wait()
        steps = _count(shared)
    if not steps:
        raise Failed(f"{peer}: no step in {START_S:.0f} s: {spent.err[-300:]}")
    answer, _ = place.ask(peer, "recovered", job)
    logged = steps * METRICS
    return {
        "logged": logged,
        "recovered": answer["points"],
        "lost_pct": max(0.0, (logged - answer["points"]) / logged * 100),
        "state": answer["state"],
        "left": spent.left,
        "next": _next(place, peer, job),
    }


def _next(place: Place, peer: str, job: dict[str, object]) -> bool:
    """Tell whether the next run in the same store is whole."""
    steps, after = 50, "r0001"
    try:
        place.ask(peer, "log", {**job, "run": after, "steps": steps})
        place.ask(peer, "filled", job)
        metric = data.metric_names(METRICS)[0]
        read, _ = place.ask(peer, "series", {**job, "metric": metric, "runs": [after]})
    except Failed:
        return False
    return check.series(read["answer"], [after], metric, steps).right


def _count(shared: mmap.mmap) -> int:
    return int(struct.unpack_from("<q", shared, 0)[0])


def shown(rows: list[Row]) -> str:
    """Return the table."""
    head = [
        "tracker", "points logged", "points read", "lost %", "shown as", "next run whole",
        "processes left",
    ]  # fmt: skip
    lines = [
        [
            row.name, _all(row, "logged"), _all(row, "recovered"), row.shown("lost_pct", 2),
            _all(row, "state") if row.reps else row.error[:80], _all(row, "next"),
            _all(row, "left"),
        ]
        for row in rows
    ]  # fmt: skip
    return table.table(head, lines)


def _all(row: Row, key: str) -> str:
    found = [item[key] for item in row.reps]
    texts = [f"{value:,}" if type(value) is int else str(value) for value in found]
    return ", ".join(dict.fromkeys(texts)) or "-"
