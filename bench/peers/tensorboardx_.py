"""tensorboardX, read by tensorboard's accumulator: a folder of event files a run, float32."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.peer import Params, Peer, Points, Writer, differing


class _Events:
    def __init__(self, writer: Any) -> None:
        self._add, self.finish = writer.add_scalar, writer.close

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._add(name, value, step)


class TensorboardX(Peer):
    """Parameters are kept as a text, since hyperparameters make a run of their own."""

    def import_writer(self, store: Path) -> None:
        import tensorboardX

        _ = tensorboardX

    def import_reader(self, store: Path) -> None:
        from tensorboard.backend.event_processing import event_accumulator

        _ = event_accumulator

    def start(self, store: Path, run: str, params: Params) -> Writer:
        from tensorboardX import SummaryWriter

        writer = SummaryWriter(logdir=str(store / run))
        writer.add_text("params", json.dumps(dict(params)))
        return _Events(writer)

    def top(self, store: Path, metric: str, reading: str, num: int) -> list[tuple[str, float]]:
        found = []
        for folder in store.iterdir():
            values = [item.value for item in _read(folder).Scalars(metric)]
            found.append((folder.name, min(values) if reading == "min" else values[-1]))
        return sorted(found, key=lambda item: item[1])[:num]

    def compare(
        self, store: Path, first: str, second: str, metrics: Sequence[str]
    ) -> dict[str, Any]:
        both = [_read(store / run) for run in (first, second)]
        params = [
            json.loads(item.Tensors("params/text_summary")[0].tensor_proto.string_val[0])
            for item in both
        ]
        return {
            "params": differing(*params),
            "metrics": {name: [item.Scalars(name)[-1].value for item in both] for name in metrics},
        }

    def series(self, store: Path, metric: str, runs: Sequence[str]) -> dict[str, Points]:
        return {run: _points(_read(store / run), metric) for run in runs}

    def recovered(self, store: Path, run: str, metrics: Sequence[str]) -> tuple[int, str]:
        read = _read(store / run)
        return sum(len(read.Scalars(name)) for name in metrics), "-"


def _read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    read.Reload()
    return read


def _points(read: Any, metric: str) -> Points:
    items = read.Scalars(metric)
    return [item.step for item in items], [item.value for item in items]
