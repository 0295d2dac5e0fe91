"""dvclive: a table of tab-separated values a metric; no call of its own reads one.

A step costs more the more there are: `next_step` parses every table again.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.peer import Params, Peer, Points, Writer, differing


class _Live:
    def __init__(self, live: Any) -> None:
        self._live, self.finish = live, live.end

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._live.log_metric(name, value)
        self._live.next_step()


class Dvclive(Peer):
    """A folder a run; experiments of dvc, reports and dvc.yaml are off."""

    def import_writer(self, store: Path) -> None:
        import dvclive

        _ = dvclive

    def import_reader(self, store: Path) -> None:
        pass

    def start(self, store: Path, run: str, params: Params) -> Writer:
        from dvclive import Live

        live = Live(
            dir=str(store / run),
            save_dvc_exp=False,
            report=None,
            dvcyaml=None,
            monitor_system=False,
        )
        live.log_params(dict(params))
        return _Live(live)

    def fill(
        self, store: Path, run: str, params: Params, rows: Sequence[Mapping[str, float]]
    ) -> None:
        from dvclive import Live

        options = {"save_dvc_exp": False, "report": None, "dvcyaml": None}
        live = Live(dir=str(store / run), **options)
        live.log_params(dict(params))
        for step, row in enumerate(rows):
            live.step = step  # next_step() would parse all tables
            for name, value in row.items():
                live.log_metric(name, value)
        live.end()

    def top(self, store: Path, metric: str, reading: str, num: int) -> list[tuple[str, float]]:
        found = []
        for folder in store.iterdir():
            if reading == "min":
                found.append((folder.name, min(_points(folder, metric)[1])))
            else:
                found.append((folder.name, _summary(folder)[metric]))
        return sorted(found, key=lambda item: item[1])[:num]

    def compare(
        self, store: Path, first: str, second: str, metrics: Sequence[str]
    ) -> dict[str, Any]:
        both = [_summary(store / run) for run in (first, second)]
        return {
            "params": differing(*(_params(store / run) for run in (first, second))),
            "metrics": {name: [item[name] for item in both] for name in metrics},
        }

    def series(self, store: Path, metric: str, runs: Sequence[str]) -> dict[str, Points]:
        return {run: _points(store / run, metric) for run in runs}


def _points(folder: Path, metric: str) -> Points:
    path = folder / "plots" / "metrics" / f"{metric}.tsv"
    if not path.exists():
        return [], []
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    name = metric.rsplit("/", 1)[-1]
    return [int(row["step"]) for row in rows], [float(row[name]) for row in rows]


def _summary(folder: Path) -> dict[str, float]:
    """Return the last values, with the names that dvclive nests by `/` put together again."""
    found: dict[str, float] = {}
    for key, value in json.loads((folder / "metrics.json").read_text()).items():
        nested = value if isinstance(value, dict) else {}
        found.update({f"{key}/{name}": item for name, item in nested.items()})
    return found


def _params(folder: Path) -> dict[str, Any]:
    from ruamel.yaml import YAML

    read: dict[str, Any] = YAML(typ="safe").load((folder / "params.yaml").read_text())
    return read
