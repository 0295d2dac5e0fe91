"""Leave one item of a checkpoint out: the comparison sees it, or the resume refuses it by name.

Without this, "resume works" proves nothing: what no scenario needs could be lost unseen.
"""

from __future__ import annotations

import random
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from expdb.errors import BadInput
from expdb.store.recover import recover
from expdb.track.checkpoint import load_checkpoint
from expdb.track.plain import plain
from tests.resume import tiny_moe
from tests.resume.test_resume_exact import PLAIN, job
from tests.resume.traces import END, Trace, differences, edit, layout_of, trace, work

pytestmark = pytest.mark.slow

AT, GOAL = 20, 32
LATER = -1
"""Some loss after the first point: which one hangs on where half precision overflows."""
BARE = {**PLAIN, "watched": False}
Files = dict[str, Any]
Change = Callable[[Files], None]


def fresh() -> Files:
    """What another process has before it restores anything: the tree of every part."""
    random.seed(77)
    np.random.seed(77)
    state = tiny_moe.build(seed=77)
    return {name: part.tree for name, part in state.collect(0).items()}


def generators(name: str) -> Change:
    def change(files: Files) -> None:
        files["state"]["ranks"][0]["rng"][name] = fresh()["ranks"][0]["rng"][name]

    return change


def loader(*names: str) -> Change:
    """Reset the loader's generator, its place, or both with its order."""

    def change(files: Files) -> None:
        mine = files["state"]["ranks"][0]["loader"]
        mine.update({name: fresh()["ranks"][0]["loader"][name] for name in names})

    return change


def of_optimizer(name: str) -> Change:
    def change(files: Files) -> None:
        for one in files["optim"]["state"].values():
            one[name] = torch.zeros_like(one[name])

    return change


def whole_optimizer(files: Files) -> None:
    files["optim"]["state"] = {}


def learning_rate(files: Files) -> None:
    files["optim"]["param_groups"][0]["lr"] = 1e-2


def decay(files: Files) -> None:
    files["optim"]["param_groups"][0]["weight_decay"] = 0.0


def model(*endings: str) -> Change:
    def change(files: Files) -> None:
        found = [name for name in files["model"] if name.endswith(endings)]
        assert found
        for name in found:
            files["model"][name] = fresh()["model"][name]

    return change


def averaged(files: Files) -> None:
    files["ema"].update(fresh()["ema"])


def num_averaged(files: Files) -> None:
    files["ema"]["n_averaged"] = torch.zeros_like(files["ema"]["n_averaged"])


def shared(name: str) -> Change:
    """Reset one of the parts that state.pt holds: sched, scaler."""

    def change(files: Files) -> None:
        files["state"][name] = plain(fresh()[name], name)

    return change


def scaler_tracker(files: Files) -> None:
    files["state"]["scaler"]["_growth_tracker"] = 0


def extra(name: str) -> Change:
    def change(files: Files) -> None:
        files["state"]["extra"][name] = fresh()["extra"][name]

    return change


def counter(name: str) -> Change:
    """Take one field out of the loop's state: it is what a new loop has."""

    def change(files: Files) -> None:
        del files["state"]["loop"][name]

    return change


def everything_of_the_loop(files: Files) -> None:
    files["state"]["loop"] = {}


def without(*path: str | int) -> Change:
    """Take an item out of the files altogether."""

    def change(files: Files) -> None:
        tree: Any = files
        for key in path[:-1]:
            tree = tree[key]
        del tree[path[-1]]
        if path[0] == "state" and len(path) == 2:
            del files["manifest"]["parts"][path[1]]

    return change


SEEN: dict[str, tuple[Change, int | None, int]] = {
    # item: (what is changed, the first loss that differs, the first point of any key)
    "torch generator": (generators("torch"), 20, 20),  # dropout
    "numpy generator": (generators("numpy"), 20, 20),
    "loader": (loader("order", "at", "generator"), 20, 20),
    "loader's generator": (loader("generator"), 30, 30),  # an epoch has 15 updates
    "bias of the router": (model("bias_E"), 20, 20),
    # The update of 20 starts from right weights; what it makes of them is seen at 21.
    "optimizer": (whole_optimizer, 21, 21),
    "Adam's step": (of_optimizer("step"), 21, 21),
    # The rate in force is the optimizer's own; the first step of the schedule spoils the next one.
    "schedule": (shared("sched"), 22, 21),
    # Where gradients overflow hangs on the scale: another update is skipped.
    "scaler": (shared("scaler"), LATER, 20),
    "averaged weights": (averaged, None, 30),  # the next evaluation
    "tokens": (counter("tokens"), None, 20),
    "whole loop": (everything_of_the_loop, LATER, 20),
}
MORE: dict[str, tuple[Change, int | None, int]] = {
    "python generator": (generators("python"), 20, 20),
    "own torch generator": (extra("noise"), 20, 20),
    "loader's place": (loader("at"), 20, 20),
    "weights": (model("weight"), 20, 20),
    "model's buffer": (model("seen"), 20, 20),
    # Six updates of seven are counted at 20; the bias moves after that of 20.
    "load of the router": (model("load_E"), LATER, 20),
    "learning rate": (learning_rate, 21, 20),
    # The update of 19 was the first after the scale grew; that of 21 is the third.
    "scaler's tracker": (scaler_tracker, LATER, 21),
    "plain data": (extra("phase"), None, END),
    "skipped updates": (counter("num_skipped"), None, 20),
    "epoch": (counter("epoch"), None, END),
    "clipped updates": (counter("clipped"), None, END),
    # A power of two, so that dividing by it is exact; it only moves the overflow.
    "nominal": (counter("nominal"), LATER, 22),
    "own numpy generator": (extra("more"), 20, 20),
    "optimizer of one parameter": (without("optim", "state", 3), 21, 21),
    "Adam's first moment": (of_optimizer("exp_avg"), 21, 21),
    "Adam's second moment": (of_optimizer("exp_avg_sq"), 21, 21),
    "weight decay": (decay, 21, 21),
    "number averaged": (num_averaged, None, 30),
    "best value": (counter("best_value"), None, END),
    "best step": (counter("best_step"), None, END),
}
"""For `make soak` only."""
"""`step` is the folder's own; `evaluated_step` has a test of its own."""


def without_file(name: str) -> Change:
    def change(files: Files) -> None:
        del files["manifest"]["parts"][name], files["manifest"]["files"][f"{name}.pt"]

    return change


REFUSED: dict[str, tuple[Change, str]] = {
    **{name: (without_file(name), f"no {name}") for name in ("model", "optim", "ema")},
    **{
        name: (without("state", name), f"no {name}")
        for name in ("sched", "scaler", "ranks", "loop", "extra")
    },
    "rng": (without("state", "ranks", 0, "rng"), "no generators"),
    "loader": (without("state", "ranks", 0, "loader"), "no place of the loader"),
    "torch": (without("state", "ranks", 0, "rng", "torch"), "no generator of torch"),
    "numpy": (without("state", "ranks", 0, "rng", "numpy"), "no generator of numpy"),
    "python": (without("state", "ranks", 0, "rng", "python"), "no generator of python"),
    "own generator": (without("state", "extra", "noise"), "no extra.noise"),
    "a parameter": (without("model", "head.weight"), "model does not fit"),
    "a buffer": (without("model", "seen"), "model does not fit"),
    "a group": (without("optim", "param_groups", 0), "optim does not fit"),
    "a step": (without("optim", "state", 3, "step"), "optim does not fit: it has no 'step'"),
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trace]:
    """A run killed at 23 with its checkpoint of 20, and the same training to its end."""
    folder = tmp_path_factory.mktemp("without")
    killed, straight = folder / "killed", folder / "straight"
    jobs = [
        job(killed, 1, BARE, signal="SIGKILL", at=23),
        job(straight, 1, BARE, goal=GOAL),
    ]
    assert work(folder, jobs) == [-signal.SIGKILL, 0]
    recover(killed, layout_of(killed))  # once, not in every copy
    return killed, trace(straight, Path(jobs[1]["out"]))


def mutations(killed: Path, changes: dict[str, Change]) -> dict[str, Trace]:
    """Change a copy of the run by each of these; one new process goes on with all to their ends."""
    jobs = {}
    for number, (name, change) in enumerate(changes.items()):
        store = killed.parent / f"{name.replace(' ', '-')}-{number}"
        shutil.copytree(killed, store)
        edit(layout_of(store), AT, change)
        jobs[name] = job(store, 30 + number, BARE, resume=layout_of(store).id, goal=GOAL)
    assert set(work(killed.parent, list(jobs.values()))) == {0}
    return {name: trace(Path(one["store"]), Path(one["out"])) for name, one in jobs.items()}


@pytest.fixture(scope="module")
def mutated(stores: tuple[Path, Trace]) -> dict[str, Trace]:
    changes: dict[str, Change] = {name: change for name, (change, *_) in SEEN.items()}
    changes["nothing"] = lambda files: None
    changes["evaluated step"] = counter("evaluated_step")
    return mutations(stores[0], changes)


def test_a_checkpoint_that_is_written_again_is_as_good(
    stores: tuple[Path, Trace], mutated: dict[str, Trace]
) -> None:
    """So what the tests below see comes from what they left out."""
    assert differences(stores[1], mutated["nothing"]) == {}


def require_seen(straight: Trace, found: Trace, loss: int | None, first: int) -> None:
    """The loss and all points differ from where they have to, and so does the end."""
    steps = differences(straight, found)
    assert min(steps.values(), default=None) == first
    if loss == LATER:
        assert first < steps["train/loss"] < GOAL
    else:
        assert steps.get("train/loss") == loss
    assert "state" in steps


@pytest.mark.parametrize("item", SEEN)
def test_an_item_that_is_lost_is_seen(
    stores: tuple[Path, Trace], mutated: dict[str, Trace], item: str
) -> None:
    require_seen(stores[1], mutated[item], *SEEN[item][1:])


@pytest.mark.soak
def test_soak_more_items_that_are_lost_are_seen(stores: tuple[Path, Trace]) -> None:
    found = mutations(stores[0], {name: change for name, (change, *_) in MORE.items()})
    for name, (_, *steps) in MORE.items():
        require_seen(stores[1], found[name], *steps)


def test_an_evaluation_that_was_done_is_not_done_again(
    stores: tuple[Path, Trace], mutated: dict[str, Trace]
) -> None:
    twice = {step: [1] for step in (0, 10, 20)} | {30: [2], 32: [2]}
    assert mutated["nothing"].evaluated == twice
    assert mutated["evaluated step"].evaluated == {**twice, 20: [1, 2]}
    assert differences(stores[1], mutated["evaluated step"]) == {}


@pytest.mark.parametrize("item", REFUSED)
def test_an_item_that_is_missing_is_named(
    stores: tuple[Path, Trace], tmp_path: Path, item: str
) -> None:
    change, said = REFUSED[item]
    store = tmp_path / "runs"
    shutil.copytree(stores[0], store)
    edit(layout_of(store), AT, change)
    with pytest.raises(BadInput, match=re.escape(said)):
        load_checkpoint(layout_of(store), AT, tiny_moe.build(seed=9))
