"""mlflow over SQLite (also with asynchronous logging) and over its file store.

The store is made beforehand: processes that make one at the same time break it. A minimum needs the
history of each run, since runs are ordered by the last value only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.peer import Params, Peer, Points, Writer, differing

BATCH = 990
"""Metrics a `log_batch` call; 1000 is its limit."""


class _Run:
    def __init__(self, flush: bool) -> None:
        import mlflow

        self._put, self._end, self._flush = mlflow.log_metrics, mlflow.end_run, flush

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._put(dict(values), step=step)

    def finish(self) -> None:
        if self._flush:
            import mlflow

            mlflow.flush_async_logging()
        self._end()


class MlflowSqlite(Peer):
    """One database file."""

    is_async = False

    def import_writer(self, store: Path) -> None:
        os.environ.update(
            MLFLOW_DISABLE_TELEMETRY="true",
            MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING="false",
            GIT_PYTHON_REFRESH="quiet",
        )
        import mlflow

        mlflow.set_tracking_uri(self._uri(store))

    def import_reader(self, store: Path) -> None:
        self.import_writer(store)

    def prepare(self, store: Path) -> None:
        import mlflow

        mlflow.create_experiment("bench", artifact_location=str(store / "artifacts"))

    def start(self, store: Path, run: str, params: Params) -> Writer:
        import mlflow

        mlflow.set_experiment("bench")
        if self.is_async:
            mlflow.config.enable_async_logging()
        mlflow.start_run(run_name=run)
        mlflow.log_params(dict(params))
        return _Run(self.is_async)

    def fill(
        self, store: Path, run: str, params: Params, rows: Sequence[Mapping[str, float]]
    ) -> None:
        from mlflow.entities import Metric, Param

        client, now = self._client(), time.time_ns() // 1_000_000
        experiment = client.get_experiment_by_name("bench").experiment_id
        made = client.create_run(experiment, run_name=run).info.run_id
        client.log_batch(made, params=[Param(key, str(value)) for key, value in params.items()])
        points = [
            Metric(name, value, now, step)
            for step, row in enumerate(rows)
            for name, value in row.items()
        ]
        for start in range(0, len(points), BATCH):
            client.log_batch(made, metrics=points[start : start + BATCH])
        client.set_terminated(made)

    def top(self, store: Path, metric: str, reading: str, num: int) -> list[tuple[str, float]]:
        client = self._client()
        experiment = client.get_experiment_by_name("bench").experiment_id
        if reading == "last":
            order = [f"metrics.`{metric}` ASC"]
            rows = client.search_runs([experiment], order_by=order, max_results=num)
            return [(row.info.run_name, row.data.metrics[metric]) for row in rows]
        found = []
        for row in client.search_runs([experiment], max_results=10_000):
            history = client.get_metric_history(row.info.run_id, metric)
            found.append((row.info.run_name, min(item.value for item in history)))
        return sorted(found, key=lambda item: item[1])[:num]

    def compare(
        self, store: Path, first: str, second: str, metrics: Sequence[str]
    ) -> dict[str, Any]:
        both = [self._find(run).data for run in (first, second)]
        return {
            "params": differing(both[0].params, both[1].params),
            "metrics": {name: [item.metrics[name] for item in both] for name in metrics},
        }

    def series(self, store: Path, metric: str, runs: Sequence[str]) -> dict[str, Points]:
        client = self._client()
        found: dict[str, Points] = {}
        for run in runs:
            history = client.get_metric_history(self._find(run).info.run_id, metric)
            pairs = sorted((item.step, item.value) for item in history)
            found[run] = ([step for step, _ in pairs], [value for _, value in pairs])
        return found

    def recovered(self, store: Path, run: str, metrics: Sequence[str]) -> tuple[int, str]:
        points = super().recovered(store, run, metrics)[0]
        return points, str(self._find(run).info.status)

    def _uri(self, store: Path) -> str:
        return f"sqlite:///{store}/mlflow.db"

    def _client(self) -> Any:
        import mlflow

        return mlflow.MlflowClient()

    def _find(self, run: str) -> Any:
        client = self._client()
        experiment = client.get_experiment_by_name("bench").experiment_id
        return client.search_runs([experiment], f"attributes.run_name = '{run}'")[0]


class MlflowAsync(MlflowSqlite):
    """Calls return at once; a thread writes."""

    is_async = True


class MlflowFile(MlflowSqlite):
    """A file a metric; it starts only where it is allowed by name."""

    def import_writer(self, store: Path) -> None:
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
        super().import_writer(store)

    def _uri(self, store: Path) -> str:
        return f"file://{store}/mlruns"
