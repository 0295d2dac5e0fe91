"""W4: eight processes log at once into one store that was made beforehand, 5 metrics a step."""

from __future__ import annotations

import time
from typing import Any, Final

from bench import check, data, table
from bench.environments import Failed, Place, answer_of
from bench.measure import Load
from bench.pairs import Figures, Options, Row

NAME: Final = "W4"
PROCESSES: Final = 8
METRICS: Final = 5
STEPS: Final = 2_000
FEWER: Final = {
    "mlflow-sqlite": 200, "mlflow-sqlite-async": 200, "mlflow-file": 1_000, "aim": 1_000,
    "dvclive": 500,
}  # fmt: skip


def measure(place: Place, peers: list[str], options: Options) -> list[Row]:
    """Return a row a tracker; expdb is measured beside each."""
    rows = []
    for peer in peers:
        try:
            mine = [together(place, "expdb", options)]
            if peer == "expdb":
                rows.append(Row(workload=NAME, name=peer, reps=mine))
                continue
            theirs = [together(place, peer, options)]
            rows.append(Row(workload=NAME, name=peer, reps=theirs, ours=mine))
        except Failed as error:
            rows.append(Row(workload=NAME, name=peer, error=str(error)))
    return rows


def together(place: Place, peer: str, options: Options) -> Figures:
    """Run all processes to their end, then count what is read back."""
    store, runs = place.store(peer), data.run_names(PROCESSES)
    full = FEWER.get(peer, STEPS)
    steps = options.size(full, full // 2, 100)
    job = {"store": store, "steps": steps, "metrics": METRICS}
    place.ask(peer, "prepare", job)
    load, began = Load(), time.perf_counter()
    started = [place.start(peer, "log", {**job, "run": run}) for run in runs]
    ended = [running.wait() for running in started]
    wall = time.perf_counter() - began
    answers, said = [], ""
    for spent in ended:
        try:
            answers.append(answer_of(peer, "log", spent))
        except Failed as error:
            said = str(error)
    cpu = sum(spent.cpu_s for spent in ended)
    others = load.others(cpu)
    right, found = _read_back(place, peer, job, runs)
    return {
        "steps": steps,
        "wall_s": wall,
        "cpu_s": cpu,
        "us_a_step": wall / steps * 1e6,
        "ok": len(answers),
        "whole_runs": found,
        "points_lost": (PROCESSES - found) * steps * METRICS,
        "p50_us": max((item["p50_us"] for item in answers), default=None),
        "max_ms": max((item["max_ms"] for item in answers), default=None),
        "init_s": max((item["init_s"] for item in answers), default=None),
        "right": right,
        "exact": right,
        "said": said,
        "others": others,
    }


def _read_back(
    place: Place, peer: str, job: dict[str, object], runs: list[str]
) -> tuple[bool, int]:
    """Return whether all runs are whole in all metrics, and how many are."""
    place.ask(peer, "filled", job)
    damaged: set[str] = set()
    steps = int(str(job["steps"]))
    for metric in data.metric_names(METRICS):
        for run, answer in _series(place, peer, job, metric, runs).items():
            if not check.series(answer, [run], metric, steps).right:
                damaged.add(run)
    return not damaged, len(runs) - len(damaged)


def _series(
    place: Place, peer: str, job: dict[str, object], metric: str, runs: list[str]
) -> dict[str, dict[str, Any]]:
    """Return run -> what was read of it; all at once, or one by one where one cannot be read."""
    try:
        read, _ = place.ask(peer, "series", {**job, "metric": metric, "runs": runs})
    except Failed:
        if len(runs) == 1:
            return {runs[0]: {}}
        each = [_series(place, peer, job, metric, [run]) for run in runs]
        return {run: answer for found in each for run, answer in found.items()}
    found = read["answer"]
    return {run: {run: found[run]} if run in found else {} for run in runs}


def shown(rows: list[Row]) -> str:
    """Return the table."""
    head = [
        "tracker", "steps", "wall s", "CPU s", "processes ok", "whole runs", "points lost",
        "worst p50 us", "worst call ms", "worst start s", "us a step / expdb", "other cores",
        "said",
    ]  # fmt: skip
    lines = [
        [
            row.name, row.shown("steps", 0), row.shown("wall_s", 1), row.shown("cpu_s", 1),
            row.shown("ok", 0), row.shown("whole_runs", 0), row.shown("points_lost", 0),
            row.shown("p50_us", 0), row.shown("max_ms", 0), row.shown("init_s", 2),
            table.number(row.ratio("us_a_step")), row.shown("others", 2),
            (row.error or str(row.reps[0]["said"]))[:80],
        ]
        for row in rows
    ]  # fmt: skip
    return table.table(head, lines)
