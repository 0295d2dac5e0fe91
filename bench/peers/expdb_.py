"""expdb itself, through its public functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.peer import Params, Peer, Points, Writer

MIN = (
    "select r.experiment, s.min from series s join runs r on r.id = s.run"
    " where s.key = ? order by s.min limit ?"
)


class _Run:
    def __init__(self, run: Any) -> None:
        self._log, self.finish = run.log, run.finish

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._log(values, step)


class Expdb(Peer):
    """A run is an experiment of the run's name; the code is pinned, as there is no way around."""

    def import_writer(self, store: Path) -> None:
        import expdb

        _ = expdb.start

    def import_reader(self, store: Path) -> None:
        import expdb

        _ = expdb.open

    def start(self, store: Path, run: str, params: Params) -> Writer:
        import expdb

        config = {**params, "expdb": {"print": "quiet"}}
        objective = {"metric": "train/m0", "mode": "min"}
        return _Run(expdb.start(config, name=run, store=store, objective=objective))

    def filled(self, store: Path) -> None:
        import expdb

        expdb.open(store).sql("select count(*) from runs")

    def top(self, store: Path, metric: str, reading: str, num: int) -> list[tuple[str, float]]:
        import expdb

        opened = expdb.open(store)
        if reading == "min":
            rows = opened.sql(MIN, [metric, num]).to_pylist()
            return [(row["experiment"], row["min"]) for row in rows]
        ranked = opened.rank(metric, limit=num).rows
        return [(row.experiment, row.value) for row in ranked if row.value is not None]

    def compare(
        self, store: Path, first: str, second: str, metrics: Sequence[str]
    ) -> dict[str, Any]:
        import expdb

        found = expdb.open(store).compare(first, second)
        return {
            "params": {item.key: list(item.values) for item in found.config if item.differs},
            "metrics": {item.key: list(item.values) for item in found.metrics},
        }

    def series(self, store: Path, metric: str, runs: Sequence[str]) -> dict[str, Points]:
        import expdb

        opened = expdb.open(store)
        table = opened.series(metric, runs=runs)
        ids = {opened.run(run).record.id: run for run in runs} if len(runs) > 1 else {}
        found: dict[str, Points] = {}
        for run_id in table["run"].unique().to_pylist():
            import pyarrow.compute as pc

            part = table.filter(pc.equal(table["run"], run_id))
            found[ids.get(run_id, runs[0])] = (
                part["step"].to_numpy(),
                part["value"].to_numpy(),
            )
        return found

    def recovered(self, store: Path, run: str, metrics: Sequence[str]) -> tuple[int, str]:
        import expdb

        opened = expdb.open(store)
        points = sum(opened.series(metric, runs=[run]).num_rows for metric in metrics)
        return points, str(opened.run(run).record.state)
