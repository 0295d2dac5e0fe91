"""trackio: one SQLite file a project, read through its storage class and its SQL query."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.peer import Params, Peer, Points, Writer, differing

PROJECT = "bench"
LAST = "select run_name, max(step) as step, metrics from metrics group by run_id"
MIN = (
    "select run_name, min(json_extract(metrics, '$.\"{metric}\"')) as found from metrics"
    " group by run_id order by found limit {num}"
)


class _Run:
    def __init__(self, run: Any) -> None:
        self._run, self.finish = run, run.finish

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)


class Trackio(Peer):
    """The folder of all projects is read from the environment when trackio is imported."""

    def import_writer(self, store: Path) -> None:
        os.environ["TRACKIO_DIR"] = str(store)
        import trackio

        _ = trackio

    def import_reader(self, store: Path) -> None:
        self.import_writer(store)

    def prepare(self, store: Path) -> None:
        from trackio.sqlite_storage import SQLiteStorage

        SQLiteStorage.init_db(PROJECT)

    def start(self, store: Path, run: str, params: Params) -> Writer:
        import trackio

        started = trackio.init(
            project=PROJECT,
            name=run,
            config=dict(params),
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        return _Run(started)

    def top(self, store: Path, metric: str, reading: str, num: int) -> list[tuple[str, float]]:
        if reading == "min":
            rows = _query(MIN.format(metric=metric, num=num))
            return [(row["run_name"], row["found"]) for row in rows]
        found = [(row["run_name"], _metrics(row)[metric]) for row in _query(LAST)]
        return sorted(found, key=lambda item: float(item[1]))[:num]

    def compare(
        self, store: Path, first: str, second: str, metrics: Sequence[str]
    ) -> dict[str, Any]:
        from trackio.sqlite_storage import SQLiteStorage

        configs = [SQLiteStorage.get_run_config(PROJECT, run) or {} for run in (first, second)]
        one, two = ({k: v for k, v in item.items() if k[0] != "_"} for item in configs)
        last = []
        for run in (first, second):
            rows = _query(
                f"select metrics from metrics where run_name = '{run}' order by step desc limit 1"
            )
            last.append(_metrics(rows[0]))
        return {
            "params": differing(one, two),
            "metrics": {name: [row[name] for row in last] for name in metrics},
        }

    def series(self, store: Path, metric: str, runs: Sequence[str]) -> dict[str, Points]:
        from trackio.sqlite_storage import SQLiteStorage

        found: dict[str, Points] = {}
        for run in runs:
            rows = SQLiteStorage.get_metric_values(PROJECT, run, metric)
            found[run] = ([row["step"] for row in rows], [row["value"] for row in rows])
        return found

    def recovered(self, store: Path, run: str, metrics: Sequence[str]) -> tuple[int, str]:
        rows = _query(f"select count(*) as num from metrics where run_name = '{run}'")
        return int(rows[0]["num"]) * len(metrics), "-"


def _query(text: str) -> list[dict[str, Any]]:
    from trackio.sqlite_storage import SQLiteStorage

    rows: list[dict[str, Any]] = SQLiteStorage.query_project(PROJECT, text)["rows"]
    return rows


def _metrics(row: Mapping[str, Any]) -> dict[str, Any]:
    found = row["metrics"]
    read: dict[str, Any] = json.loads(found) if isinstance(found, str | bytes) else dict(found)
    return read
