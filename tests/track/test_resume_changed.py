"""A run that goes back to a step: without some batches, at another learning rate, or as it was."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import expdb
from expdb.errors import BadInput, NotFound, Refused
from expdb.model import Run, RunAt, RunState
from expdb.store.layout import StoreLayout
from expdb.store.points import read_series
from expdb.store.runs import read_run
from expdb.store.trash_checkpoints import entries
from tests.track import tiny_training as tiny

pytestmark = pytest.mark.slow
ACCUM = 2
SETTINGS = {"print": "quiet", "keep": {"last": None}}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs"


class Trained:
    """One process life: the handle, the state, what each update took, and how it ended."""

    def __init__(
        self,
        store: Path,
        *,
        steps: int = 12,
        stop_at: int | None = None,
        kill_at: int | None = None,
        accum: int = ACCUM,
        state: Any = None,
        evaluate: bool = False,
        **given: Any,
    ) -> None:
        # Generators that a forgotten restore would leave in another state than the first time.
        torch.manual_seed(70 if given.get("resume") else 1)
        random.seed(1), np.random.seed(1)
        self.state = tiny.build() if state is None else state
        settings = {**SETTINGS, **{k: given.pop(k) for k in ("skip_batches", "lr_scale")
                                   if k in given}}  # fmt: skip
        self.run = expdb.start(
            {"optim": {"lr": 0.01}, "seed": 1, "expdb": settings},
            name="tiny", store=store, objective={"metric": "val/loss"}, **given,
        )  # fmt: skip
        self.ids: dict[int, list[list[int]]] = {}
        self.code: Any = 0
        loop = expdb.Loop(
            self.run, self.state, max_steps=steps, accum=accum, save_every=4,
            eval_every=4, evaluate=(lambda k: {"val/loss": abs(k - 8) + 1.0}) if evaluate else None,
        )  # fmt: skip
        try:
            with self.run:
                for update in loop:
                    if loop.step == stop_at:
                        os.kill(os.getpid(), signal.SIGTERM)
                    if loop.step == kill_at:
                        raise KeyboardInterrupt
                    self.ids[loop.step] = []
                    for window in update:
                        self.ids[loop.step].append(self.state.loader.given[-1])
                        nll, n = tiny.summed_loss(self.state.models[""], window)
                        update.backward(nll, n)
                    update.step()
        except (SystemExit, KeyboardInterrupt) as stop:
            self.code = getattr(stop, "code", 130)

    @property
    def read(self) -> Run:
        return read_run(self.run.dir, store_root=self.run.store.root)

    @property
    def batches(self) -> list[list[int]]:
        return [one for step in sorted(self.ids) for one in self.ids[step]]


def series(trained: Trained, key: str, *, attempts: bool = False) -> dict[int, str]:
    table = read_series(trained.run.dir, [key], attempts=attempts)
    values = (value.hex() for value in table["value"].to_pylist())
    return dict(zip(table["step"].to_pylist(), values, strict=True))


def test_back_to_an_earlier_step_it_repeats_the_very_bits(store: Path) -> None:
    first = Trained(store)
    before = {key: series(first, key) for key in ("train/loss", "train/lr", "train/grad_norm")}
    again = Trained(store, resume=f"{first.run.id}@4")
    assert (again.run.id, again.run.resumed_from, again.read.state) == (
        first.run.id, 4, RunState.FINISHED,
    )  # fmt: skip
    assert {key: series(again, key) for key in before} == before
    assert again.batches == first.batches[4 * ACCUM :]
    assert again.state.digest() == first.state.digest()
    everything = read_series(first.run.dir, ["train/loss"], attempts=True)
    assert len(everything) == 12 + 8  # what was hidden can be read


def test_none_of_the_batches_skipped_is_taken_after(store: Path) -> None:
    first = Trained(store)
    again = Trained(store, resume=f"{first.run.id}@4", skip_batches=3)
    bad = first.batches[4 * ACCUM : 7 * ACCUM]
    assert again.batches[: 5 * ACCUM] == first.batches[7 * ACCUM : 12 * ACCUM]
    [_, attempt] = again.read.attempts
    assert attempt.intervention == {"skip_batches": 3, "skipped": [8, 13]}
    [event] = [one for one in again.read.events if one.rule == "intervention"]
    assert (event.step, event.message) == (4, "batches 8-13 skipped, those of 3 updates")
    taken = again.batches[: len(first.batches) - 7 * ACCUM]
    assert not [one for one in taken if one in bad]
    assert sorted(series(again, "train/loss")) == list(range(12))


def test_a_skip_is_not_lost_by_a_death_before_the_next_checkpoint(store: Path) -> None:
    first = Trained(store)
    died = Trained(store, resume=f"{first.run.id}@4", skip_batches=3, lr_scale=0.5, kill_at=6)
    assert died.code == 130
    again = Trained(store, resume=first.run.id)
    assert again.run.resumed_from == 4  # checkpoints 8 and 12 belong to what was left
    assert again.batches[: 5 * ACCUM] == first.batches[7 * ACCUM : 12 * ACCUM]
    assert again.state.loop.lr_scale == 0.5
    # A step that is named means that step, as it was.
    plain = Trained(store, resume=f"{first.run.id}@4")
    assert plain.batches == first.batches[4 * ACCUM :]
    assert plain.state.loop.lr_scale == 1.0
    assert plain.read.attempts[-1].intervention == {}


def rates(trained: Trained) -> dict[int, float]:
    return {step: float.fromhex(text) for step, text in series(trained, "train/lr").items()}


def test_the_scale_is_exact_and_outlives_every_later_resume(store: Path) -> None:
    first = Trained(store)
    plain = rates(first)
    Trained(store, resume=f"{first.run.id}@4", lr_scale=0.3, stop_at=6)
    Trained(store, resume=first.run.id, stop_at=9)
    last = Trained(store, resume=first.run.id)
    scaled = rates(last)
    assert scaled == {k: plain[k] * (0.3 if k >= 4 else 1.0) for k in range(12)}
    assert last.state.loop.lr_scale == 0.3
    assert [one.intervention for one in last.read.attempts] == [{}, {"lr_scale": 0.3}, {}, {}]
    assert "learning rate times 0.3 from step 4 on" in [one.message for one in last.read.events]
    # Half of it again: scales multiply.
    twice = Trained(store, resume=f"{first.run.id}@8", lr_scale=0.5)
    assert rates(twice)[8] == plain[8] * (0.3 * 0.5)


def test_a_scaled_rate_is_the_one_the_optimizer_uses(store: Path) -> None:
    """The same updates as with the rate written into the optimizer by hand, to the bit."""
    first = Trained(store)
    scaled = Trained(store, resume=f"{first.run.id}@8", lr_scale=0.25)

    def by_hand() -> Any:
        state = tiny.build()
        step = state.optims[""].step
        sched = state.scheds[""]

        def scaled_step(*words: Any) -> Any:
            [group] = state.optims[""].param_groups
            rate, group["lr"] = group["lr"], group["lr"] * 0.25
            done = step(*words)
            group["lr"] = rate
            return done

        state.optims[""].step = scaled_step
        sched.optimizer = state.optims[""]
        return state

    other = Trained(store, resume=f"{first.run.id}@8", state=by_hand())
    assert other.state.models[""].head.weight.equal(scaled.state.models[""].head.weight)
    assert not other.state.models[""].head.weight.equal(first.state.models[""].head.weight)


def test_a_fork_skips_too_and_takes_no_scale_of_its_parent(store: Path) -> None:
    first = Trained(store)
    Trained(store, resume=f"{first.run.id}@4", lr_scale=0.5)
    fork = Trained(store, fork=f"{first.run.id}@8", skip_batches=1)
    assert fork.run.id != first.run.id
    assert fork.batches[0] not in first.batches[8 * ACCUM : 9 * ACCUM]
    assert fork.state.loop.lr_scale == 1.0
    log = (fork.run.dir / "attempts/1/log.txt").read_text()
    assert "the checkpoint's rates were times 0.5; a fork has those of its config" in log
    assert fork.read.attempts[0].intervention["skipped"] == [16, 17]
    scaled = Trained(store, fork=f"{first.run.id}@8", lr_scale=0.5)
    assert rates(scaled)[8] == rates(first)[8]


def test_what_cannot_be_is_said_before_anything_is_written(store: Path) -> None:
    first = Trained(store)
    Trained(store, resume=f"{first.run.id}@4", stop_at=6)
    who, before = first.run.id, sorted(store.rglob("*"))
    for given, kind, said in (
        ({"resume": f"{who}@5"}, NotFound, "has no checkpoint 5; it has 4, 7"),
        ({"resume": f"{who}@8"}, Refused, "attempt 2 went on from an earlier step; it has 4, 7"),
        ({"skip_batches": 3}, BadInput, "this one is new"),
        ({"resume": who, "skip_batches": -1}, BadInput, "expdb.skip_batches is -1"),
        ({"resume": who, "skip_batches": 1.5}, BadInput, "expdb.skip_batches is 1.5"),
        ({"resume": who, "lr_scale": 0}, BadInput, "expdb.lr_scale is 0, not a number above 0"),
        ({"resume": who, "lr_scale": float("nan")}, BadInput, "expdb.lr_scale is nan"),
    ):
        with pytest.raises(kind) as caught:
            Trained(store, **given)
        assert said in caught.value.message, given
    assert sorted(store.rglob("*")) == before


@pytest.mark.parametrize(
    ("word", "step"),
    [("tiny@best", 8), ("tiny:prev@4", 4), ("tiny:s1@last", 12), ("{id4}@8", 8), ("{id}", 12)],
)
def test_a_fork_is_named_by_every_form_of_a_run(store: Path, word: str, step: int) -> None:
    first = Trained(store)
    second = Trained(store, evaluate=True)
    fork = Trained(store, fork=word.format(id=second.run.id, id4=second.run.id[:4]))
    parent = first.run.id if "prev" in word else second.run.id
    assert fork.read.fork == fork.read.parent == RunAt(run=parent, step=step)
    assert min(fork.ids, default=step) == step


def test_weights_that_are_written_anew_go_into_the_trash(store: Path) -> None:
    first = Trained(store)
    weights = (first.run.dir / "checkpoints/step=8/model.pt").read_bytes()
    Trained(store, resume=f"{first.run.id}@4", lr_scale=0.5)
    assert (first.run.dir / "checkpoints/step=8/model.pt").read_bytes() != weights
    aside = {one.step: one.path for one in entries(StoreLayout(store))}
    assert sorted(aside) == [8, 12]
    assert (aside[8] / "model.pt").read_bytes() == weights


def test_what_a_tag_or_a_fork_needs_is_not_written_over(store: Path) -> None:
    first = Trained(store)
    fork = Trained(store, fork=f"{first.run.id}@8")
    with pytest.raises(Refused) as caught:
        Trained(store, resume=f"{first.run.id}@4")
    assert f"checkpoint 8 of {first.run.id[:4]} tiny is kept for" in caught.value.message
    assert fork.run.id in caught.value.message
    assert Trained(store, resume=f"{first.run.id}@8", stop_at=9).code == 143


def test_a_loop_of_ones_own_cannot_skip_and_is_told(store: Path) -> None:
    first = Trained(store)
    cfg = {"optim": {"lr": 0.01}, "seed": 1, "expdb": {**SETTINGS, "skip_batches": 2}}
    run = expdb.start(
        cfg, name="tiny", store=store, objective={"metric": "val/loss"},
        resume=f"{first.run.id}@4",
    )  # fmt: skip
    with pytest.raises(BadInput, match=r"by expdb\.Loop alone"), run:
        run.restore(tiny.build())


def test_a_restarted_launch_goes_on_and_does_not_go_back(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPDB_LAUNCH", "one job")
    first = Trained(store)
    same = {"resume": f"{first.run.id}@4", "skip_batches": 1}
    Trained(store, **same, stop_at=9)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    again = Trained(store, **same)  # the command of a requeued job is the same
    assert again.run.resumed_from == 10
    assert again.read.attempts[-1].intervention == {}
