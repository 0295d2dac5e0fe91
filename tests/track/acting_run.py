"""A tiny run with one rule, `bad`, whose alert the data bring about, and how its process ended."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch

import expdb
from expdb.model import Run
from expdb.store.points import read_series
from expdb.store.runs import read_run
from tests.monitor.feeding import only
from tests.track import tiny_training as tiny

ACCUM = 2
SETTINGS = {"print": "quiet", "keep": {"last": None}}
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
        nan_at: int | None = None,
        at_step: Any = lambda loop, run: None,
        at_eval: Any = lambda step, run: None,
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

        def evaluate(step: int) -> dict[str, float]:
            at_eval(step, self.run)
            return {"val/loss": (values or {}).get(step, 2.0)}

        loop = self.loop = expdb.Loop(
            self.run, self.state, max_steps=steps, accum=ACCUM, save_every=save_every,
            eval_every=1 if values else 4,
            evaluate=evaluate,
        )  # fmt: skip
        try:
            with self.run:
                for update in loop:
                    is_bad = False
                    for window in update:
                        self.taken.append((loop.step, self.state.loader.given[-1]))
                        is_bad |= self.state.loop.num_batches - 1 in bad
                        nll, n = tiny.summed_loss(self.state.models[""], window)
                        update.backward(nll * (math.nan if loop.step == nan_at else 1.0), n)
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
