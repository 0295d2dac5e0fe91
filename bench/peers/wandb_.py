"""wandb offline, read by `wandb leet inspect`, the only local reader: one process a run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.peer import Params, Peer, Points, Unsupported, Writer, differing


class _Run:
    def __init__(self, run: Any) -> None:
        self._run, self.finish = run, run.finish

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)


class Wandb(Peer):
    """The last values of a run are in its summary; a minimum is nowhere short of all points."""

    def import_writer(self, store: Path) -> None:
        import wandb

        _ = wandb

    def import_reader(self, store: Path) -> None:
        pass

    def start(self, store: Path, run: str, params: Params) -> Writer:
        import wandb

        settings = wandb.Settings(
            console="off",
            silent=True,
            disable_git=True,
            disable_code=True,
            save_code=False,
            x_disable_stats=True,
            x_disable_machine_info=True,
        )
        started = wandb.init(
            mode="offline",
            project="bench",
            dir=str(store),
            name=run,
            id=run,
            config=dict(params),
            settings=settings,
        )
        return _Run(started)

    def top(self, store: Path, metric: str, reading: str, num: int) -> list[tuple[str, float]]:
        if reading == "min":
            raise Unsupported("keeps last values only")
        found = []
        for path in (store / "wandb").glob("offline-run-*"):
            summary = _summary(path)
            found.append((path.name.rsplit("-", 1)[1], summary["summary"][metric]))
        return sorted(found, key=lambda item: float(item[1]))[:num]

    def compare(
        self, store: Path, first: str, second: str, metrics: Sequence[str]
    ) -> dict[str, Any]:
        both = [_summary(_folder(store, run)) for run in (first, second)]
        one, two = ({k: v for k, v in item["config"].items() if k != "_wandb"} for item in both)
        return {
            "params": differing(one, two),
            "metrics": {name: [item["summary"][name] for item in both] for name in metrics},
        }

    def series(self, store: Path, metric: str, runs: Sequence[str]) -> dict[str, Points]:
        found: dict[str, Points] = {}
        for run in runs:
            rows = [row for row in _history(_folder(store, run)) if metric in row]
            found[run] = ([row["_step"] for row in rows], [row[metric] for row in rows])
        return found

    def recovered(self, store: Path, run: str, metrics: Sequence[str]) -> tuple[int, str]:
        rows = list(_history(_folder(store, run)))
        state = str(_summary(_folder(store, run)).get("state", "-"))
        return sum(sum(name in row for name in metrics) for row in rows), state


def _folder(store: Path, run: str) -> Path:
    return next((store / "wandb").glob(f"offline-run-*-{run}"))


def _inspect(folder: Path, *more: str) -> str:
    tool = str(Path(sys.executable).with_name("wandb"))
    words = [tool, "leet", "inspect", *more, "--json", str(folder)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def _summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_inspect(folder, "--summary"))
    return found


def _history(folder: Path) -> Iterator[dict[str, Any]]:
    for line in _inspect(folder).splitlines():
        record = json.loads(line)
        if record.get("type") == "history":
            yield record["history"]["item"]
