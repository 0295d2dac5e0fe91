"""A reference: one JSON line a step, flushed to the operating system; read by the json module."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.peer import Params, Peer, Points, Writer, differing


class _Lines:
    def __init__(self, folder: Path, params: Params) -> None:
        folder.mkdir(parents=True)
        (folder / "params.json").write_text(json.dumps(dict(params)))
        self._file = (folder / "points.jsonl").open("w")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        self._file.flush()

    def finish(self) -> None:
        self._file.close()


class Jsonl(Peer):
    """A folder a run."""

    def import_writer(self, store: Path) -> None:
        pass

    def import_reader(self, store: Path) -> None:
        pass

    def start(self, store: Path, run: str, params: Params) -> Writer:
        return _Lines(store / run, params)

    def top(self, store: Path, metric: str, reading: str, num: int) -> list[tuple[str, float]]:
        found = []
        for folder in store.iterdir():
            values = [row[metric] for row in _rows(folder)]
            found.append((folder.name, min(values) if reading == "min" else values[-1]))
        return sorted(found, key=lambda item: item[1])[:num]

    def compare(
        self, store: Path, first: str, second: str, metrics: Sequence[str]
    ) -> dict[str, Any]:
        folders = [store / first, store / second]
        one, two = (json.loads((folder / "params.json").read_text()) for folder in folders)
        last = [_rows(folder)[-1] for folder in folders]
        return {
            "params": differing(one, two),
            "metrics": {name: [row[name] for row in last] for name in metrics},
        }

    def series(self, store: Path, metric: str, runs: Sequence[str]) -> dict[str, Points]:
        found: dict[str, Points] = {}
        for run in runs:
            rows = _rows(store / run)
            found[run] = ([row["step"] for row in rows], [row[metric] for row in rows])
        return found

    def recovered(self, store: Path, run: str, metrics: Sequence[str]) -> tuple[int, str]:
        return len(_rows(store / run)) * len(metrics), "-"


def _rows(folder: Path) -> list[dict[str, Any]]:
    with (folder / "points.jsonl").open() as file:
        return [json.loads(line) for line in file if line.endswith("\n")]
