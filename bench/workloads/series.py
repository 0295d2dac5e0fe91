"""W3: one metric of 10 runs with 20,000 steps each, read by a fresh process.

The store holds 10 metrics a step; trackers that keep each metric apart, and fill slowly, hold two.
"""

from __future__ import annotations

from typing import Any, Final

from bench import check, data, table
from bench.environments import Failed, Place
from bench.measure import Load, folder_bytes
from bench.pairs import Figures, Options, Row, repeated
from bench.workloads.logging import checked

NAME: Final = "W3"
FEWER: Final = {"aim": 2, "mlflow-file": 2, "dvclive": 2}
METRICS: Final = 10


def measure(place: Place, peers: list[str], options: Options) -> list[Row]:
    """Return a row a tracker."""
    rows: list[Row] = []
    ours = _Filled(place, "expdb", options)
    for peer in peers:
        try:
            if peer == "expdb":
                mine, _ = repeated(options, ours.read, None)
                rows.append(Row(workload=NAME, name=peer, reps=mine))
                continue
            mine, theirs = repeated(options, ours.read, _Filled(place, peer, options).read)
            rows.append(Row(workload=NAME, name=peer, reps=theirs, ours=mine))
        except Failed as error:
            rows.append(Row(workload=NAME, name=peer, error=str(error)))
    return rows


class _Filled:
    """A store that holds the runs of a tracker."""

    def __init__(self, place: Place, peer: str, options: Options) -> None:
        self.place, self.peer = place, peer
        self.runs = data.run_names(options.size(10, 5, 3))
        self.steps = options.size(20_000, 5_000, 1_000)
        self.metrics = FEWER.get(peer, METRICS)
        self.store = place.store(peer)
        job: dict[str, Any] = {"store": self.store, "metrics": self.metrics, "steps": self.steps}
        place.ask(peer, "prepare", job)
        place.ask(peer, "fill", {**job, "runs": self.runs})
        place.ask(peer, "filled", job)

    def read(self) -> Figures:
        """Read one metric of all runs in a new process, and check it."""
        metric, load = data.metric_names(METRICS)[1], Load()
        job = {"store": self.store, "metric": metric, "runs": self.runs}
        answer, spent = self.place.ask(self.peer, "series", job)
        verdict = check.series(answer["answer"], self.runs, metric, self.steps)
        return {
            "runs": len(self.runs),
            "steps": self.steps,
            "metrics": self.metrics,
            "wall_s": spent.wall_s - answer["check_s"],
            "cpu_s": spent.cpu_s - answer["check_s"],
            "query_s": answer["query_s"],
            "rss_mb": spent.rss_mb,
            "store_mb": folder_bytes(self.store)[0] / 1e6,
            "right": verdict.right,
            "exact": verdict.exact,
            "why": verdict.why,
            "others": load.others(spent.cpu_s),
        }


def shown(rows: list[Row]) -> str:
    """Return the table."""
    head = [
        "tracker", "runs x steps", "reps", "process s", "query ms", "CPU s", "RSS MB", "store MB",
        "right", "exact", "process / expdb", "CPU / expdb", "other cores",
    ]  # fmt: skip
    lines = []
    for row in rows:
        query = row.median("query_s")
        lines.append([
            row.name, f"{row.shown('runs', 0)} x {row.shown('steps', 0)}", str(len(row.reps)),
            row.shown("wall_s", 2), table.number(None if query is None else query * 1e3, 0),
            row.shown("cpu_s", 2), row.shown("rss_mb", 0), row.shown("store_mb", 1), *checked(row),
            table.number(row.ratio("wall_s")), table.number(row.ratio("cpu_s")),
            row.shown("others", 2),
        ])  # fmt: skip
    return table.table(head, lines)
