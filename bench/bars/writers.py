"""The bar of many writers: 50 processes write runs while readers poll.

A reader is `expdb ls --json`, again and again. Nothing may fail, every run is whole at the end, and
the longest `log()` says whether a writer waited on anything.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final

from bench import check, data
from bench.bars.bar import Bar
from bench.environments import Failed, Place, answer_of
from bench.measure import Running
from bench.pairs import Options

READERS: Final = 2
STEPS: Final = 500
PAUSE_S: Final = 0.02
METRICS: Final = 5


def measure(place: Place, options: Options) -> list[Bar]:
    """Return the bar: what failed or was lost."""
    runs, store = data.run_names(options.size(50, 50, 6)), place.store("writers")
    job: dict[str, Any] = {"store": store, "steps": STEPS, "metrics": METRICS}
    place.ask("expdb", "prepare", job)
    place.ask("expdb", "log", {**job, "run": "before"})
    paced = {**job, "pause_s": PAUSE_S}  # so that they live while they are read
    writers = [place.start("expdb", "log", {**paced, "run": run}) for run in runs]
    polls, bad = _poll(place, store, writers)
    slowest, starts, failed = 0.0, 0.0, []
    for writer in writers:
        try:
            answer = answer_of("expdb", "log", writer.wait())
        except Failed as error:
            failed.append(str(error))
            continue
        slowest = max(slowest, answer["max_ms"])
        starts = max(starts, answer["init_s"])
    lost = _lost(place, job, runs)
    trouble = len(failed) + len(bad) + lost
    note = "; ".join([*failed, *bad])[:200]
    what = f"{len(runs)} writers, {polls} polls of {READERS} readers"
    return [
        Bar(what=f"{what}: failures and lost runs", unit="", most=0, found=[trouble], note=note),
        Bar(what="longest log() of any writer", unit="ms", most=None, found=[slowest]),
        Bar(what="longest start() of any writer", unit="s", most=None, found=[starts]),
    ]


def _poll(place: Place, store: Path, writers: list[Running]) -> tuple[int, list[str]]:
    """Read until all writers have ended; return how often, and what failed."""
    polls, bad, seen = 0, [], 0
    while any(writer.is_running() for writer in writers):
        words = ["ls", "--json", "-n", "1000"]
        readers = [place.expdb_starts(*words, EXPDB_STORE=str(store)) for _ in range(READERS)]
        shown: list[int] = []
        for reader in readers:
            spent = reader.wait()
            polls += 1
            if spent.rc:
                bad.append(f"ls: exit {spent.rc}: {spent.err[-200:]}")
                continue
            num = len(json.loads(spent.out)["runs"])
            if num < seen:
                bad.append(f"ls showed {num} runs after {seen}")
            shown.append(num)
        seen = max([seen, *shown])  # readers of one round may look in either order
        time.sleep(0.05)
    return polls, bad


def _lost(place: Place, job: dict[str, object], runs: list[str]) -> int:
    """Return how many runs are not whole in every metric."""
    lost: set[str] = set()
    for metric in data.metric_names(METRICS):
        read, _ = place.ask("expdb", "series", {**job, "metric": metric, "runs": runs})
        for run in runs:
            one = {run: read["answer"].get(run, {})}
            if not check.series(one, [run], metric, STEPS).exact:
                lost.add(run)
    return len(lost)
