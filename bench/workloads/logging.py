"""W1: one run of 20,000 steps with 10 metrics, a fresh process from start to end.

Trackers that take milliseconds a step get 2,000 steps; points per second and bytes are comparable,
the whole process is not, and the table has the steps.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from bench import check, data, table
from bench.environments import Failed, Place
from bench.measure import Load, folder_bytes
from bench.pairs import Figures, Options, Row, repeated

NAME: Final = "W1"
SLOW: Final = frozenset(["mlflow-sqlite", "mlflow-sqlite-async", "dvclive"])
METRICS: Final = 10


def steps_of(peer: str, options: Options) -> int:
    """Return how many steps a tracker logs."""
    if peer in SLOW:
        return options.size(2_000, 1_000, 200)
    return options.size(20_000, 20_000, 2_000)


def measure(place: Place, peers: list[str], options: Options) -> list[Row]:
    """Return a row a tracker; each is paired with expdb at 20,000 steps."""

    def one(peer: str) -> Figures:
        return logged(place, peer, steps_of(peer, options))

    rows = []
    for peer in peers:
        try:
            if peer == "expdb":
                mine, _ = repeated(options, lambda: one("expdb"), None)
                rows.append(Row(workload=NAME, name=peer, reps=mine))
            else:
                mine, theirs = repeated(options, lambda: one("expdb"), partial(one, peer))
                rows.append(Row(workload=NAME, name=peer, reps=theirs, ours=mine))
        except Failed as error:
            rows.append(Row(workload=NAME, name=peer, error=str(error)))
    return rows


def logged(place: Place, peer: str, steps: int) -> Figures:
    """Log one run in a new store, and check what is read back."""
    store, run = place.store(peer), "r0000"
    job = {"store": store, "run": run, "steps": steps, "metrics": METRICS}
    place.ask(peer, "prepare", job)
    load, before = Load(), folder_bytes(store)
    answer, spent = place.ask(peer, "log", job)
    others = load.others(spent.cpu_s)
    after = folder_bytes(store)
    place.ask(peer, "filled", job)
    metric = data.metric_names(METRICS)[METRICS - 1]
    read, _ = place.ask(peer, "series", {**job, "metric": metric, "runs": [run]})
    verdict = check.series(read["answer"], [run], metric, steps)
    points = steps * METRICS
    return {
        **answer,
        "steps": steps,
        "wall_s": spent.wall_s,
        "cpu_s": spent.cpu_s,
        "cpu_us_a_point": (spent.cpu_s - answer["import_cpu_s"]) / points * 1e6,
        "us_a_step": answer["after_import_s"] / steps * 1e6,
        "rss_mb": spent.rss_mb,
        "bytes_a_point": (after[0] - before[0]) / points,
        "files": after[1] - before[1],
        "right": verdict.right,
        "exact": verdict.exact,
        "why": verdict.why,
        "others": others,
    }


def shown(rows: list[Row]) -> str:
    """Return the table."""
    head = [
        "tracker", "steps", "reps", "process s", "import s", "after import s", "finish s",
        "log p50 us", "p99 us", "max ms", "CPU s", "B/point", "files", "RSS MB", "right", "exact",
        "us a step / expdb", "bytes / expdb", "other cores",
    ]  # fmt: skip
    lines = [
        [
            row.name, row.shown("steps", 0), str(len(row.reps)), row.shown("wall_s", 2),
            row.shown("import_s", 2), row.shown("after_import_s", 2), row.shown("finish_s", 2),
            row.shown("p50_us", 1), row.shown("p99_us", 0), row.shown("max_ms", 0),
            row.shown("cpu_s", 2), row.shown("bytes_a_point", 1), row.shown("files", 0),
            row.shown("rss_mb", 0), *checked(row), table.number(row.ratio("us_a_step")),
            table.number(row.ratio("bytes_a_point")), row.shown("others", 2),
        ]
        for row in rows
    ]  # fmt: skip
    return table.table(head, lines)


def checked(row: Row) -> list[str]:
    """Return whether all answers of a row were right, and exact."""
    if not row.reps:
        return [f"failed: {row.error[:80]}", "-"]
    return [
        "yes" if all(item[key] for item in row.reps) else "NO" if key == "right" else "no"
        for key in ("right", "exact")
    ]
