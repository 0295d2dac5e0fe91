"""What rules do by themselves: nothing unless asked, and then as a person would, to the bit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import expdb
from expdb.model import Run, RunState
from expdb.query.replay import replay
from expdb.store.points import read_series
from expdb.store.refs import read_refs
from expdb.store.runs import read_run
from tests.monitor.feeding import only
from tests.track import tiny_training as tiny

pytestmark = pytest.mark.slow
ACCUM = 2
SETTINGS = {"print": "quiet", "keep": {"last": None}, "dirty": "allow"}
RULE: dict[str, Any] = {
    "signal": "own/bad",
    "detector": "threshold",
    "above": 0.5,
    "cooldown": 0,
    "decision": "look",
    "runbook": {"cause": "a", "checks": "b", "action": "c"},
}
"""Fires at an update whose data are bad; the script says which."""


class Trained:
    """One process life of a tiny run with the rule `bad`, and how it ended."""

    def __init__(
        self,
        store: Path,
        actions: Any = (),
        *,
        bad: tuple[int, ...] = (),
        values: dict[int, float] | None = None,
        steps: int = 16,
        monitor: Any = None,
        save_every: int | None = 4,
        at_step: Any = lambda loop, run: None,
        **given: Any,
    ) -> None:
        torch.manual_seed(70 if given.get("resume") else 1)
        random.seed(1), np.random.seed(1)
        self.state = tiny.build()
        rules = only(bad={**RULE, "actions": actions}) if monitor is None else only(**monitor)
        settings = {**SETTINGS, "monitor": rules}
        settings |= {k: given.pop(k) for k in ("skip_batches", "lr_scale", "keep") if k in given}
        self.run = expdb.start(
            {"optim": {"lr": 0.01}, "seed": 1, "expdb": settings},
            name="tiny", store=store, objective={"metric": "val/loss"}, **given,
        )  # fmt: skip
        self.taken: list[tuple[int, list[int]]] = []
        self.code: Any = 0
        loop = self.loop = expdb.Loop(
            self.run, self.state, max_steps=steps, accum=ACCUM, save_every=save_every,
            eval_every=1 if values else 4,
            evaluate=lambda k: {"val/loss": (values or {}).get(k, 2.0)},
        )  # fmt: skip
        try:
            with self.run:
                for update in loop:
                    is_bad = False
                    for window in update:
                        self.taken.append((loop.step, self.state.loader.given[-1]))
                        is_bad |= self.state.loop.num_batches - 1 in bad
                        nll, n = tiny.summed_loss(self.state.models[""], window)
                        update.backward(nll, n)
                    step = loop.step
                    update.step()
                    self.run.log({"own/bad": float(is_bad)}, step=step)
                    at_step(loop, self.run)
        except SystemExit as stop:
            self.code = stop.code

    @property
    def read(self) -> Run:
        return read_run(self.run.dir, store_root=self.run.store.root)

    @property
    def said(self) -> list[str]:
        return [one.message for one in self.read.events if one.rule == "intervention"]

    def series(self, key: str, *, attempts: bool = False) -> list[tuple[int, str]]:
        table = read_series(self.run.dir, [key], attempts=attempts)
        values = (value.hex() for value in table["value"].to_pylist())
        return list(zip(table["step"].to_pylist(), values, strict=True))

    @property
    def weights(self) -> list[Any]:
        return [one.clone() for one in self.state.models[""].state_dict().values()]


def same(left: list[Any], right: list[Any]) -> bool:
    return all(one.equal(two) for one, two in zip(left, right, strict=True))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_without_an_action_a_rule_changes_nothing(store: Path, tmp_path: Path) -> None:
    plain, watched = Trained(tmp_path / "other", bad=()), Trained(store, bad=(12,))
    assert [one.rule for one in watched.read.events] == ["bad"]
    assert plain.read.events == ()
    assert plain.state.digest() == watched.state.digest()
    assert len(watched.read.attempts) == 1
    assert read_refs(watched.run.store.layout) == {}


def test_a_rewind_is_the_resume_that_a_person_would_make_to_the_bit(
    store: Path, tmp_path: Path
) -> None:
    """Update 9 is made of batches 18 and 19; two steps back before it stands checkpoint 4."""
    rewind = {"rewind": {"back": 2, "skip": 3, "lr_scale": 0.5}}
    auto = Trained(store, rewind, bad=(18,), steps=20)
    assert auto.read.state is RunState.FINISHED
    first, second = auto.read.attempts
    assert (first.number, second.number, second.resumed_from) == (1, 2, 4)
    assert second.intervention == {
        "skip_batches": 6, "skipped": [8, 19], "lr_scale": 0.5,
        "rewind": {"rule": "bad", "step": 9, "from": 10, "try": 1},
    }  # fmt: skip
    assert (second.pin.tree, second.data) == (first.pin.tree, first.data)
    hand = Trained(tmp_path / "hand", bad=(18,), steps=10)
    again = Trained(
        tmp_path / "hand", resume=f"{hand.run.id}@4", skip_batches=6, lr_scale=0.5, steps=20
    )
    assert again.read.attempts[-1].intervention["skipped"] == [8, 19]
    for key in ("train/loss", "train/grad_norm", "train/lr", "val/loss", "train/tokens"):
        assert dict(auto.series(key)) == dict(again.series(key)), key
    assert auto.state.digest() == again.state.digest()
    assert auto.taken[20:] == again.taken
    # What was left can be read, and counts no more.
    assert len(auto.series("train/loss", attempts=True)) == 20 + 6
    assert auto.read.series["train/loss"].count == 20
    assert auto.said == [
        "bad at 9: went back from step 10 to 4, try 1 of 2",
        "learning rate times 0.5 from step 4 on",
        "batches 8-19 skipped, those of 6 updates",
    ]
    assert replay(auto.run.dir).is_equal
    logs = [(auto.run.dir / f"attempts/{n}/log.txt").read_text() for n in (1, 2)]
    assert "went back" not in logs[0]
    assert "went back from step 10 to 4" in logs[1]
    assert "finished" in logs[1]
