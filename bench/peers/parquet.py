"""References: lists in memory, one Parquet file a run at the end (zstd), DuckDB on top.

`Wide` has a column a metric; `Long` has metric, step, value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.peer import Params, Peer, Points, Writer, differing


class _Lists:
    def __init__(self, path: Path, params: Params, *, long: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".json").write_text(json.dumps(dict(params)))
        self._path, self._long = path, long
        self._rows: list[tuple[int, Mapping[str, float]]] = []

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._rows.append((step, values))

    def finish(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        steps = [step for step, _ in self._rows]
        columns = {name: [row[name] for _, row in self._rows] for name in self._rows[0][1]}
        if self._long:
            names = [name for name in columns for _ in steps]
            values = [value for column in columns.values() for value in column]
            table = pa.table(
                {
                    "metric": pa.array(names).dictionary_encode(),
                    "step": steps * len(columns),
                    "value": values,
                }
            )
        else:
            table = pa.table({"step": steps, **columns})
        pq.write_table(table, self._path, compression="zstd")


class Wide(Peer):
    """One file a run, a column a metric."""

    long = False

    def import_writer(self, store: Path) -> None:
        import pyarrow.parquet

        _ = pyarrow.parquet

    def import_reader(self, store: Path) -> None:
        import duckdb

        _ = duckdb

    def start(self, store: Path, run: str, params: Params) -> Writer:
        return _Lists(store / f"{run}.parquet", params, long=self.long)

    def top(self, store: Path, metric: str, reading: str, num: int) -> list[tuple[str, float]]:
        value = f"min({self._value(metric)})"
        if reading == "last":
            value = f"arg_max({self._value(metric)}, step)"
        rows = _sql(
            f"select parse_filename(filename, true) as run, {value} as found"
            f" from read_parquet('{store}/*.parquet') {self._only(metric)}"
            f" group by all order by found limit {num}"
        )
        return [(str(run), float(found)) for run, found in rows]

    def compare(
        self, store: Path, first: str, second: str, metrics: Sequence[str]
    ) -> dict[str, Any]:
        one, two = (json.loads((store / f"{run}.json").read_text()) for run in (first, second))
        last = [self._last(store / f"{run}.parquet", metrics) for run in (first, second)]
        return {
            "params": differing(one, two),
            "metrics": {name: [row[name] for row in last] for name in metrics},
        }

    def series(self, store: Path, metric: str, runs: Sequence[str]) -> dict[str, Points]:
        found: dict[str, Points] = {}
        for run in runs:
            arrays = _query(
                f"select step, {self._value(metric)} as value"
                f" from read_parquet('{store}/{run}.parquet') {self._only(metric)} order by step"
            ).fetchnumpy()
            found[run] = (arrays["step"], arrays["value"])
        return found

    def recovered(self, store: Path, run: str, metrics: Sequence[str]) -> tuple[int, str]:
        if not (store / f"{run}.parquet").exists():
            return 0, "-"
        return super().recovered(store, run, metrics)

    def _value(self, metric: str) -> str:
        return f'"{metric}"'

    def _only(self, metric: str) -> str:
        return ""

    def _last(self, path: Path, metrics: Sequence[str]) -> dict[str, float]:
        chosen = ", ".join(f'arg_max("{name}", step)' for name in metrics)
        row = _sql(f"select {chosen} from read_parquet('{path}')")[0]
        return dict(zip(metrics, row, strict=True))


class Long(Wide):
    """One file a run, a row a point."""

    long = True

    def _value(self, metric: str) -> str:
        return "value"

    def _only(self, metric: str) -> str:
        return f"where metric = '{metric}'"

    def _last(self, path: Path, metrics: Sequence[str]) -> dict[str, float]:
        return dict(
            _sql(f"select metric, arg_max(value, step) from read_parquet('{path}') group by all")
        )


def _sql(query: str) -> list[Any]:
    rows: list[Any] = _query(query).fetchall()
    return rows


def _query(query: str) -> Any:
    import duckdb

    return duckdb.sql(query)
