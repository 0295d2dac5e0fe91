"""Curves over tokens: a real run counts what it saw, and a resume goes on with the count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import expdb
from expdb.store.points import read_series
from tests.track.tiny_linear import drive, linear

ROWS = [
    (torch.ones(4, 3).double(), torch.tensor([1.0] * valid + [0.0] * (4 - valid)).double())
    for valid in (4, 1, 3)
]


class Endless:
    """The rows over and over; knows where it is."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self):
        while True:
            self.at += 1
            yield ROWS[(self.at - 1) % len(ROWS)]

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, saved: dict[str, int]) -> None:
        self.at = saved["at"]


class Cut(Exception):
    """What ends a training before its time."""


def train(store: Path, *, to: int, resume: str | None = None, is_cut: bool = False) -> str:
    settings = {"print": "quiet", "keep": {"last": 1, "best": 0}}
    with expdb.start({"seed": 1, "expdb": settings}, name="e", store=store, resume=resume) as run:
        options = {"eval_every": 2, "evaluate": lambda step: {"val/loss": 3.0 - step / 10}}
        drive(run, linear(Endless()), max_steps=to, **options)
        if is_cut:
            raise Cut(run.id)
        return run.id


def tokens_of(folder: Path) -> dict[int, float]:
    table = read_series(folder, ["train/tokens"], problems=[])
    return dict(zip(table["step"].to_pylist(), table["value"].to_pylist(), strict=True))


def test_a_curve_over_tokens_is_the_same_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # no commit of this repository is pinned
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    one = train(straight, to=7)
    with pytest.raises(Cut) as caught:
        train(stopped, to=3, is_cut=True)
    other = str(caught.value)
    train(stopped, to=7, resume=other)
    stores = [expdb.open(straight), expdb.open(stopped)]
    folders = [store.run(run).path for store, run in zip(stores, (one, other), strict=True)]
    seen = np.cumsum([0, 4, 1, 3, 4, 1, 3, 4])
    for folder in folders:
        assert tokens_of(folder) == dict(enumerate(seen.tolist()))
    curves = [
        store.curve("val/loss", run=run, x="tokens")
        for store, run in zip(stores, (one, other), strict=True)
    ]
    assert curves[0].x.tolist() == seen[[0, 2, 4, 6, 7]].tolist()
    assert curves[0].mid.tolist() == [3.0, 2.8, 2.6, 2.4, 2.3]
    kept = np.isin(curves[1].x, curves[0].x)  # it was evaluated at its stop, too
    assert curves[1].x[kept].tolist() == curves[0].x.tolist()
    assert curves[1].x[~kept].tolist() == [seen[3]]
    losses = [store.curve("train/loss", run="e", x="tokens") for store in stores]
    assert losses[0].x.tolist() == losses[1].x.tolist() == seen[:7].tolist()
    assert losses[0].mid.tolist() == losses[1].mid.tolist()
