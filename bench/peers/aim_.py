"""aim, read through its repository after a reindex: without one its readers see no runs.

`values.last()` of a series is not its last value (rows lie by a hash of the step), so points are
taken with their steps and sorted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.peer import Params, Peer, Points, Writer, differing


class _Run:
    def __init__(self, run: Any) -> None:
        self._run, self.finish = run, run.close

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.track(dict(values), step=step)


class Aim(Peer):
    """A run has a name and a dictionary of parameters."""

    def import_writer(self, store: Path) -> None:
        import aim

        _ = aim

    def import_reader(self, store: Path) -> None:
        self.import_writer(store)

    def prepare(self, store: Path) -> None:
        from aim import Repo

        Repo.from_path(str(store), init=True)

    def start(self, store: Path, run: str, params: Params) -> Writer:
        from aim import Run

        started = Run(
            repo=str(store),
            experiment="bench",
            system_tracking_interval=None,
            log_system_params=False,
            capture_terminal_logs=False,
        )
        started.name = run
        started["params"] = dict(params)
        return _Run(started)

    def filled(self, store: Path) -> None:
        from aim import Repo

        Repo.from_path(str(store))._recreate_index()

    def top(self, store: Path, metric: str, reading: str, num: int) -> list[tuple[str, float]]:
        found = []
        for run, series in _metrics(store, f'metric.name == "{metric}"'):
            values = _points(series)[1]
            found.append((run.name, min(values) if reading == "min" else values[-1]))
        return sorted(found, key=lambda item: item[1])[:num]

    def compare(
        self, store: Path, first: str, second: str, metrics: Sequence[str]
    ) -> dict[str, Any]:
        params: dict[str, Mapping[str, Any]] = {}
        last: dict[str, dict[str, float]] = {}
        for run, series in _metrics(store, f'run.name in ["{first}", "{second}"]'):
            params[run.name] = run["params"]
            last.setdefault(run.name, {})[series.name] = _points(series)[1][-1]
        return {
            "params": differing(params[first], params[second]),
            "metrics": {name: [last[first][name], last[second][name]] for name in metrics},
        }

    def series(self, store: Path, metric: str, runs: Sequence[str]) -> dict[str, Points]:
        wanted = ", ".join(f'"{run}"' for run in runs)
        query = f'metric.name == "{metric}" and run.name in [{wanted}]'
        return {run.name: _points(series) for run, series in _metrics(store, query)}

    def recovered(self, store: Path, run: str, metrics: Sequence[str]) -> tuple[int, str]:
        from aim import Repo

        self.filled(store)
        found = list(_metrics(store, f'run.name == "{run}"'))
        points = sum(len(_points(series)[0]) for _, series in found)
        active = {item.hash for item in Repo.from_path(str(store)).list_active_runs()}
        return points, "active" if found and found[0][0].hash in active else "ended"


def _metrics(store: Path, query: str) -> Iterator[tuple[Any, Any]]:
    from aim import Repo
    from aim.sdk.types import QueryReportMode

    repo = Repo.from_path(str(store))
    for runs in repo.query_metrics(query, report_mode=QueryReportMode.DISABLED).iter_runs():
        for series in runs:
            yield series.run, series


def _points(series: Any) -> Points:
    steps, columns = series.data.items_list()
    pairs = sorted(zip(steps, columns[0], strict=True))
    return [int(step) for step, _ in pairs], [float(value) for _, value in pairs]
